"""The cell of a Differentiable Neural Computer.

Shapes: B batch, U units of the controller, M memory slots, W word width, R read heads,
H write heads, K links of a slot, V width of the output.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.kernels.memory_step.reference import EPSILON, interface_widths
from keras_attention.layers.base.arguments import fraction, positive
from keras_attention.layers.base.cells import initial_state
from keras_attention.layers.base.serialization import export
from keras_attention.layers.external_memory.memory_cell import MemoryCell, Trace
from keras_attention.ops.memory.links import SparseLinks, linkage
from keras_attention.ops.sequence import loop

Tensor = Any

REFINEMENTS = (
    "masked_keys",
    "deallocation",
    "sharp_links",
    "layer_normalization",
    "soft_allocation",
)


class DNCState(NamedTuple):
    """The state between two steps of a `DNCCell`."""

    cell: Any  # s, the state of the controller: a structure of (B, U)
    read: Tensor  # r, (B, R W)
    memory: Tensor  # M, (B, M, W)
    usage: Tensor  # u, (B, M)
    write_weights: Tensor  # wʷ, (B, H, M)
    read_weights: Tensor  # wʳ, (B, R, M)
    precedence: Any  # p, (B, H, M); `()` without links
    links: Any  # L, (B, H, M, M), or `SparseLinks`; `()` without links


@export
class DNCCell(MemoryCell):
    """A Differentiable Neural Computer: a Keras cell that learns to use a memory.

    At each step, the controller reads the input and the previous read vectors. Its
    output determines the parameters ξ for searching, writing and reading. One step
    computes:

        h    = controller([x; r]),  ξ = W_ξ h
        u    = usage(u, wʷ, ψ),     ψ = retention(f, wʳ)
        wʷ   = gʷ (gᵃ allocation(u) + (1 − gᵃ) content(M, kʷ, βʷ))
        M    = M ∘ (1 − wʷ eᵀ) + wʷ vᵀ
        L, p = links(L, p, wʷ), precedence(p, wʷ)
        wʳ   = π₁ Lᵀ wʳ + π₂ content(M, kʳ, βʳ) + π₃ L wʳ
        r    = Mᵀ wʳ
        y    = W_y [h; r]

    These are the functions of `keras_attention.ops.memory`. No weight depends on the
    number of slots, so a weights file also loads into a cell with more or fewer slots.
    `DNC` runs the cell over a sequence. `keras.layers.RNN` can also run the cell, but
    without dropout.

    Writes are not quite sharp. Each leaves about 1 / M of its value in every blank
    slot, so the words of blank slots depend on the number of slots. A network may have
    learned to find blank slots by these words. The similarity of content addressing
    therefore uses

        ε = 1e-6 (M₀ / M)²    in D(k, m) = k · m / (√(|k|² + ε) √(|m|² + ε))

    With M₀ = M, the default, this is the ε of DeepMind's code. With the M₀ of training,
    a blank slot is as similar to a key as in training.

    Args:
        cell: the controller: a Keras cell such as `keras.layers.LSTMCell(units)`, or a
            list of stacked cells. U is the width of its output.
        memory_slots: M, the number of slots; or a pair (M, M₀), where M₀ is the number
            of slots that the weights were trained with. The pair scales the ε of
            content addressing, see above.
        word_width: W, the width of a slot.
        read_heads: R, the number of read heads.
        write_heads: H, the number of write heads. All heads erase before any head
            writes. Free slots are allocated to one head after another.
        output_units: V; None for the output [h; r], of width U + R W.
        links: True keeps temporal links between all pairs of slots. An integer K, at
            least 2, keeps the K strongest links of each slot, but only links of at
            least 1 / K; a step then takes O(M K) instead of O(M²). False keeps no
            links; read heads then only use content.
        refinements: a list of names. By Csordás and Schmidhuber: "masked_keys" (keys
            can ignore parts of a word), "deallocation" (freed slots are erased as well)
            and "sharp_links". By Franke et al.: "layer_normalization" (the parameters ξ
            are normalized). By Ben-Ari and Bekker: "soft_allocation" (a softmax
            replaces sorting).
        bypass_dropout: the fraction of h dropped before the output projection, which
            forces the cell to use the memory (Franke et al.).
        clip: the largest absolute value of the controller's output and state, and of y,
            20 in DeepMind's code; None for no limit.

    Call arguments:
        inputs: (B, D).
        states: the list returned by `get_initial_state` or by the previous call.
        training: whether to apply dropout. Only `DNC` supports dropout.

    Returns:
        The output (B, V) and the new states (B, ·). The first state is the output. In
        mixed precision, everything except the controller and the two dense layers is
        computed in float32, but `keras.layers.RNN` stores the states between steps in
        half precision.

    Raises:
        ValueError: for a controller that is not a cell or has no state; slots, heads or
            widths below 1; refinements that are unknown, or that require links if there
            are none; or loaded weights of a cell with other heads.

    Example:

    >>> import keras, numpy as np
    >>> from keras_attention.layers import DNC, DNCCell
    >>> cell = DNCCell(keras.layers.LSTMCell(8), 16, 4, read_heads=2, output_units=3)
    >>> tuple(DNC(cell, return_sequences=True)(np.ones((2, 5, 7), "float32")).shape)
    (2, 5, 3)

    References:
        Graves et al., "Hybrid computing using a neural network with dynamic external
        memory" (2016), Nature 538, Methods.
        Csordás & Schmidhuber, "Improving differentiable neural computers through memory
        masking, de-allocation, and link distribution sharpness control" (2019),
        arXiv:1904.10278.
        Franke, Niehues & Waibel, "Robust and scalable differentiable neural computer
        for question answering" (2018), arXiv:1807.02658.
        Ben-Ari & Bekker, "Differentiable memory allocation mechanism for neural
        computing" (2017).
    """

    def __init__(
        self,
        cell: Any,
        memory_slots: int | tuple[int, int],
        word_width: int,
        read_heads: int = 1,
        write_heads: int = 1,
        output_units: int | None = None,
        links: bool | int = True,
        refinements: Sequence[str] = (),
        bypass_dropout: float = 0.0,
        clip: float | None = None,
        **kwargs: Any,
    ) -> None:
        memory_slots, trained = _slots(memory_slots)
        sizes = memory_slots, word_width, read_heads, write_heads
        super().__init__(cell, *sizes, output_units, clip, **kwargs)
        self.trained_slots = trained  # M₀
        self.links = links if isinstance(links, bool) else positive("links", links)
        if self.links == 1 and self.links is not True:
            raise ValueError(
                "`links` must be True, False, or a number from 2 on: with one link per "
                "slot, all links below 1 would be dropped. Received: links=1"
            )
        names = [refinements] if isinstance(refinements, str) else refinements
        names = [None] if names is None else list(names)
        if not set(names) <= set(REFINEMENTS):
            raise ValueError(
                f"`refinements` must be names among {list(REFINEMENTS)}. "
                f"Received: refinements={refinements!r}"
            )
        if "sharp_links" in names and not self.links:
            raise ValueError(
                "`refinements` may hold 'sharp_links' only where there are links. "
                f"Received: refinements={refinements!r}, links={links!r}"
            )
        self.refinements = names
        self.bypass_dropout = fraction("bypass_dropout", bypass_dropout)
        self.seed_generator = None
        if bypass_dropout:
            self.seed_generator = keras.random.SeedGenerator()
        self.make_layers()
        if "layer_normalization" in names:
            self.normalization = keras.layers.LayerNormalization(
                dtype=self.memory_dtype, name="normalization"
            )

    @functools.cached_property  # Keras and TensorFlow do not wrap it
    def options(self) -> kernels.MemoryOptions:
        """The options of a memory step, without its tensors."""
        return kernels.MemoryOptions(
            linkage(self.links),
            masked_keys="masked_keys" in self.refinements,
            deallocation="deallocation" in self.refinements,
            sharp_links="sharp_links" in self.refinements,
            soft_allocation="soft_allocation" in self.refinements,
            epsilon=EPSILON * (self.trained_slots / self.memory_slots) ** 2,
        )

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self.trained_slots != self.memory_slots:
            config["memory_slots"] = [self.memory_slots, self.trained_slots]
        return config

    @property
    def interface_width(self) -> int:
        sizes = self.word_width, self.read_heads, self.write_heads
        return sum(interface_widths(*sizes, self.options))

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        if self.normalization is not None:
            self.normalization.build((input_shape[0], self.interface_width))

    def state_specs(self) -> list[tuple[tuple[int, ...], str]]:
        slots, writes, dtype = self.memory_slots, self.write_heads, self.memory_dtype
        shapes: list[tuple[int, ...]] = [(slots, self.word_width), (slots,)]
        shapes += [(writes, slots), (self.read_heads, slots)]
        if self.links:
            shapes.append((writes, slots))
        if self.links is True:
            shapes.append((writes, slots, slots))
        specs = [(shape, dtype) for shape in shapes]
        if self.links and self.links is not True:
            shape = (writes, min(self.links, slots), slots)
            specs += [(shape, "int32"), (shape, dtype)]
        return super().state_specs() + specs

    def start(self, batch: Any) -> DNCState:
        cell = initial_state(self.cell, batch, self.compute_dtype)
        specs = self.state_specs()[len(keras.tree.flatten(cell)) :]
        parts: list[Any] = [ops.zeros((batch, *shape), dtype) for shape, dtype in specs]
        if not self.links:
            parts += [(), ()]
        elif self.links is not True:
            parts[6:] = [SparseLinks(*parts[6:])]
        return DNCState(cell, *parts)

    def access(
        self, interface: Tensor, state: DNCState, mask: Tensor | None, traced: bool
    ) -> tuple[DNCState, Any]:
        if mask is not None:  # nothing is freed or written at a padded step
            mask = ops.cast(mask, interface.dtype)[:, None]  # (B, 1)
        step = kernels.trace_memory if traced else kernels.access_memory
        read, memory, *residuals = step(
            interface, kernels.MemoryState(*state[2:]), mask, self.options
        )
        read = ops.reshape(read, (-1, self.read_width))  # r
        state = DNCState(state.cell, read, *memory)
        if not traced:
            return state, ()
        x = residuals[0].interface
        return state, Trace(
            memory=memory.memory,
            usage=memory.usage,
            write_weights=memory.write_weights,
            read_weights=memory.read_weights,
            links=memory.links,
            modes=() if x.modes is None else x.modes,
            free_gates=x.free_gates,
            allocation_gate=x.allocation_gate,
            write_gate=x.write_gate,
        )

    def untouched(self, new: DNCState, old: DNCState, mask: Tensor) -> DNCState:
        # Masked gates already keep the memory, dense links and precedence unchanged.
        names = ["cell", "read", "usage", "write_weights", "read_weights"]
        if self.links and self.links is not True:
            names.append("links")
        return new._replace(
            **{n: loop.choose(mask, getattr(new, n), getattr(old, n)) for n in names}
        )

    def sample(self, shape: tuple[Any, ...], training: bool | None) -> Tensor | None:
        if not training or not self.bypass_dropout:
            return None
        ones = ops.ones((*shape, self.units), self.compute_dtype)
        return keras.random.dropout(ones, self.bypass_dropout, seed=self.seed_generator)

    def has_dropout(self) -> bool:
        return bool(self.bypass_dropout) or super().has_dropout()


def _slots(slots: Any) -> tuple[int, int]:
    """Returns M and M₀ of the argument `memory_slots`."""
    if not isinstance(slots, (tuple, list)):
        number = positive("memory_slots", slots)
        return number, number
    if len(slots) != 2:
        raise ValueError(
            "`memory_slots` must be a number, or a pair of the number of slots and the "
            f"number of slots in training. Received: memory_slots={slots!r}"
        )
    return positive("memory_slots[0]", slots[0]), positive("memory_slots[1]", slots[1])
