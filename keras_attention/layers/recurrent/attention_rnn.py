"""A recurrent layer whose cell attends to a memory at every step.

Shapes: B batch, T steps, S keys, D width of an input, U units of the cell, V width of a
value, A width of the attentional vector.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.cells import (
    as_cell,
    initial_state,
    output_of,
    sequence_dropout,
    state_widths,
    step_cell,
    width_of,
)
from keras_attention.layers.base.packing import last
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.layers.recurrent.memories import (
    attend_each,
    attention_list,
    check_inputs,
    check_memory,
    split_memory,
    split_shapes,
)
from keras_attention.layers.recurrent.specs import output_spec
from keras_attention.layers.recurrent.state import (
    State,
    StepOutput,
    replace_state,
)
from keras_attention.layers.recurrent.unroll import hide_steps, unroll
from keras_attention.numerics import masks

Tensor = Any
ORDERS = ("before", "after")


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
        if order not in ORDERS:
            raise ValueError(
                f"`order` must be one of {list(ORDERS)}. Received: order={order!r}"
            )
        if input_feeding and order == "before":
            raise ValueError(
                "`input_feeding` needs order='after': with order='before', the cell "
                "reads what was attended to in any case. Received: order='before'"
            )
        self.is_list = isinstance(attention, (list, tuple))
        self.attentions = attention_list(attention)
        self.order = order
        if attention_units is not None:
            positive("attention_units", attention_units)
        self.attention_units = attention_units
        self.input_feeding = input_feeding
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.combine = None
        if attention_units is not None:
            more = {"use_bias": False, "dtype": self.dtype_policy, "name": "combine"}
            self.combine = keras.layers.Dense(attention_units, "tanh", **more)

    def build(
        self,
        inputs_shape: Any,
        memory_shape: Any,
        key_shape: Any = None,
    ) -> None:
        batch = inputs_shape[0]
        query = (batch, 1, state_widths(self.cell)[0])
        shapes = split_shapes(len(self.attentions), memory_shape, key_shape)
        # Keras tracks and saves `attentions`, but not `protocol`.
        found = [as_attention(one) for one in self.attentions]
        self.protocol = SimpleNamespace(attentions=found)
        self.context_width = 0
        for attention, (value, key) in zip(found, shapes):
            check_memory(*map(keras.KerasTensor, (value, key)))
            check_inputs(*map(keras.KerasTensor, (inputs_shape, value)))
            attention.check_widths(*map(keras.KerasTensor, (query, value, key)))
            if not attention.built:
                attention.build(query, value, key)
            self.context_width += attention.output_width(query[-1], value[-1])
        units = width_of(self.cell)
        width = inputs_shape[-1]
        if self.order == "before":
            width += self.context_width
        elif self.input_feeding:
            width += self.attention_units or self.context_width
        self.input_width = width
        if not self.cell.built:
            self.cell.build((batch, width))
            self.cell.built = True
        if self.combine is not None:
            self.combine.build((batch, None, self.context_width + units))
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
        state = self.start(prepared, ops.shape(inputs)[0], initial_state)
        recording = is_recording()
        with sequence_dropout(self.cell, self.input_width, state.cell):
            state, found = unroll(
                self,
                inputs,
                inputs_mask,
                state,
                prepared,
                return_attention_scores or recording,
                training,
            )
        output, weights = self.read_out(found), found.weights  # (B, T, ·)
        if inputs_mask is not None:
            output, weights = hide_steps(inputs_mask, output, weights)
        if recording:
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
        for one, array in zip(self.attentions, weights):
            record(f"{self.path}/{one.name}" if self.is_list else self.path, array)

    def prepare(self, memory: Any, key: Any = None, mask: Any = None) -> tuple:
        """Projects the keys of the memory once, for all steps; see `Attention.prepare`.

        Args:
            memory: (B, S, V), or a list with one memory for each attention layer.
            key: (B, S, ·), defaults to the memory.
            mask: booleans (B, S), or a list.

        Returns:
            The prepared memories of all attention layers, for `step`.
        """
        memories = split_memory(len(self.attentions), memory, key, mask)
        return tuple(
            [
                one.prepare(*given)
                for one, given in zip(self.protocol.attentions, memories)
            ]
        )

    def start(self, prepared: tuple, batch: Any, given: Any = None) -> State:
        """Returns the initial state.

        Args:
            prepared: the result of `prepare`.
            batch: B, an integer or a tensor.
            given: the states of the cell, or the whole state returned with
                `return_state`, as a list of tensors; None for zeros.
        """
        feedback: Any = ()
        if self.input_feeding:
            width = self.attention_units or self.context_width
            feedback = ops.zeros((batch, width), self.compute_dtype)
        attention = [
            one.initial_state(memory)
            for one, memory in zip(self.protocol.attentions, prepared)
        ]
        cell = initial_state(self.cell, batch, self.compute_dtype)
        state = State(cell, feedback, tuple(attention))
        return state if given is None else replace_state(self.cell, state, given)

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
        found = [
            one.sample((*shape, ops.shape(memory.value)[1]), training)
            for one, memory in zip(self.protocol.attentions, prepared)
        ]
        if all(samples is None for samples in found):
            return None
        return tuple([() if samples is None else samples for samples in found])

    def step(
        self,
        inputs: Tensor,
        state: State,
        prepared: tuple,
        random: tuple | None = None,
        training: bool | None = None,
        return_weights: bool = True,
    ) -> tuple[State, StepOutput]:
        """Computes one step.

        With input feeding, this method also computes the attentional vector.
        Otherwise, `read_out` computes it.

        Args:
            inputs: xₜ, (B, D).
            state: the state of the previous step.
            prepared: the result of `prepare`.
            random: the result of `sample` for this step.
            training: the training mode of the cell.
            return_weights: whether to return the weights.

        Returns:
            The state, and the argument of `read_out`.
        """
        attentions = self.protocol.attentions
        memory = state.attention, prepared, random, return_weights, self.compute_dtype
        if self.order == "before":
            query = output_of(state.cell)  # (B, U)
            context, weights, new = attend_each(attentions, query, *memory)
            output, cell = step_cell(self.cell, [inputs, context], state.cell, training)
        else:
            read = [inputs, state.feedback] if self.input_feeding else [inputs]
            output, cell = step_cell(self.cell, read, state.cell, training)
            query = output_of(cell)
            context, weights, new = attend_each(attentions, query, *memory)
        feedback: Any = ()
        if self.input_feeding:
            feedback = context
            if self.combine is not None:
                output = self.combine(ops.concatenate([context, output], -1))
                # On torch and JAX, Keras' products of float64 are in float32.
                feedback = output = ops.cast(output, self.compute_dtype)
        return State(cell, feedback, new), StepOutput(output, context, weights)

    def read_out(self, found: StepOutput) -> Tensor:
        """Returns [s; c] (..., U + V) or h̃ (..., A) from the result of `step`."""
        if self.combine is None:
            return ops.concatenate([found.output, found.context], axis=-1)
        if self.input_feeding:
            return found.output
        return self.combine(ops.concatenate([found.context, found.output], axis=-1))

    def compute_output_spec(
        self,
        inputs: Tensor,
        memory: Any,
        key: Any = None,
        initial_state: Any = None,
        return_attention_scores: bool = False,
        **arguments: Any,
    ) -> Any:
        return output_spec(self, inputs, memory, key, return_attention_scores)

    @property
    def attention(self) -> Any:
        """The attention layer, or the list of attention layers."""
        return self.attentions if self.is_list else self.attentions[0]

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask if self.return_sequences else None
