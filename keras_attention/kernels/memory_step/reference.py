"""The equations of a DNC's memory and its step, in Keras operations.

:func:`step` defines the step for any number of write heads, for dense, sparse or no
links, and for all refinements. The functions above :func:`step` are its equations;
:mod:`keras_attention.ops.memory` documents and calls these functions. Some of them also
return residuals for the gradient in `gradient.py`, which JAX and TensorFlow use. On
torch, the same gradient made a training step 1.0 times as fast, and a recorded one 1.2
times.

Shapes: B batch, M memory slots, W word width, R read heads, H write heads.

References:
    Graves et al., "Hybrid computing using a neural network with dynamic external
    memory" (2016), Nature 538, Methods.
    Csordás & Schmidhuber, "Improving differentiable neural computers through memory
    masking, de-allocation, and link distribution sharpness control" (2019),
    arXiv:1904.10278.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention.kernels.keras import stable_argsort

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


class MemoryState(NamedTuple):
    """The state of the memory between steps."""

    memory: Tensor  # M, (B, M, W)
    usage: Tensor  # u, (B, M)
    write_weights: Tensor  # wʷ, (B, H, M)
    read_weights: Tensor  # wʳ, (B, R, M)
    precedence: Any  # p, (B, H, M); `()` without links
    links: Any  # L, (B, H, M, M), or sparse links; `()` without


class Content(NamedTuple):
    """The results of content-based addressing, with residuals for its gradient."""

    weights: Tensor  # c, (B, R, M)
    cosine: Tensor  # D, (B, R, M)
    key_scale: Tensor  # 1 / √(|k|² + ε), (B, R, 1)
    slot_scale: Tensor  # 1 / √(|M[i]|² + ε), (B, 1, M); with key masks (B, R, M)


class SortedSlots(NamedTuple):
    """The free list: the slots in order of ascending usage. Each field is (B, M)."""

    order: Tensor  # φ
    rank: Tensor  # the rank of each slot in φ
    used: Tensor  # u[φⱼ]
    before: Tensor  # ∏_{i<j} u[φᵢ]


class ComparedSlots(NamedTuple):
    """The free list without sorting, by comparing all pairs of slots."""

    used: Tensor  # u, (B, M)
    before: Tensor  # ∏ over the slots that come before, (B, M)


class Residuals(NamedTuple):
    """Intermediate values of a step, for the gradient and the trace."""

    interface: Interface
    retention: Tensor  # ψ, (B, M)
    free_list: SortedSlots | ComparedSlots | None  # for the last write head
    allocation: Tensor  # a, (B, H, M)
    write_content: Content  # cʷ, (B, H, M)
    forward: Any  # f, (B, R, H, M), or None, like b
    backward: Any  # b, (B, R, H, M)
    read_content: Content  # cʳ, (B, R, M)


def retention(free_gates: Tensor, read_weights: Tensor) -> Tensor:
    """ψ = ∏ᵣ (1 − f[r] wʳ[r, ·]), (B, M)."""
    return ops.prod(1 - ops.expand_dims(free_gates, -1) * read_weights, axis=1)


def update_usage(previous: Tensor, write_weights: Tensor, retention: Tensor) -> Tensor:
    """u = (1 − (1 − u) ∏ₕ (1 − w[h, ·])) ∘ ψ, (B, M)."""
    for h in range(write_weights.shape[1]):
        previous = previous + (1 - previous) * write_weights[:, h]
    return previous * retention


def allocation_weights(
    usage: Tensor, compare_slots: bool = False
) -> tuple[Tensor, SortedSlots | ComparedSlots]:
    """a[φⱼ] = (1 − u[φⱼ]) ∏_{i<j} u[φᵢ], (B, M), and the free list φ."""
    usage = EPSILON + (1 - EPSILON) * usage  # keeps ln and its gradient finite
    if compare_slots:
        logs = ops.expand_dims(ops.log(usage), 2)
        comes_first = comes_before(usage, usage.shape[-1])
        # Not 0: the ONNX of a loop on JAX would hold an integer beside floats.
        before = ops.exp(ops.sum(ops.where(comes_first, logs, 0.0), axis=1))
        return (1 - usage) * before, ComparedSlots(usage, before)
    order = stable_argsort(ops.stop_gradient(usage))  # φ, (B, M)
    rank = ops.argsort(order, axis=-1)
    used = ops.take_along_axis(usage, order, axis=-1)  # ascending
    # An exclusive sum by a shift: subtracting would lose a slot of usage 1e-6 next to
    # 1.
    logs = ops.pad(ops.log(used)[:, :-1], ((0, 0), (1, 0)))
    before = ops.exp(ops.cumsum(logs, axis=-1))  # ∏_{i<j} u[φᵢ]
    weights = ops.take_along_axis((1 - used) * before, rank, axis=-1)
    return weights, SortedSlots(order, rank, used, before)


def comes_before(usage: Tensor, slots: int, transpose: bool = False) -> Tensor:
    """Whether slot i comes before slot j in the free list, (B, i, j) or (B, j, i)."""
    i, j = ops.expand_dims(usage, 2), ops.expand_dims(usage, 1)
    lower = np.triu(np.ones((slots, slots), bool), 1)
    if transpose:
        i, j, lower = j, i, lower.T
    return ops.logical_or(i < j, ops.logical_and(i == j, lower))


def soft_allocation(usage: Tensor, strength: Tensor) -> Tensor:
    """a = softmax(β (1 − u)), (B, M)."""
    return ops.softmax((1 - usage) * strength[:, None], axis=-1)


def allocations(
    usage: Tensor,
    write_gates: Tensor,
    strengths: Tensor | None = None,
    compare_slots: bool = False,
) -> tuple[Tensor, Any]:
    """aₕ of uₕ, uₕ₊₁ = uₕ + (1 − uₕ) g[h] aₕ: (B, H, M); and the last free list."""
    heads, weights, free_list = write_gates.shape[1], [], None
    for h in range(heads):
        if strengths is None:
            a, free_list = allocation_weights(usage, compare_slots)
        else:
            a = soft_allocation(usage, strengths[:, h])
        weights.append(a)
        if h + 1 < heads:
            usage = usage + (1 - usage) * write_gates[:, h : h + 1] * a
    return ops.stack(weights, axis=1), free_list


def content_weights(
    memory: Tensor,
    keys: Tensor,
    strengths: Tensor,
    key_mask: Tensor | None = None,
    epsilon: float = EPSILON,
) -> Content:
    """c = softmaxᵢ(β D(k, M[i, ·])), (B, R, M)."""
    if key_mask is None:
        squares = ops.sum(ops.square(memory), axis=-1)[:, None]  # (B, 1, M)
        key_scale = ops.rsqrt(ops.sum(ops.square(keys), -1, keepdims=True) + epsilon)
        keys = keys * key_scale
    else:  # D(k ∘ z, m ∘ z)
        transposed = ops.swapaxes(ops.square(memory), -1, -2)
        squares = ops.matmul(ops.square(key_mask), transposed)  # (B, R, M)
        keys = keys * key_mask
        key_scale = ops.rsqrt(ops.sum(ops.square(keys), -1, keepdims=True) + epsilon)
        keys = keys * key_mask * key_scale
    slot_scale = ops.rsqrt(squares + epsilon)
    cosine = ops.matmul(keys, ops.swapaxes(memory, -1, -2)) * slot_scale  # (B, R, M)
    weights = ops.softmax(cosine * ops.expand_dims(strengths, -1), axis=-1)
    return Content(weights, cosine, key_scale, slot_scale)


def write_weights(
    content: Tensor, allocation: Tensor, write_gate: Tensor, allocation_gate: Tensor
) -> Tensor:
    """w = gʷ (gᵃ a + (1 − gᵃ) cʷ), (B, H, M)."""
    where = content + ops.expand_dims(allocation_gate, -1) * (allocation - content)
    return ops.expand_dims(write_gate, -1) * where


def erase_and_write(
    memory: Tensor, weights: Tensor, erase: Tensor, values: Tensor
) -> Tensor:
    """M = M ∘ ∏ₕ (1 − w[h] e[h]ᵀ) + Σₕ w[h] v[h]ᵀ, (B, M, W)."""
    heads = erase.shape[1]
    for h in range(heads):
        memory = memory * (1 - ops.expand_dims(weights[:, h], -1) * erase[:, h, None])
    if heads == 1:
        return memory + ops.expand_dims(weights[:, 0], -1) * values
    return memory + ops.matmul(ops.swapaxes(weights, -1, -2), values)


def deallocate(memory: Tensor, retention: Tensor) -> Tensor:
    """M ∘ ψ 1ᵀ, (B, M, W)."""
    return memory * ops.expand_dims(retention, -1)


def write_links(
    previous: Tensor, previous_precedence: Tensor, write_weights: Tensor
) -> Tensor:
    """L[i, j] = (1 − w[i] − w[j]) L[i, j] + w[i] p[j], L[i, i] = 0: (B, H, M, M)."""
    slots = write_weights.shape[-1]
    after = ops.expand_dims(write_weights, -1)  # w[i], (B, H, M, 1)
    unwritten = (1 - after) - ops.expand_dims(write_weights, -2)  # (B, H, M, M)
    new = unwritten * previous + after * ops.expand_dims(previous_precedence, -2)
    return new * ops.cast(1 - np.eye(slots), new.dtype)


def precedence(previous: Tensor, write_weights: Tensor) -> Tensor:
    """p = (1 − Σᵢ w[i]) p + w, (B, H, M)."""
    unwritten = 1 - ops.sum(write_weights, axis=-1, keepdims=True)
    return unwritten * previous + write_weights


def follow_links(links: Tensor, read_weights: Tensor) -> tuple[Tensor, Tensor]:
    """f = L w, b = Lᵀ w, (B, R, H, M)."""
    if links.shape[1] == 1:  # a product of rank 3 is faster
        matrix = links[:, 0]  # (B, M, M)
        forward = ops.matmul(read_weights, ops.swapaxes(matrix, -1, -2))
        backward = ops.matmul(read_weights, matrix)
        return forward[:, :, None], backward[:, :, None]
    weights = read_weights[:, None]  # (B, 1, R, M)
    forward = ops.matmul(weights, ops.swapaxes(links, -1, -2))  # (B, H, R, M)
    backward = ops.matmul(weights, links)
    return ops.swapaxes(forward, 1, 2), ops.swapaxes(backward, 1, 2)


def sharpen(weights: Tensor, power: Tensor, epsilon: float = EPSILON) -> Tensor:
    """S(d, s) = softmax(s ln(d + ε)), (..., M)."""
    half = keras.backend.standardize_dtype(weights.dtype) == "float16"
    if half:  # where ε is 0 or 1 / ε is infinite
        weights, power = ops.cast(weights, "float32"), ops.cast(power, "float32")
    sharp = ops.softmax(
        ops.expand_dims(power, -1) * ops.log(weights + epsilon), axis=-1
    )
    return ops.cast(sharp, "float16") if half else sharp


def read_weights(
    modes: Tensor, backward: Tensor, content: Tensor, forward: Tensor
) -> Tensor:
    """wʳ = Σₕ π[h] b[h] + π[H] c + Σₕ π[H + 1 + h] f[h], (B, R, M)."""
    heads = backward.shape[2]
    weights = modes[..., heads, None] * content
    for h in range(heads):
        weights = weights + modes[..., h, None] * backward[:, :, h]
        weights = weights + modes[..., heads + 1 + h, None] * forward[:, :, h]
    return weights


DENSE = Linkage(write_links, follow_links)
GRAVES = MemoryOptions(DENSE)  # the DNC of 2016


def step(
    interface: Tensor,
    old: MemoryState,
    mask: Tensor | None = None,
    options: MemoryOptions = GRAVES,
) -> tuple[Tensor, MemoryState, Residuals]:
    """Runs one step of the memory, in the paper's order: usage, write, links, read.

    Args:
        interface: ξ, (B, ·), in the order of the fields of `Interface`.
        old: the memory after the previous step.
        mask: numbers (B, 1); 0 means that nothing is freed or written. None means 1.
        options: the kind of links and the refinements.

    Returns:
        The words read, (B, R, W); the new memory; the residuals for the gradient. The
        kernels of other backends may return None for the residuals.
    """
    heads = old.read_weights.shape[1], old.write_weights.shape[1]
    x = split_interface(interface, (old.memory.shape[-1], *heads), options, mask)

    # Usage and allocation.
    psi = retention(x.free_gates, old.read_weights)  # ψ
    usage = update_usage(old.usage, old.write_weights, psi)  # u
    allocation, free_list = allocations(  # a, φ
        usage,
        x.write_gate * x.allocation_gate,
        x.allocation_strengths,
        options.compare_slots,
    )

    # Write: the keys address the memory of the previous step.
    write_content = content_weights(  # cʷ
        old.memory, x.write_keys, x.write_strengths, x.write_masks, options.epsilon
    )
    w = write_weights(  # wʷ
        write_content.weights, allocation, x.write_gate, x.allocation_gate
    )
    retained = deallocate(old.memory, psi) if options.deallocation else old.memory
    memory = erase_and_write(retained, w, x.erase, x.values)  # M

    # Read, by content only if there are no links.
    read_content = content_weights(  # cʳ
        memory, x.read_keys, x.read_strengths, x.read_masks, options.epsilon
    )
    reads, last, links, forward, backward = read_content.weights, (), (), None, None
    if options.linkage is not None:
        links = options.linkage.write(old.links, old.precedence, w)  # L
        last = precedence(old.precedence, w)  # p
        forward, backward = options.linkage.follow(links, old.read_weights)  # f, b
        if options.sharp_links:
            forward = sharpen(forward, x.sharpness[:, 0])
            backward = sharpen(backward, x.sharpness[:, 1])
        reads = read_weights(x.modes, backward, reads, forward)  # wʳ
    new = MemoryState(memory, usage, w, reads, last, links)
    residuals = Residuals(
        x, psi, free_list, allocation, write_content, forward, backward, read_content
    )
    return ops.matmul(reads, memory), new, residuals  # r = Mᵀ wʳ


access_memory = step  # backends may replace this function, but not `step`


def has_written_gradient(options: MemoryOptions, old: MemoryState) -> bool:
    """Returns whether `gradient.py` supports a step."""
    plain = not (options.sharp_links or options.soft_allocation)
    return plain and options.linkage is DENSE and old.write_weights.shape[1] == 1
