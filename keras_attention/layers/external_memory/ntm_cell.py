"""The cell of a Neural Turing Machine.

Shapes: B batch, U units of the controller, M memory slots, W word width, R read heads,
H write heads, S shifts, V width of the output.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.cells import initial_state
from keras_attention.layers.base.serialization import export
from keras_attention.layers.external_memory.memory_cell import MemoryCell, Trace
from keras_attention.ops.memory import addressing

Tensor = Any

FIRST = 1e-6  # the initial value of the memory


class NTMState(NamedTuple):
    """The state between two steps of an `NTMCell`."""

    cell: Any  # s, the state of the controller: a structure of (B, U)
    read: Tensor  # r, (B, R W)
    memory: Tensor  # M, (B, M, W)
    write_weights: Tensor  # wʷ, (B, H, M)
    read_weights: Tensor  # wʳ, (B, R, M)


@export
class NTMCell(MemoryCell):
    """A Neural Turing Machine: its heads search a memory, move, read and write.

    Each head has a key k with strength β, a gate g, a shift distribution s and a
    sharpness γ. All heads address the memory of the previous step. The cell then writes
    to the memory, and reads from the new memory:

        w  = w + g (content(M, k, β) − w)      search, or stay
        w  = s ∗ w                             move by up to `shifts` slots
        w  = wᵞ / Σ wᵞ                         sharpen
        M  = M ∘ (1 − wʷ eᵀ) + wʷ aᵀ
        r  = Mᵀ wʳ
        y  = W_y [h; r]

    These are functions of `keras_attention.ops.memory.addressing`. The cell has no
    usage and no links: heads move to find the place to write and the order to read.
    The initial memory is the constant 1e-6, which makes training more stable than
    random or learned initial values (Collier and Beel). All heads start at slot 0. No
    weight depends on the number of slots. `DNC` runs the cell over a sequence.
    `keras.layers.RNN` can also run the cell, but without dropout.

    Args:
        cell: the controller: a Keras cell such as `keras.layers.LSTMCell(units)`, or a
            list of stacked cells.
        memory_slots: M, the number of slots.
        word_width: W, the width of a slot.
        read_heads: R, the number of read heads.
        write_heads: H, the number of write heads. All heads erase before any head
            writes.
        shifts: the largest number of slots that a head can move in one step, in each
            direction.
        output_units: V; None for the output [h; r], of width U + R W.
        clip: the largest absolute value of the controller's output and state, and of y;
            None for no limit.

    Call arguments:
        inputs: (B, D).
        states: the list returned by `get_initial_state` or by the previous call.
        training: whether to apply the dropout of the controller. Only `DNC` supports
            dropout.

    Returns:
        The output (B, V) and the new states (B, ·). The first state is the output. In
        mixed precision, everything except the controller and the two dense layers is
        computed in float32, but `keras.layers.RNN` stores the states between steps in
        half precision.

    Raises:
        ValueError: for a controller that is not a cell or has no state; slots, heads or
            widths below 1; fewer slots than 2 `shifts` + 1; or loaded weights of a cell
            with other heads.

    Example:

    >>> import keras, numpy as np
    >>> from keras_attention.layers import DNC, NTMCell
    >>> cell = NTMCell(keras.layers.LSTMCell(8), 16, 4, output_units=3)
    >>> tuple(DNC(cell, return_sequences=True)(np.ones((2, 5, 7), "float32")).shape)
    (2, 5, 3)

    References:
        Graves, Wayne & Danihelka, "Neural Turing Machines" (2014), arXiv:1410.5401.
        Collier & Beel, "Implementing Neural Turing Machines" (2018), arXiv:1807.08518.
    """

    def __init__(
        self,
        cell: Any,
        memory_slots: int,
        word_width: int,
        read_heads: int = 1,
        write_heads: int = 1,
        shifts: int = 1,
        output_units: int | None = None,
        clip: float | None = None,
        **kwargs: Any,
    ) -> None:
        sizes = memory_slots, word_width, read_heads, write_heads
        super().__init__(cell, *sizes, output_units, clip, **kwargs)
        self.shifts = positive("shifts", shifts)
        if 2 * shifts + 1 > memory_slots:
            raise ValueError(
                "`memory_slots` must be at least 2 `shifts` + 1: with fewer, a shift "
                f"forward is also one back. Received: memory_slots={memory_slots}, "
                f"shifts={shifts}"
            )
        self.make_layers()

    @property
    def interface_width(self) -> int:
        heads, width = self.read_heads + self.write_heads, self.word_width
        moves = 2 * self.shifts + 1
        return heads * (width + 3 + moves) + 2 * self.write_heads * width

    def state_specs(self) -> list[tuple[tuple[int, ...], str]]:
        slots = self.memory_slots
        shapes = [(n, slots) for n in (self.write_heads, self.read_heads)]
        shapes = [(slots, self.word_width), *shapes]
        return super().state_specs() + [(s, self.memory_dtype) for s in shapes]

    def start(self, batch: Any) -> NTMState:
        slots, dtype = self.memory_slots, self.memory_dtype
        first = ops.convert_to_tensor(np.eye(1, slots)[None], dtype)  # slot 0

        def heads(number: int) -> Tensor:
            return ops.broadcast_to(first, (batch, number, slots))

        return NTMState(
            cell=initial_state(self.cell, batch, self.compute_dtype),
            read=ops.zeros((batch, self.read_width), self.compute_dtype),
            # On torch, Keras reads the value of `full` back from the device.
            memory=FIRST * ops.ones((batch, slots, self.word_width), dtype),
            write_weights=heads(self.write_heads),
            read_weights=heads(self.read_heads),
        )

    def access(
        self, interface: Tensor, state: NTMState, mask: Tensor | None, traced: bool
    ) -> tuple[NTMState, Trace]:
        writes, reads, width = self.write_heads, self.read_heads, self.word_width
        heads, moves = writes + reads, 2 * self.shifts + 1
        sizes = heads * width, writes * width, 2 * heads, heads * moves, heads
        ends = [*itertools.accumulate(sizes), interface.shape[-1]]
        # Not `ops.split`: on torch, Keras reads the ends back from the device.
        keys, values, strengths, shifts, gates, erase = (
            interface[..., start:end] for start, end in zip([0, *ends], ends)
        )
        # Write heads come first.
        keys = ops.reshape(ops.tanh(keys), (-1, heads, width))  # k
        values = ops.reshape(ops.tanh(values), (-1, writes, width))  # a
        strengths = ops.softplus(strengths)
        beta, gamma = strengths[:, :heads], 1 + strengths[:, heads:]  # (B, H + R)
        shifts = ops.softmax(ops.reshape(shifts, (-1, heads, moves)), axis=-1)  # s
        erase = ops.reshape(ops.sigmoid(erase), (-1, writes, width))  # e
        weights = ops.concatenate([state.write_weights, state.read_weights], axis=1)
        weights = addressing.interpolate(
            addressing.content_weights(state.memory, keys, beta),
            weights,
            ops.sigmoid(gates),
        )  # (B, H + R, M)
        weights = addressing.shift(weights, shifts)
        weights = addressing.sharpened(weights, gamma)
        written, weights = weights[:, :writes], weights[:, writes:]
        memory = addressing.erase_and_write(state.memory, written, erase, values)
        read = addressing.read(memory, weights)  # (B, R, W)
        new = state._replace(
            read=ops.reshape(read, (-1, self.read_width)),
            memory=memory,
            write_weights=written,
            read_weights=weights,
        )
        return new, Trace(memory, write_weights=written, read_weights=weights)
