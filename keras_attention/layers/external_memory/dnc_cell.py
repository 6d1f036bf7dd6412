"""The cell of a Differentiable Neural Computer.

Shapes: B batch, U units of the controller, M memory slots, W word width, R read heads,
H write heads, K links of a slot, V width of the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import fraction, positive
from keras_attention.layers.base.serialization import export
from keras_attention.layers.external_memory.memory_cell import MemoryCell, Trace
from keras_attention.ops.memory import addressing, links
from keras_attention.ops.sequence import loop

Tensor = Any

REFINEMENTS = (
    "masked_keys",
    "deallocation",
    "sharp_links",
    "layer_normalization",
    "soft_allocation",
)
LEAST = 0.1  # of a key's mask, below which nothing is masked


class DNCState(NamedTuple):
    """What one step of a `DNCCell` hands to the next."""

    cell: Any  # s, the controller's own state: a structure of (B, U)
    read: Tensor  # r, (B, R W)
    memory: Tensor  # M, (B, M, W)
    usage: Tensor  # u, (B, M)
    write_weights: Tensor  # wʷ, (B, H, M)
    read_weights: Tensor  # wʳ, (B, R, M)
    precedence: Any  # p, (B, H, M); `()` without links
    links: Any  # L, (B, H, M, M), or `SparseLinks`; `()` without


class Interface(NamedTuple):
    """ξ: what the controller says to the memory."""

    read_keys: Tensor  # kʳ, (B, R, W)
    write_keys: Tensor  # kʷ, (B, H, W)
    values: Tensor  # v, (B, H, W)
    read_strengths: Tensor  # βʳ, (B, R), at least 1, as all strengths
    write_strengths: Tensor  # βʷ, (B, H)
    allocation_strengths: Any  # β of soft allocation, (B, H), or None
    sharpness: Any  # s of forward and backward links, (B, 2, R, H), or None
    erase: Tensor  # e, (B, H, W), between 0 and 1, as all below
    free_gates: Tensor  # f, (B, R)
    allocation_gate: Tensor  # gᵃ, (B, H)
    write_gate: Tensor  # gʷ, (B, H)
    read_masks: Any  # zʳ, (B, R, W), or None
    write_masks: Any  # zʷ, (B, H, W), or None
    modes: Any  # π, (B, R, 1 + 2H), on the simplex, or None


@export
class DNCCell(MemoryCell):
    """A Differentiable Neural Computer: any Keras cell with a memory it learns to use.

    At each step the controller reads the input and what its heads read last. It says
    what to look for, what to write and how, and the memory answers:

        h    = controller([x; r]),  ξ = W_ξ h
        u    = usage(u, wʷ, ψ),     ψ = retention(f, wʳ)
        wʷ   = gʷ (gᵃ allocation(u) + (1 − gᵃ) content(M, kʷ, βʷ))
        M    = M ∘ (1 − wʷ eᵀ) + wʷ vᵀ
        L, p = links(L, p, wʷ), precedence(p, wʷ)
        wʳ   = π₁ Lᵀ wʳ + π₂ content(M, kʳ, βʳ) + π₃ L wʳ
        r    = Mᵀ wʳ
        y    = W_y [h; r]

    These are the functions of `keras_attention.ops.memory`. No weight depends
    on the number of slots: a file of weights loads into a cell with more or
    fewer of them. `DNC` takes the cell over a sequence; so does `keras.layers.RNN`,
    without dropout.

    Args:
        cell: the controller: a Keras cell such as `keras.layers.LSTMCell(units)`, or a
            list of cells that are stacked; U is the width of its output.
        memory_slots: M.
        word_width: W.
        read_heads: R.
        write_heads: H; all erase, then all write. Room is given to one after another.
        output_units: V; None for [h; r], of width U + R W.
        links: True for temporal links between all pairs of slots; a number K, from 2
            on, for the K strongest of each slot that are at least 1 / K, so that a step
            takes O(M K) instead of O(M²); False for none: then heads read by content
            alone.
        refinements: names among "masked_keys" (keys that leave open parts of what they
            look for), "deallocation" (what is freed is erased, too) and "sharp_links",
            all three of Csordás and Schmidhuber; "layer_normalization" of the
            interface, of Franke et al.; and "soft_allocation", by a softmax instead of
            by order, of Ben-Ari and Bekker.
        bypass_dropout: the share of h that is dropped on its way to the output, so that
            the memory must be used (Franke et al.).
        clip: the largest absolute value of the controller's output and state, and of y,
            20 in DeepMind's code; None for no bound.

    Call arguments:
        inputs: (B, D).
        states: the list that `get_initial_state` or the last call returned.
        training: whether dropout is applied; only in `DNC`.

    Returns:
        The output (B, V) and the new states (B, ·), of which the first is the output.
        In mixed precision all but the controller and the two dense layers is float32,
        save between the steps of `keras.layers.RNN`.

    Raises:
        ValueError: for a controller that is no cell or has no state; slots, heads or
            widths below 1; refinements that are unknown, or need links; weights of
            a cell with other heads.

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
        memory_slots: int,
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
        super().__init__(
            cell,
            memory_slots,
            word_width,
            read_heads,
            write_heads,
            output_units,
            clip,
            **kwargs,
        )
        self.links = links if isinstance(links, bool) else positive("links", links)
        if self.links == 1 and self.links is not True:
            raise ValueError(
                "`links` must be True, False, or a number from 2 on: of one link a "
                "slot, all below 1 would be dropped, which are all. Received: links=1"
            )
        given = [refinements] if isinstance(refinements, str) else refinements
        given = [None] if given is None else list(given)
        if not set(given) <= set(REFINEMENTS):
            raise ValueError(
                f"`refinements` must be names among {list(REFINEMENTS)}. "
                f"Received: refinements={refinements!r}"
            )
        if "sharp_links" in given and not self.links:
            raise ValueError(
                "`refinements` may hold 'sharp_links' only where there are links. "
                f"Received: refinements={refinements!r}, links={links!r}"
            )
        self.refinements = given
        self.bypass_dropout = fraction("bypass_dropout", bypass_dropout)
        self.seed_generator = None
        if bypass_dropout:
            self.seed_generator = keras.random.SeedGenerator()
        self.make_layers()
        self.normalization = None
        if "layer_normalization" in given:
            self.normalization = keras.layers.LayerNormalization(
                dtype=self.memory_dtype, name="normalization"
            )

    @property
    def interface_width(self) -> int:
        return sum(sum(sizes) for sizes in self._pieces())

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        if self.normalization is not None:
            self.normalization.build((input_shape[0], self.interface_width))

    def state_specs(self) -> list[tuple[tuple[int, ...], str]]:
        slots, reads, writes = self.memory_slots, self.read_heads, self.write_heads
        shapes: list[tuple[int, ...]] = [(slots, self.word_width), (slots,)]
        shapes += [(writes, slots), (reads, slots)]
        if self.links:
            shapes.append((writes, slots))
        dense = self.links is True
        if dense:
            shapes.append((writes, slots, slots))
        specs = [(shape, self.memory_dtype) for shape in shapes]
        if self.links and not dense:
            shape = (writes, min(self.links, slots), slots)
            specs += [(shape, "int32"), (shape, self.memory_dtype)]
        return super().state_specs() + specs

    def start(self, batch: Any) -> DNCState:
        def zeros(*shape: int) -> Tensor:
            return ops.zeros((batch, *shape), self.memory_dtype)

        slots, writes = self.memory_slots, self.write_heads
        linked: Any = ()
        if self.links is True:
            linked = zeros(writes, slots, slots)
        elif self.links:
            linked = links.no_links(batch, writes, slots, self.links, self.memory_dtype)
        return DNCState(
            cell=self.first_controller_state(batch),
            read=ops.zeros((batch, self.read_width), self.compute_dtype),
            memory=zeros(slots, self.word_width),
            usage=zeros(slots),
            write_weights=zeros(writes, slots),
            read_weights=zeros(self.read_heads, slots),
            precedence=zeros(writes, slots) if self.links else (),
            links=linked,
        )

    def access(
        self, interface: Tensor, state: DNCState, mask: Tensor | None, traced: bool
    ) -> tuple[DNCState, Any]:
        if self.normalization is not None:
            interface = self.normalization(interface)
        fused = None if traced else self._fused(interface, state, mask)
        if fused is not None:
            return fused, ()
        say = self.parse(interface)
        free, gate = say.free_gates, say.write_gate
        if mask is not None:  # nothing is freed or written at a padded step
            there = ops.cast(mask, gate.dtype)[:, None]  # (B, 1)
            free, gate = free * there, gate * there
        retained = addressing.retention(free, state.read_weights)  # ψ, (B, M)
        usage = addressing.usage(state.usage, state.write_weights, retained)  # u
        written = addressing.write_weights(  # wʷ, (B, H, M)
            addressing.content_weights(
                state.memory, say.write_keys, say.write_strengths, say.write_masks
            ),
            addressing.allocations(
                usage, gate * say.allocation_gate, say.allocation_strengths
            ),
            gate,
            say.allocation_gate,
        )
        memory = state.memory
        if "deallocation" in self.refinements:
            memory = addressing.deallocate(memory, retained)
        memory = addressing.erase_and_write(memory, written, say.erase, say.values)
        linked, precedence = self._link(state, written)  # L, p
        weights = addressing.content_weights(  # cʳ, (B, R, M)
            memory, say.read_keys, say.read_strengths, say.read_masks
        )
        if self.links:
            forward, backward = self._follow(linked, state.read_weights, say.sharpness)
            weights = addressing.read_weights(say.modes, backward, weights, forward)
        read = addressing.read(memory, weights)  # r, (B, R, W)
        new = state._replace(
            read=ops.reshape(read, (-1, self.read_width)),
            memory=memory,
            usage=usage,
            write_weights=written,
            read_weights=weights,
            precedence=precedence,
            links=linked,
        )
        modes = () if say.modes is None else say.modes
        gates = (free, say.allocation_gate, gate)
        return new, Trace(memory, usage, written, weights, linked, modes, *gates)

    def untouched(self, new: DNCState, old: DNCState, mask: Tensor) -> DNCState:
        # A write gate of 0 and no free gate leave memory, dense links and precedence.
        names = ["cell", "read", "usage", "write_weights", "read_weights"]
        if self.links and self.links is not True:
            names.append("links")
        return new._replace(
            **{n: loop.choose(mask, getattr(new, n), getattr(old, n)) for n in names}
        )

    def parse(self, interface: Tensor) -> Interface:
        """ξ taken apart, and each piece brought into its range.

        Args:
            interface: ξ, (B, ·), normalized where that is asked for.
        """
        words, strengths, gates, modes = self._pieces()
        reads, writes = self.read_heads, self.write_heads
        ends = [sum(words), sum(words + strengths), sum(words + strengths + gates)]
        found = ops.split(interface, ends, axis=-1)
        width = self.word_width

        def heads(x: Tensor, number: int, *shape: int) -> Tensor:
            return ops.reshape(x, (-1, number, *(shape or (width,))))

        keys_r, keys_w, values = _parts(found[0], words)
        strong_r, strong_w, strong_a, sharp = _parts(
            1 + ops.softplus(found[1]), strengths
        )
        erase, free, allocation, write, masks_r, masks_w = _parts(
            ops.sigmoid(found[2]), gates
        )
        if masks_r is not None:
            masks_r = heads(LEAST + (1 - LEAST) * masks_r, reads)
            masks_w = heads(LEAST + (1 - LEAST) * masks_w, writes)
        if sharp is not None:
            sharp = heads(sharp, 2, reads, writes)
        mixed = None
        if self.links:
            mixed = ops.softmax(heads(found[3], reads, modes[0] // reads), axis=-1)
        return Interface(
            heads(keys_r, reads),
            heads(keys_w, writes),
            heads(values, writes),
            strong_r,
            strong_w,
            strong_a,
            sharp,
            heads(erase, writes),
            free,
            allocation,
            write,
            masks_r,
            masks_w,
            mixed,
        )

    def draw(self, shape: tuple[Any, ...], training: bool | None) -> Tensor | None:
        if not training or not self.bypass_dropout:
            return None
        ones = ops.ones((*shape, self.units), self.compute_dtype)
        return keras.random.dropout(ones, self.bypass_dropout, seed=self.seed_generator)

    def draws(self) -> bool:
        return bool(self.bypass_dropout) or super().draws()

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "links": self.links,
            "refinements": list(self.refinements),
            "bypass_dropout": self.bypass_dropout,
        }

    def _pieces(self) -> tuple[list[int], ...]:
        """The widths of what ξ holds: words, strengths, gates and modes."""
        reads, writes, width = self.read_heads, self.write_heads, self.word_width
        masked = "masked_keys" in self.refinements
        words = [reads * width, writes * width, writes * width]
        strengths = [
            reads,
            writes,
            writes * ("soft_allocation" in self.refinements),
            2 * reads * writes * ("sharp_links" in self.refinements),
        ]
        gates = [writes * width, reads, writes, writes]
        gates += [masked * reads * width, masked * writes * width]
        modes = [reads * (1 + 2 * writes) if self.links else 0]
        return words, strengths, gates, modes

    def _fused(
        self, interface: Tensor, state: DNCState, mask: Tensor | None
    ) -> DNCState | None:
        """The same as `access` in one kernel; None where there is none."""
        if self.links is not True or self.write_heads > 1:
            return None
        if {"sharp_links", "soft_allocation"} & set(self.refinements):
            return None
        old = (getattr(state, name) for name in kernels.Memory._fields)
        there = None if mask is None else ops.cast(mask, interface.dtype)[:, None]
        form = kernels.Form(
            LEAST if "masked_keys" in self.refinements else None,
            "deallocation" in self.refinements,
        )
        found = kernels.access_memory(interface, kernels.Memory(*old), there, form)
        if found is None:
            return None
        read, new = found
        read = ops.reshape(read, (-1, self.read_width))
        return state._replace(read=read, **new._asdict())

    def _link(self, state: DNCState, written: Tensor) -> tuple[Any, Any]:
        """L and p after a step's writing."""
        if not self.links:
            return (), ()
        now = state.links, state.precedence, written
        if self.links is True:
            linked = links.links(*now)
        else:  # whose threshold does not change with the number of slots
            linked = links.sparse_links(*now, threshold=1 / self.links)
        return linked, links.precedence(state.precedence, written)

    def _follow(self, linked: Any, weights: Tensor, sharpness: Any) -> tuple:
        """f and b, (B, R, H, M), made sharper where that is asked for."""
        follow = links.directions if self.links is True else links.sparse_directions
        forward, backward = follow(linked, weights)
        if sharpness is None:
            return forward, backward
        return (
            addressing.sharpen(forward, sharpness[:, 0]),
            addressing.sharpen(backward, sharpness[:, 1]),
        )


def _parts(x: Tensor, sizes: list[int]) -> list[Any]:
    """A tensor (B, ·) cut along its last axis; None where a size is 0."""
    found, start = [], 0
    for size in sizes:
        found.append(x[:, start : start + size] if size else None)
        start += size
    return found
