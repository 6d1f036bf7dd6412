"""Temporal links: the order in which the slots of a memory were written.

L[i, j] is the degree to which slot i was written right after slot j. From a read slot,
L w leads forward to the slots written after it, and Lᵀ w backward to the slots written
before it.

Dense links (:func:`links`, :func:`directions`) store M × M numbers per write head.
Sparse links (:class:`SparseLinks`, :func:`sparse_links`, :func:`sparse_directions`)
store only the K strongest links of each row, K × M numbers per write head.

Shapes: B batch, M memory slots, R read heads, H write heads, K links of a slot.

Reference:
    Graves et al., "Hybrid computing using a neural network with dynamic external
    memory" (2016), Nature 538, Methods, "Temporal memory linkage" and "Sparse link
    matrix".
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from keras import ops

from keras_attention import kernels
from keras_attention.kernels.memory_step import reference
from keras_attention.kernels.memory_step.reference import Linkage

Tensor = Any

EPSILON = reference.EPSILON


class SparseLinks(NamedTuple):
    """The strongest links of each slot.

    Attributes:
        slots: integers (B, H, K, M), the K slots after which each slot was written.
        values: (B, H, K, M), the degree of each link; 0 for unused links.
    """

    slots: Tensor
    values: Tensor


def precedence(previous: Tensor, write_weights: Tensor) -> Tensor:
    """Computes p, the degree to which each slot was written last.

        p = (1 − Σᵢ w[i]) p + w

    Args:
        previous: p of the previous step, (B, H, M).
        write_weights: w, (B, H, M).

    Returns:
        (B, H, M); each row sums to at most 1.
    """
    return reference.precedence(previous, write_weights)


def links(
    previous: Tensor, previous_precedence: Tensor, write_weights: Tensor
) -> Tensor:
    """Computes L, the degree to which each slot was written right after another slot.

        L[i, j] = (1 − w[i] − w[j]) L[i, j] + w[i] p[j],  L[i, i] = 0

    Args:
        previous: L of the previous step, (B, H, M, M).
        previous_precedence: p of the previous step, (B, H, M).
        write_weights: w, (B, H, M).

    Returns:
        (B, H, M, M), each row and each column sums to at most 1.
    """
    arrays = (previous, previous_precedence, write_weights)
    return reference.write_links(*map(ops.convert_to_tensor, arrays))


def directions(links: Tensor, read_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Computes f and b, the slots written after and before the read slots.

        f = L w,  b = Lᵀ w

    Args:
        links: L, (B, H, M, M).
        read_weights: wʳ of the previous step, (B, R, M).

    Returns:
        f and b, (B, R, H, M).
    """
    arrays = (links, read_weights)
    return reference.follow_links(*map(ops.convert_to_tensor, arrays))


def no_links(
    batch: Any, heads: int, slots: int, number: int, dtype: str = "float32"
) -> SparseLinks:
    """Returns the sparse links of an empty memory.

    Args:
        batch: B.
        heads: H.
        slots: M.
        number: K, the maximum number of links per slot; at most M are used.
        dtype: the dtype of the values.

    Raises:
        ValueError: if `number` is below 1.
    """
    if number < 1:
        raise ValueError(f"`number` must be at least 1. Received: number={number}")
    shape = (batch, heads, min(number, slots), slots)
    return SparseLinks(ops.zeros(shape, "int32"), ops.zeros(shape, dtype))


def sparse_links(
    previous: SparseLinks,
    previous_precedence: Tensor,
    write_weights: Tensor,
    threshold: float | None = None,
) -> SparseLinks:
    """Computes L with at most K links per row, in O(M K).

    Only the K largest entries of w and of p are used. They are rescaled to keep the
    sums of w and p. New links are thus added to only K rows of L. Links below the
    threshold are dropped. With K = M and a threshold of 0, the result equals `links`.
    The cost is proportional to the number of nonzero links, plus a few passes over M K
    numbers. A link of 0 passes no gradient.

    Args:
        previous: L of the previous step.
        previous_precedence: p of the previous step, (B, H, M).
        write_weights: w, (B, H, M).
        threshold: links below it are dropped; 1 / K by default.

    Returns:
        L, in the shapes of `previous`.
    """
    heads, k, slots = previous.values.shape[1:]
    threshold = 1 / k if threshold is None else threshold

    def fold(x: Tensor) -> Tensor:
        return ops.reshape(x, (-1, *x.shape[2:]))  # G = B H examples

    rows, w = _strongest(fold(write_weights), k)  # (G, K)
    columns = _strongest(fold(previous_precedence), k)
    groups = ops.arange(ops.shape(rows)[0], dtype="int32")
    at, values = fold(previous.slots), fold(previous.values)  # (G, K, M)
    dense = ops.zeros_like(at[:, 0], dtype=values.dtype)  # (G, M)
    dense = _written(dense, rows + (groups * slots)[:, None], w)  # ŵ
    values = kernels.fade_links(values, at, dense)
    lines = ops.arange(k, dtype="int32") + (groups * k)[:, None]  # of (G, K)
    index = rows[..., None] + lines[:, None] * slots  # (G, K rows, K links)
    old_at, old = (ops.take(ops.reshape(x, (-1,)), index) for x in (at, values))
    new_at, new = _merge(old_at, old, (rows, w), columns)
    at = ops.copy(at)  # on NumPy, Keras' scatter would modify the previous L
    at, values = _written(at, index, new_at), _written(values, index, new)
    values = ops.where(values < threshold, ops.zeros_like(values), values)
    shape = (-1, heads, k, slots)
    return SparseLinks(ops.reshape(at, shape), ops.reshape(values, shape))


def sparse_directions(
    links: SparseLinks, read_weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Computes f = L w and b = Lᵀ w of sparse links, in O(R M K).

    Args:
        links: L.
        read_weights: wʳ of the previous step, (B, R, M).

    Returns:
        f and b, (B, R, H, M).
    """
    heads, k, slots = links.values.shape[1:]
    readers = read_weights.shape[1]
    reads = ops.swapaxes(read_weights, 1, 2)  # (B, M, R)
    if heads > 1:
        reads = ops.reshape(ops.repeat(reads, heads, axis=0), (-1, slots, readers))
    at, values = (
        ops.reshape(x, (-1, k, slots)) for x in (links.slots, links.values)
    )  # (B H, K, M)
    forward, backward = (  # from (B H, M, R)
        ops.transpose(ops.reshape(x, (-1, heads, slots, readers)), (0, 3, 1, 2))
        for x in kernels.follow_links(values, at, reads)
    )
    return forward, backward


def linkage(links: bool | int) -> Linkage | None:
    """Returns the functions that write and follow links in a step of the memory.

    Args:
        links: True for dense links, K for K sparse links per slot with a threshold of 1
            / K, False for no links.
    """
    if isinstance(links, bool):
        return reference.DENSE if links else None
    write = functools.partial(sparse_links, threshold=1 / links)
    return Linkage(write, sparse_directions)


def dense_links(links: SparseLinks) -> Tensor:
    """Converts sparse links to dense links, (B, H, M, M).

    Args:
        links: L.
    """
    slots = links.values.shape[3]
    hot = ops.one_hot(links.slots, slots, dtype=links.values.dtype)
    return ops.sum(links.values[..., None] * hot, axis=2)


def _strongest(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the slots and rescaled weights of the K largest entries per row."""
    values, slots = ops.top_k(weights, k)  # (G, K)
    total = ops.sum(weights, axis=-1, keepdims=True)
    largest = ops.sum(values, axis=-1, keepdims=True)
    return ops.cast(slots, "int32"), values * ((total + EPSILON) / (largest + EPSILON))


def _written(x: Tensor, index: Tensor, numbers: Tensor) -> Tensor:
    """Returns x with `numbers` written at the flat indices `index`."""
    flat, index = ops.reshape(x, (-1,)), ops.reshape(index, (-1, 1))
    flat = ops.scatter_update(flat, index, ops.reshape(numbers, (-1,)))
    return ops.reshape(flat, ops.shape(x))


def _merge(
    at: Tensor,
    values: Tensor,
    rows: tuple[Tensor, Tensor],
    columns: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """Merges new links w[i] p[j] into the rows i and keeps the K largest per row.

    The slots and values of links are (G, K, K), those of `rows` and `columns` (G, K).
    """
    after, before = rows[0][..., None], columns[0][:, None]  # (G, K, 1), (G, 1, K)
    new = rows[1][..., None] * columns[1][:, None]  # (G, K, K)
    new = ops.where(ops.equal(after, before), ops.zeros_like(new), new)  # L[i, i] = 0
    same = ops.equal(at[..., None], before[:, :, None])  # (G, K, K, K): old, new
    known = ops.where(same, values[..., None], ops.zeros_like(values[..., None]))
    new = new + ops.sum(known, axis=-2)
    values = ops.where(ops.any(same, axis=-1), ops.zeros_like(values), values)
    values = ops.concatenate([values, new], axis=-1)  # (G, K, ·): old and new
    at = ops.concatenate([at, ops.broadcast_to(before, ops.shape(new))], axis=-1)
    best, which = ops.top_k(values, new.shape[-1])
    return ops.take_along_axis(at, ops.cast(which, "int32"), axis=-1), best
