"""A recurrent cell that attends to a memory at every step.

Shapes: B batch, T steps, S keys, D width of an input, U units of the cell, V width of
a value, A width of the attentional vector.
"""

from __future__ import annotations

import copy
from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.cells import (
    as_cell,
    call_cell,
    forget_dropout,
    initial_state,
    output_of,
    prepare_dropout,
    state_widths,
    width_of,
)
from keras_attention.layers.base.packing import as_before, last, time_swapped
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.base.serialization import export, layer_config
from keras_attention.layers.recurrent.steps import (
    Seen,
    State,
    as_attentions,
    check_memories,
    each,
    given_state,
    look,
    state_shapes,
)
from keras_attention.numerics import masks
from keras_attention.ops.sequence import loop

Tensor = Any
ORDERS = ("before", "after")


@export
class AttentionRNN(keras.layers.Layer):
    """Any Keras cell over a sequence, and at each step attention over a memory.

    With `order="before"` the cell's previous state asks, and the cell reads the answer
    (Bahdanau):

        cₜ, αₜ = attention(sₜ₋₁, memory)
        sₜ     = cell([xₜ; cₜ], sₜ₋₁)

    With `order="after"` its new state asks (Luong):

        sₜ     = cell(xₜ, sₜ₋₁)        or cell([xₜ; h̃ₜ₋₁], sₜ₋₁) with input feeding
        cₜ, αₜ = attention(sₜ, memory)

    The output is [sₜ; cₜ], or with `attention_units` the attentional vector
    h̃ₜ = tanh(W_c [cₜ; sₜ]). The memory's keys are projected once, before the loop. The
    cell is called as it is. What asks is the first state of the cell, of the last cell
    of a stack; in Keras' own cells that is their output.

    Args:
        cell: a Keras cell such as `keras.layers.LSTMCell(units)`, or a list of cells
            that are stacked. Its dropout and recurrent dropout are drawn once a
            sequence, as `keras.layers.RNN` does.
        attention: an attention layer of this package such as
            `BahdanauAttention(units)`, or a list of them, whose answers are
            concatenated.
        order: "before" or "after".
        attention_units: A, the width of the attentional vector; None for [s; c].
        input_feeding: whether the cell also reads the last attentional vector, or,
            where there is none, the last cₜ. For `order="after"`.
        return_sequences: whether to return the outputs of all steps.
        return_state: whether to return the last state, too.

    Call arguments:
        inputs: (B, T, D).
        memory: (B, S, V); or a list, one for each attention.
        key: (B, S, ·), by default the memory; a list where `memory` is one.
        initial_state: the cell's states, such as those of an encoder, as a list of
            tensors (B, U); or all that `return_state` returned. Zeros by default.
        inputs_mask: booleans (B, T). A step that is False leaves the state as it was;
            its output and weights are 0.
        memory_mask: booleans (B, S), or a list.
        return_attention_scores: whether to return the weights, too.
        training: whether dropout is applied.

    Returns:
        The outputs (B, T, U + V), or (B, T, A) with `attention_units`; without
        `return_sequences` the last one, that of the last step that is not masked. With
        `return_state` then the state, flat: the cell's states, what is fed, the states
        of the attention. With `return_attention_scores` then the weights (B, T, S), a
        list where `attention` is one.

    Masking:
        Boolean, True = is there. Masks that the tensors carry are used where none is
        given. What the memory mask hides is never read; where it hides all, cₜ is 0.
        Outputs carry the mask that the inputs carry.

    Raises:
        ValueError: for a cell that is no cell, an attention that is not one of this
            package, a state of the wrong structure, an empty memory, or masks that do
            not fit.

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
                "`input_feeding` needs order='after'; before the cell, it reads what "
                "was attended to anyway. Received: order='before'"
            )
        self.many = isinstance(attention, (list, tuple))
        self.attentions = as_attentions(attention)
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
        values = each(self.attentions, memory_shape, "memory_shape", shapes=True)
        keys = (
            values
            if key_shape is None
            else each(self.attentions, key_shape, "key", True)
        )
        batch = inputs_shape[0]
        query = (batch, 1, state_widths(self.cell)[0])
        self.context_width = 0
        for attention, value, key in zip(self.attentions, values, keys):
            if not attention.built:
                attention.build(query, tuple(value), tuple(key))
            self.context_width += attention.output_width(
                keras.KerasTensor(query), keras.KerasTensor(value)
            )
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
        inputs_mask = masks.check("inputs_mask", inputs_mask, inputs.shape[:2])
        prepared = self.prepare(memory, key, memory_mask)
        state = self.start(prepared, ops.shape(inputs)[0], initial_state)
        wanted = return_attention_scores or is_recording()
        prepare_dropout(self.cell, self.input_width, state.cell)
        try:
            state, seen = self._run(
                inputs, inputs_mask, state, prepared, wanted, training
            )
        finally:
            forget_dropout(self.cell)
        output = self.read_out(seen)  # (B, T, ·)
        if inputs_mask is not None:
            there = inputs_mask[..., None]  # (B, T, 1)
            output = ops.where(there, output, ops.zeros_like(output))
            seen = seen._replace(
                weights=keras.tree.map_structure(
                    lambda w: ops.where(there, w, ops.zeros_like(w)), seen.weights
                )
            )
        if is_recording():
            for one, found in zip(self.attentions, seen.weights):
                record(f"{self.path}/{one.name}" if self.many else self.path, found)
        if not self.return_sequences:
            output = last(output, inputs_mask)
        returned = [output]
        if self.return_state:
            returned += keras.tree.flatten(tuple(state))
        if return_attention_scores:
            returned.append(list(seen.weights) if self.many else seen.weights[0])
        return tuple(returned) if len(returned) > 1 else output

    def prepare(self, memory: Any, key: Any = None, mask: Any = None) -> tuple:
        """Projects the memory's keys, once for all steps; see `Attention.prepare`.

        Args:
            memory: (B, S, V), or a list, one for each attention.
            key: (B, S, ·), by default the memory.
            mask: booleans (B, S), or a list.

        Returns:
            What `step` takes: what each attention prepared.
        """
        values = each(self.attentions, memory, "memory")
        keys = values if key is None else each(self.attentions, key, "key")
        hidden = each(self.attentions, mask, "memory_mask")
        prepared = []
        for one, value, k, m in zip(self.attentions, values, keys, hidden):
            check_memories(value, k)
            m = masks.check("memory_mask", m, tuple(value.shape[:2]))
            prepared.append(one.prepare(value, k, m))
        return tuple(prepared)

    def start(self, prepared: tuple, batch: Any, given: Any = None) -> State:
        """The first step's state.

        Args:
            prepared: what `prepare` returned.
            batch: B, a number or a tensor.
            given: the cell's states, or all that `return_state` returned, as a list
                of tensors; None for zeros.
        """
        dtype = self.compute_dtype
        fed: Any = ()
        if self.input_feeding:
            width = self.attention_units or self.context_width
            fed = ops.zeros((batch, width), dtype)
        attention = tuple(
            one.initial_state(p) for one, p in zip(self.attentions, prepared)
        )
        cell = initial_state(self.cell, batch, dtype)
        state = State(cell, fed, attention)
        if given is None:
            return state
        return given_state(self.cell, state, given)

    def step(
        self,
        inputs: Tensor,
        state: State,
        prepared: tuple,
        drawn: Any = None,
        training: bool | None = None,
    ) -> tuple[State, Seen]:
        """One step; the attentional vector is left to `read_out`, unless it is fed.

        Args:
            inputs: xₜ, (B, D).
            state: the last step's.
            prepared: what `prepare` returned.
            drawn: the random numbers of each attention, or None.
            training: handed to the cell.

        Returns:
            The state and what was seen.
        """
        if self.order == "before":
            query = output_of(state.cell)  # (B, U)
            context, weights, attention = look(
                self.attentions, query, state, prepared, drawn
            )
            output, cell = self._cell([inputs, context], state.cell, training)
        else:
            read = [inputs, state.fed] if self.input_feeding else [inputs]
            output, cell = self._cell(read, state.cell, training)
            query = output_of(cell)
            context, weights, attention = look(
                self.attentions, query, state, prepared, drawn
            )
        fed: Any = ()
        if self.input_feeding:
            fed = context
            if self.combine is not None:
                fed = output = self.combine(ops.concatenate([context, output], -1))
        return State(cell, fed, attention), Seen(output, context, weights)

    def compute_output_spec(
        self,
        inputs: Tensor,
        memory: Any,
        key: Any = None,
        initial_state: Any = None,
        return_attention_scores: bool = False,
        **arguments: Any,
    ) -> Any:
        if inputs.shape[-1] is None or len(inputs.shape) != 3:
            raise ValueError(
                "`inputs` must have shape (batch, steps, width). "
                f"Received: inputs.shape={tuple(inputs.shape)}"
            )
        values = each(self.attentions, memory, "memory")
        query = keras.KerasTensor((None, 1, state_widths(self.cell)[0]))
        width = self.attention_units or width_of(self.cell) + sum(
            a.output_width(query, v) for a, v in zip(self.attentions, values)
        )
        batch, steps = inputs.shape[:2]
        shape = (batch, steps, width) if self.return_sequences else (batch, width)
        returned = [keras.KerasTensor(shape, self.compute_dtype)]
        if self.return_state:
            fed = None
            if self.input_feeding:
                fed = self.attention_units or width - width_of(self.cell)
            dtype = self.compute_dtype
            shapes = state_shapes(self.cell, fed, self.attentions, values, batch, dtype)
            returned += [keras.KerasTensor(*s) for s in shapes]
        if return_attention_scores:
            weights = [
                keras.KerasTensor((batch, steps, v.shape[1]), self.compute_dtype)
                for v in values
            ]
            returned.append(weights if self.many else weights[0])
        return tuple(returned) if len(returned) > 1 else returned[0]

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask if self.return_sequences else None

    def get_config(self) -> dict[str, Any]:
        attention = [layer_config(one) for one in self.attentions]
        return {
            **super().get_config(),
            "cell": layer_config(self.cell),
            "attention": attention if self.many else attention[0],
            "order": self.order,
            "attention_units": self.attention_units,
            "input_feeding": self.input_feeding,
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        config = copy.deepcopy(config)  # Keras' stack of cells takes its own apart
        for name in ("cell", "attention"):
            config[name] = keras.saving.deserialize_keras_object(config[name])
        return cls(**config)

    def _run(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        state: State,
        prepared: tuple,
        wanted: bool,
        training: bool | None,
    ) -> tuple[State, Seen]:
        """All steps; what is seen has its time second: (B, T, ·)."""
        batch, steps = ops.shape(inputs)[:2]
        drawn = [
            one.draw((batch, steps, ops.shape(p.key)[1]), training)
            for one, p in zip(self.attentions, prepared)
        ]
        apart = self._looks_apart(state)
        random = () if apart else tuple(() if d is None else d for d in drawn)
        sequence = {"x": inputs, "drawn": random}
        if mask is not None:
            sequence["mask"] = ops.broadcast_to(mask, (batch, steps))

        def step(state: State, now: dict[str, Any]) -> tuple[State, Any]:
            seen: Any
            if apart:
                output, cell = self._cell([now["x"]], state.cell, training)
                new, seen = state._replace(cell=cell), (output, output_of(cell))
            else:
                new, found = self.step(
                    now["x"], state, prepared, now["drawn"], training
                )
                seen = found if wanted else found._replace(weights=())
            return (
                loop.choose(now["mask"], new, state) if mask is not None else new
            ), seen

        state, seen = loop.scan(step, state, time_swapped(sequence))
        seen = time_swapped(seen)
        if not apart:
            return state, seen
        output, query = seen  # each (B, T, U): all steps look at once
        context, weights, _ = look(self.attentions, query, state, prepared, drawn)
        looked = Seen(output, context, weights if wanted else ())
        return state, looked

    def _looks_apart(self, state: State) -> bool:
        """Whether no step of the cell waits for what an earlier one looked at."""
        alone = all(isinstance(s, tuple) and not s for s in state.attention)
        return self.order == "after" and not self.input_feeding and alone

    def _cell(
        self, read: list[Tensor], state: Any, training: bool | None
    ) -> tuple[Tensor, Any]:
        read = read[0] if len(read) == 1 else ops.concatenate(read, axis=-1)
        output, new = call_cell(self.cell, read, state, training)
        return output, as_before(new, state)

    def read_out(self, seen: Seen) -> Tensor:
        """[s; c] (..., U + V) or h̃ (..., A) of what `step` saw."""
        if self.combine is None:
            return ops.concatenate([seen.output, seen.context], axis=-1)
        if self.input_feeding:
            return seen.output
        return self.combine(ops.concatenate([seen.context, seen.output], axis=-1))
