"""The interface vector ξ of a DNC: its parts, how it is split, and the gradient.

The order of the fields of `Interface` is the order of the parts in ξ.

Shapes: B batch, W word width, R read heads, H write heads.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

Tensor = Any

EPSILON = 1e-6
MIN_MASK = 0.1  # the minimum of a key mask


class Linkage(NamedTuple):
    """How temporal links are stored and used."""

    write: Callable  # the next L, from L, p and wʷ
    follow: Callable  # f and b, (B, R, H, M), from L and wʳ


class MemoryOptions(NamedTuple):
    """The static options of a step of the memory.

    Attributes:
        linkage: the functions that write and follow links; None without links.
        masked_keys: whether each key has a mask.
        deallocation: whether freed slots are erased before the write.
        sharp_links: whether forward and backward weights are sharpened.
        soft_allocation: whether allocation is a softmax instead of a sorted list.
        compare_slots: whether the free list compares all pairs of slots instead of
            sorting. The result is equal. Comparing is faster for few slots on some
            backends.
        epsilon: ε, added to the squared norms of keys and slots in content addressing.
    """

    linkage: Linkage | None
    masked_keys: bool = False
    deallocation: bool = False
    sharp_links: bool = False
    soft_allocation: bool = False
    compare_slots: bool = False
    epsilon: float = EPSILON


class Interface(NamedTuple):
    """The parts of the interface vector ξ, each in its range."""

    read_keys: Any  # kʳ, (B, R, W)
    write_keys: Any  # kʷ, (B, H, W)
    values: Any  # v, (B, H, W)
    read_strengths: Any  # βʳ, (B, R), at least 1, like all strengths
    write_strengths: Any  # βʷ, (B, H)
    allocation_strengths: Any  # β of soft allocation, (B, H), or None
    sharpness: Any  # s of forward and backward links, (B, 2, R, H), or None
    erase: Any  # e, (B, H, W), between 0 and 1, like all parts below
    free_gates: Any  # f, (B, R)
    allocation_gate: Any  # gᵃ, (B, H)
    write_gate: Any  # gʷ, (B, H)
    read_masks: Any  # zʳ, (B, R, W), or None
    write_masks: Any  # zʷ, (B, H, W), or None
    modes: Any  # π, (B, R, 1 + 2H), on the simplex: backward, content, forward; or None


def interface_widths(
    word_width: int, read_heads: int, write_heads: int, options: MemoryOptions
) -> Interface:
    """Returns the width of each part of ξ, as an `Interface` of integers."""
    reads, writes, width = read_heads, write_heads, word_width
    return Interface(
        read_keys=reads * width,
        write_keys=writes * width,
        values=writes * width,
        read_strengths=reads,
        write_strengths=writes,
        allocation_strengths=writes * options.soft_allocation,
        sharpness=2 * reads * writes * options.sharp_links,
        erase=writes * width,
        free_gates=reads,
        allocation_gate=writes,
        write_gate=writes,
        read_masks=reads * width * options.masked_keys,
        write_masks=writes * width * options.masked_keys,
        modes=reads * (1 + 2 * writes) * (options.linkage is not None),
    )


@functools.lru_cache
def _slices(*sizes: Any) -> tuple[Any, Interface]:
    """Returns the slices of groups in ξ, and the slice of each part in its group."""
    widths = interface_widths(*sizes)
    groups, parts, start = [], [], 0
    for group in (widths[:3], widths[3:7], widths[7:13], widths[13:]):
        groups.append(slice(start, start + sum(group)))
        start += sum(group)
        ends = [sum(group[:n]) for n in range(len(group) + 1)]
        parts += [slice(*pair) for pair in itertools.pairwise(ends)]
    return groups, Interface(*parts)


def split_interface(
    interface: Tensor,
    sizes: tuple[int, int, int],
    options: MemoryOptions,
    mask: Tensor | None = None,
) -> Interface:
    """Splits ξ into its parts and brings each part into its range.

    Args:
        interface: ξ, (B, ·).
        sizes: W, R and H.
        options: the options of the step.
        mask: numbers (B, 1); 0 closes all gates. None means 1.
    """
    width, reads, writes = sizes
    reshape = ops.reshape
    groups, at = _slices(*sizes, options)
    words = interface[:, groups[0]]
    strengths = 1 + ops.softplus(interface[:, groups[1]])
    gates = ops.sigmoid(interface[:, groups[2]])
    if mask is not None:
        gates = gates * mask
    beta, sharpness, masks_r, masks_w, modes = None, None, None, None, None
    if options.soft_allocation:
        beta = strengths[:, at.allocation_strengths]
    if options.sharp_links:
        sharpness = reshape(strengths[:, at.sharpness], (-1, 2, reads, writes))
    if options.masked_keys:
        masks = MIN_MASK + (1 - MIN_MASK) * gates
        masks_r = reshape(masks[:, at.read_masks], (-1, reads, width))
        masks_w = reshape(masks[:, at.write_masks], (-1, writes, width))
    if options.linkage is not None:
        modes = reshape(interface[:, groups[3]], (-1, reads, 1 + 2 * writes))
        modes = ops.softmax(modes, -1)
    return Interface(
        reshape(words[:, at.read_keys], (-1, reads, width)),
        reshape(words[:, at.write_keys], (-1, writes, width)),
        reshape(words[:, at.values], (-1, writes, width)),
        strengths[:, at.read_strengths],
        strengths[:, at.write_strengths],
        beta,
        sharpness,
        reshape(gates[:, at.erase], (-1, writes, width)),
        gates[:, at.free_gates],
        gates[:, at.allocation_gate],
        gates[:, at.write_gate],
        masks_r,
        masks_w,
        modes,
    )


def interface_gradient(x: Interface, d: Interface) -> Tensor:
    """Computes the gradient with respect to ξ, (B, ·), of a step with links.

    Soft allocation and sharp links are not supported.
    """

    def flat(parts: Any) -> Tensor:
        rows = [p if len(p.shape) == 2 else _flat(p) for p in parts if p is not None]
        return ops.concatenate(rows, axis=1)

    strengths, gates = flat(x[3:5]), flat(x[7:11])
    parts = [
        flat(d[:3]),
        flat(d[3:5]) * (1 - ops.exp(1 - strengths)),  # of 1 + softplus
        flat(d[7:11]) * gates * (1 - gates),  # of a sigmoid
    ]
    if x.read_masks is not None:
        masks = flat(x[11:13])
        slope = (masks - MIN_MASK) * (1 - masks) / (1 - MIN_MASK)
        parts.append(flat(d[11:13]) * slope)
    inner = ops.sum(x.modes * d.modes, axis=-1, keepdims=True)
    parts.append(x.modes * (d.modes - inner))  # of a softmax
    return flat(parts)


def _flat(part: Tensor) -> Tensor:
    """Reshapes (B, R, W) to (B, R W)."""
    return ops.reshape(part, (-1, part.shape[1] * part.shape[2]))
