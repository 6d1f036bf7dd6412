"""A recurrent layer whose cell attends to a memory at every step.

Shapes: B batch, T steps, S keys, H heads, D width of an input, U units of the cell, V
width of a value, A width of the attentional vector.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.arguments import check_shape, one_of, positive
from keras_attention.layers.base.cells import (
    as_before,
    as_cell,
    check_states,
    initial_state,
    last,
    replace_state,
    sequence_dropout,
    state_widths,
    time_swapped,
    width_of,
)
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics import masks
from keras_attention.ops.sequence import loop

Tensor = Any


class State(NamedTuple):
    """The state between two steps of an `AttentionRNN`."""

    cell: Any  # s, the state of the cell: a structure of (B, U)
    feedback: Any  # with input feeding h̃ (B, A) or c (B, V), else `()`
    attention: Any  # the state of each layer, `()` if it has none


class StepOutput(NamedTuple):
    """The output of one step of an `AttentionRNN`."""

    output: Tensor  # the cell's output (B, U), or with input feeding h̃ (B, A)
    context: Tensor  # c (B, V)
    weights: Any  # α of each layer, (B, S) or (B, H, S); `()` if not requested


@export
class AttentionRNN(Configured, keras.layers.Layer):
    """Runs any Keras cell over a sequence, and attends to a memory at each step.

    With `order="before"`, the previous state of the cell is the query, and the cell
    reads the context (Bahdanau):

        cₜ, αₜ = attention(sₜ₋₁, memory)
        sₜ     = cell([xₜ; cₜ], sₜ₋₁)

    With `order="after"`, the new state is the query (Luong):

        sₜ     = cell(xₜ, sₜ₋₁)        or cell([xₜ; h̃ₜ₋₁], sₜ₋₁) with input feeding
        cₜ, αₜ = attention(sₜ, memory)

    The output is [sₜ; cₜ], or with `attention_units` the attentional vector h̃ₜ =
    tanh(W_c [cₜ; sₜ]). The keys of the memory are projected once, before the loop. The
    cell is used without changes. The query is the first state of the cell, or of the
    last cell of a stack; for Keras' cells, this state equals their output.

    Args:
        cell: a Keras cell such as `keras.layers.LSTMCell(units)`, or a list of stacked
            cells. Its dropout and recurrent dropout are sampled once per sequence, as
            in `keras.layers.RNN`.
        attention: an attention layer such as `BahdanauAttention(units)` or
            `MultiHeadAttention(num_heads, key_dim)`, an attention layer of Keras, or a
            custom layer with the call of Keras' attention layers. With a list of
            layers, their outputs are concatenated. A Keras layer with dropout raises an
            error during training, because it would sample inside the loop.
        order: "before" or "after".
        attention_units: A, the width of the attentional vector; None for [s; c].
        input_feeding: whether the cell also reads the previous attentional vector
            h̃ₜ₋₁ (or cₜ₋₁ if `attention_units` is None). It requires `order="after"`.
        return_sequences: whether to return the outputs of all steps.
        return_state: whether to return the last state as well.

    Call arguments:
        inputs: (B, T, D).
        memory: (B, S, V); or a list with one memory for each attention layer.
        key: (B, S, ·), defaults to the memory; a list if `memory` is a list.
        initial_state: the states of the cell, for instance from an encoder, as a list
            of tensors (B, U); or the whole state returned with `return_state`. Defaults
            to zeros.
        inputs_mask: booleans (B, T). A step with False does not change the state, and
            has output and weights 0.
        memory_mask: booleans (B, S), or a list.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.

    Returns:
        The outputs (B, T, U + V), or (B, T, A) with `attention_units`. Without
        `return_sequences`, only the output of the last unmasked step. With
        `return_state`, the tensors of the state follow: the states of the cell, the fed
        vector and the states of the attention. With `return_attention_scores`, the
        weights are last: (B, T, S), or (B, H, T, S) for an attention layer with heads.
        If `attention` is a list, the weights are a list.

    Masking:
        Boolean, True = valid. If a mask is not given, the mask that the tensor carries
        is used. Masked entries of the memory are never read; if all are masked, cₜ is
        0. The outputs carry the mask of the inputs.

    Raises:
        ValueError: for a `cell` that is not a cell, an `attention` that is not an
            attention layer, a state with the wrong structure, an empty memory, or masks
            that do not fit.

    Example:

    >>> import keras, numpy as np
    >>> from keras_attention.layers import AttentionRNN, BahdanauAttention
    >>> x, memory = np.ones((2, 3, 4), "float32"), np.ones((2, 7, 5), "float32")
    >>> rnn = AttentionRNN(keras.layers.GRUCell(6), BahdanauAttention(8),
    ...                    return_sequences=True)
    >>> y, weights = rnn(x, memory, return_attention_scores=True)
    >>> tuple(y.shape), tuple(weights.shape)
    ((2, 3, 11), (2, 3, 7))

    Reference:
        Bahdanau et al., "Neural machine translation by jointly learning to align and
        translate" (2015), section 3.1; Luong et al., "Effective approaches to
        attention-based neural machine translation" (2015), section 3, equation 5, and
        section 3.3 (input feeding).
    """

    float_inputs = ("inputs", "memory")

    def __init__(
        self,
        cell: Any,
        attention: Any,
        order: str = "before",
        attention_units: int | None = None,
        input_feeding: bool = False,
        return_sequences: bool = False,
        return_state: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.cell = as_cell(cell)
        # The position of the query, the first state of the (last) cell, among all.
        widths = state_widths(self.cell), state_widths(self.cell, whole=True)
        self._query_index = len(widths[1]) - len(widths[0])
        self.order = one_of("order", order, ("before", "after"))
        if input_feeding and order == "before":
            raise ValueError(
                "`input_feeding` needs order='after': with order='before', the cell "
                "reads what was attended to in any case. Received: order='before'"
            )
        self.is_list = isinstance(attention, (list, tuple))
        self.attentions = attention_list(attention)
        self.attention_units = attention_units
        self.input_feeding = input_feeding
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.combine = None
        if attention_units is not None:
            self.combine = keras.layers.Dense(
                positive("attention_units", attention_units),
                "tanh",
                use_bias=False,
                dtype=self.dtype_policy,
                name="combine",
            )

    def build(
        self, inputs_shape: Any, memory_shape: Any, key_shape: Any = None
    ) -> None:
        batch, width = inputs_shape[0], inputs_shape[-1]
        query = keras.KerasTensor((batch, 1, state_widths(self.cell)[0]))
        memories = self._split_memory(_symbolic(memory_shape), _symbolic(key_shape))
        # Keras tracks and saves `attentions`, but not `protocol`.
        attentions = [as_attention(layer) for layer in self.attentions]
        self.protocol = SimpleNamespace(attentions=attentions)
        self.context_width = 0
        for attention, (value, key, _) in zip(attentions, memories):
            check_inputs(keras.KerasTensor(inputs_shape), value)
            attention.check_widths(query, value, key)
            if not attention.built:
                attention.build(query.shape, value.shape, key.shape)
            widths = query.shape[-1], value.shape[-1]
            self.context_width += attention.output_width(*widths)
        if self.order == "before":
            width += self.context_width
        elif self.input_feeding:
            width += self.attention_units or self.context_width
        self.input_width = width
        if not self.cell.built:
            self.cell.build((batch, width))
            self.cell.built = True
        if self.combine is not None:
            self.combine.build((batch, None, self.context_width + width_of(self.cell)))
        self.built = True

    def call(
        self,
        inputs: Tensor,
        memory: Any,
        key: Any = None,
        initial_state: Any = None,
        inputs_mask: Tensor | None = None,
        memory_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        if inputs_mask is not None:
            inputs_mask = masks.check("inputs_mask", inputs_mask, inputs.shape[:2])
        prepared = self.prepare(memory, key, memory_mask)
        if len(inputs.shape) != 3 or inputs.shape[0] != prepared[0].value.shape[0]:
            first = memory[0] if isinstance(memory, (list, tuple)) else memory
            check_inputs(inputs, first)
        shape = ops.shape(inputs)[:2]  # (B, T)
        state = self.start(prepared, shape[0], initial_state)
        recording = is_recording()
        return_weights = return_attention_scores or recording is not None
        random = self.sample(prepared, shape, training)
        # The loop need not attend if no cell step needs the context.
        stateless = all(isinstance(s, tuple) and not s for s in state.attention)
        at_once = self.order == "after" and not self.input_feeding and stateless
        sequence: dict[str, Any] = {"inputs": inputs}
        if inputs_mask is not None:
            sequence["mask"] = ops.broadcast_to(inputs_mask, shape)
        if random is not None and not at_once:
            sequence["random"] = random
        in_loop = None if at_once else prepared
        with sequence_dropout(self.cell, self.input_width, state.cell):
            state, outputs = loop.scan(
                lambda state, now: self.step(
                    now["inputs"],
                    state,
                    in_loop,
                    now.get("random"),
                    training,
                    return_weights,
                    now.get("mask"),
                ),
                state,
                time_swapped(sequence),
            )
        output, context = (ops.swapaxes(x, 0, 1) for x in outputs[:2])  # (B, T, ·)
        # (T, B, S) to (B, T, S), (T, B, H, S) to (B, H, T, S)
        weights = tuple([ops.moveaxis(alpha, 0, -2) for alpha in outputs.weights])
        if at_once:  # `context` still contains the queries
            context, weights, _ = self._attend(
                context, state.attention, prepared, random, return_weights
            )
        output = self.read_out(StepOutput(output, context, weights))  # (B, T, ·)
        if inputs_mask is not None:
            output, weights = hide_steps(inputs_mask, output, weights)
        if recording is not None:
            self.record_weights(weights)
        if not self.return_sequences:
            output = last(output, inputs_mask)
        returned = [output]
        if self.return_state:
            returned += keras.tree.flatten(tuple(state))
        if return_attention_scores:
            returned.append(list(weights) if self.is_list else weights[0])
        return tuple(returned) if len(returned) > 1 else output

    def record_weights(self, weights: tuple) -> None:
        """Records the weights of each attention layer, (B, T, S) or (B, H, T, S)."""
        for layer, array in zip(self.attentions, weights):
            record(f"{self.path}/{layer.name}" if self.is_list else self.path, array)

    def prepare(self, memory: Any, key: Any = None, mask: Any = None) -> tuple:
        """Projects the keys of the memory once, for all steps; see `Attention.prepare`.

        Args:
            memory: (B, S, V), or a list with one memory for each attention layer.
            key: (B, S, ·), defaults to the memory.
            mask: booleans (B, S), or a list.

        Returns:
            The prepared memories of all attention layers, for `step`.
        """
        memories = zip(self.protocol.attentions, self._split_memory(memory, key, mask))
        return tuple([attention.prepare(*memory) for attention, memory in memories])

    def _split_memory(self, memory: Any, key: Any, mask: Any = None) -> list[tuple]:
        """Returns the value, key and mask of each attention layer, after checks."""
        count = len(self.attentions)
        arguments = {"memory": memory, "key": memory if key is None else key}
        arguments["memory_mask"] = mask
        for name, argument in arguments.items():
            if not isinstance(argument, (list, tuple)):
                arguments[name] = [argument] * count
            elif len(argument) != count:
                raise ValueError(
                    f"`{name}` must be one tensor, or a list of one for each "
                    f"attention: there are {count}. Received: {len(argument)}"
                )
        memories = list(zip(*arguments.values()))
        for value, key, mask in memories:
            if len(value.shape) != 3 or 0 in value.shape[1:2] or value is not key:
                check_memory(value, key)
            if mask is not None and tuple(mask.shape) != tuple(value.shape[:2]):
                masks.check("memory_mask", mask, tuple(value.shape[:2]))
        return memories

    def start(self, prepared: tuple, batch: Any, initial: Any = None) -> State:
        """Returns the initial state.

        Args:
            prepared: the result of `prepare`.
            batch: B, an integer or a tensor.
            initial: the states of the cell, or the whole state returned with
                `return_state`, as a list of tensors; None for zeros.
        """
        feedback: Any = ()
        if self.input_feeding:
            width = self.attention_units or self.context_width
            feedback = ops.zeros((batch, width), self.compute_dtype)
        attention = [
            layer.initial_state(memory)
            for layer, memory in zip(self.protocol.attentions, prepared)
        ]
        cell = initial_state(self.cell, batch, self.compute_dtype)
        state = State(cell, feedback, tuple(attention))
        if initial is None:
            return state
        shapes = [tuple(x.shape) for x in keras.tree.flatten(tuple(state))]
        count = len(keras.tree.flatten(cell))
        return replace_state(state, check_states(initial, shapes, count, "cell"))

    def sample(
        self, prepared: tuple, shape: tuple[Any, Any], training: bool | None
    ) -> tuple | None:
        """Samples the random numbers of all attention layers, before the loop.

        Args:
            prepared: the result of `prepare`.
            shape: (B, T).
            training: whether the layer is in training mode.

        Returns:
            A tuple with a structure of tensors (B, T, ·) for each attention layer, or
            `()` for a layer that is not random. None if no layer is random.
        """
        random = [
            layer.sample((*shape, ops.shape(memory.value)[1]), training)
            for layer, memory in zip(self.protocol.attentions, prepared)
        ]
        if all(samples is None for samples in random):
            return None
        return tuple([() if samples is None else samples for samples in random])

    def step(
        self,
        inputs: Tensor,
        state: State,
        prepared: Any,
        random: tuple | None = None,
        training: bool | None = None,
        return_weights: bool = True,
        mask: Tensor | None = None,
    ) -> tuple[State, StepOutput]:
        """Computes one step.

        With input feeding, this method also computes the attentional vector.
        Otherwise, `read_out` computes it.

        Args:
            inputs: xₜ, (B, D).
            state: the state of the previous step.
            prepared: the result of `prepare`. With None, the step does not attend, and
                returns the query in place of the context.
            random: the result of `sample` for this step.
            training: the training mode of the cell.
            return_weights: whether to return the weights.
            mask: booleans (B,). The state of examples with False does not change.

        Returns:
            The state, and the argument of `read_out`.
        """
        cell, feedback, attention = state
        weights: tuple = ()
        read = [inputs]
        if self.order == "before":
            query = keras.tree.flatten(cell)[self._query_index]  # (B, U)
            context, weights, attention = self._attend(
                query, attention, prepared, random, return_weights
            )
            read.append(context)
        elif self.input_feeding:
            read.append(feedback)
        x = inputs if len(read) == 1 else ops.concatenate(read, axis=-1)
        options = {"training": training} if kernels.takes_training(self.cell) else {}
        output, new = self.cell(x, cell, **options)
        cell = as_before(new, cell)
        if self.order == "after":
            context = keras.tree.flatten(cell)[self._query_index]
            if prepared is not None:
                context, weights, attention = self._attend(
                    context, attention, prepared, random, return_weights
                )
        if self.input_feeding:
            feedback = context
            if self.combine is not None:
                output = self.combine(ops.concatenate([context, output], -1))
                # On torch and JAX, Keras' products of float64 are in float32.
                feedback = output = ops.cast(output, self.compute_dtype)
        new_state = State(cell, feedback, attention)
        if mask is not None:
            new_state = loop.choose(mask, new_state, state)
        return new_state, StepOutput(output, context, weights)

    def _attend(
        self,
        query: Tensor,
        states: tuple,
        prepared: tuple,
        random: tuple | None,
        return_weights: bool,
    ) -> tuple[Tensor, tuple, tuple]:
        """Calls each attention layer with queries (B, U) or (B, T, U).

        Returns c of all layers, the α of each, or `()`, and their states.
        """
        is_step = len(query.shape) == 2
        if is_step:
            query = ops.expand_dims(query, 1)  # (B, 1, U)
            random = keras.tree.map_structure(lambda x: x[:, None], random or ())
        contexts, weights, new = [], [], []
        for n, attention in enumerate(self.protocol.attentions):
            mask = prepared[n].mask
            context, alpha, state = attention.attend_from_state(
                ops.cast(query, attention.compute_dtype),
                prepared[n],
                None if mask is None else ops.expand_dims(mask, 1),  # (B, 1, S)
                states[n],
                random[n] if random and keras.tree.flatten(random[n]) else None,
                return_weights,
            )
            contexts.append(ops.cast(context, self.compute_dtype))
            new.append(state)
            if return_weights:
                alpha = ops.squeeze(alpha, -2) if is_step else alpha
                weights.append(ops.cast(alpha, self.compute_dtype))
        context = contexts[0] if len(contexts) == 1 else ops.concatenate(contexts, -1)
        context = ops.squeeze(context, 1) if is_step else context
        return context, tuple(weights), tuple(new)

    def read_out(self, step: StepOutput) -> Tensor:
        """Returns [s; c] (..., U + V) or h̃ (..., A) from the result of `step`."""
        if self.combine is None:
            return ops.concatenate([step.output, step.context], axis=-1)
        if self.input_feeding:
            return step.output
        return self.combine(ops.concatenate([step.context, step.output], axis=-1))

    def compute_output_spec(
        self,
        inputs: Tensor,
        memory: Any,
        key: Any = None,
        initial_state: Any = None,
        return_attention_scores: bool = False,
        **arguments: Any,
    ) -> Any:
        form = "(batch, steps, width)"
        check_shape("inputs", inputs.shape, form, known_width=True)
        values = [value for value, _, _ in self._split_memory(memory, key)]
        layers = [*zip(map(as_attention, self.attentions), values)]
        query_width, dtype = state_widths(self.cell)[0], self.compute_dtype
        context_width = sum(
            layer.output_width(query_width, value.shape[-1]) for layer, value in layers
        )
        batch, steps = inputs.shape[:2]
        width = self.attention_units or width_of(self.cell) + context_width
        shape = (batch, steps, width) if self.return_sequences else (batch, width)
        returned: list[Any] = [keras.KerasTensor(shape, dtype)]
        if self.return_state:
            widths = state_widths(self.cell, True)
            if self.input_feeding:
                widths.append(self.attention_units or context_width)
            returned += [keras.KerasTensor((batch, n), dtype) for n in widths]
            for layer, value in layers:
                shapes = layer.state_shapes(tuple(value.shape[:2]))
                returned += [keras.KerasTensor(s, "float32") for s in shapes]
        if return_attention_scores:
            weights = [
                keras.KerasTensor(
                    layer.weights_shape(batch, steps, value.shape[1]), dtype
                )
                for layer, value in layers
            ]
            returned.append(weights if self.is_list else weights[0])
        return tuple(returned) if len(returned) > 1 else returned[0]

    @property
    def attention(self) -> Any:
        """The attention layer, or the list of attention layers."""
        return self.attentions if self.is_list else self.attentions[0]

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask if self.return_sequences else None


def hide_steps(mask: Tensor, output: Tensor, weights: tuple) -> tuple[Tensor, tuple]:
    """Sets outputs and weights to 0 at the steps where the mask (B, T) is False."""
    is_valid = ops.expand_dims(mask, -1)  # (B, T, 1)
    output = ops.where(is_valid, output, ops.zeros_like(output))
    shown = []
    for alpha in weights:
        rows = is_valid if len(alpha.shape) == 3 else ops.expand_dims(is_valid, 1)
        shown.append(ops.where(rows, alpha, ops.zeros_like(alpha)))
    return output, tuple(shown)


def attention_list(attention: Any) -> list[Any]:
    """Returns one or several attention layers as a list, which must not be empty."""
    layers = list(attention) if isinstance(attention, (list, tuple)) else [attention]
    for layer in layers or [attention]:
        as_attention(layer, "attention")
    return layers


def _symbolic(shape: Any) -> Any:
    """Returns symbolic tensors for a shape, a list of shapes or None."""
    if shape is None:
        return None
    if isinstance(shape[0], (list, tuple)):
        return [keras.KerasTensor(tuple(s)) for s in shape]
    return keras.KerasTensor(tuple(shape))


def check_inputs(inputs: Tensor, memory: Tensor) -> None:
    """Raises a ValueError unless inputs and memory are (B, T, D) and (B, S, V)."""
    check_shape("inputs", inputs.shape, "(batch, steps, width)")
    batches = inputs.shape[0], memory.shape[0]
    if None not in batches and batches[0] != batches[1]:
        raise ValueError(
            "`inputs` and `memory` must have the same batch size (axis 0). Received: "
            f"inputs.shape={tuple(inputs.shape)}, memory.shape={tuple(memory.shape)}"
        )


def check_memory(value: Tensor, key: Tensor) -> None:
    """Raises a ValueError unless memory and keys are (B, S, V) and (B, S, ·)."""
    for name, tensor in (("memory", value), ("key", key)):
        check_shape(name, tensor.shape, "(batch, length, width)")
    if None not in (key.shape[1], value.shape[1]) and key.shape[1] != value.shape[1]:
        raise ValueError(
            "`key` and `memory` must have the same length (axis 1). Received: "
            f"key.shape={tuple(key.shape)}, memory.shape={tuple(value.shape)}"
        )
    if value.shape[1] == 0:
        raise ValueError(
            "`memory` must hold at least one entry to attend to; hide entries with "
            f"`memory_mask`. Received: memory.shape={tuple(value.shape)}"
        )
