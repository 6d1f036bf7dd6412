"""Temporal links: in which order the slots of a memory were written.

L[i, j] says how far slot i was written right after slot j. A head that has read slot j
finds what came after it forward, L w, and what came before it backward, Lᵀ w.

Dense links (:func:`links`, :func:`directions`) hold M × M numbers for each write head.
Sparse ones (:class:`SparseLinks`, :func:`sparse_links`, :func:`sparse_directions`) hold
the K strongest of each row: K × M.

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
from keras_attention.kernels.memory_step.interface import Linkage

Tensor = Any

EPSILON = reference.EPSILON


class SparseLinks(NamedTuple):
    """The strongest links of each slot.

    Attributes:
        slots: integers (B, H, K, M): after which slots this slot was written.
        values: (B, H, K, M): how far; 0 where there are fewer than K links.
    """

    slots: Tensor
    values: Tensor


def precedence(previous: Tensor, write_weights: Tensor) -> Tensor:
    """p: how far each slot is the one that was written last.

        p = (1 − Σᵢ w[i]) p + w

    Args:
        previous: p of the step before, (B, H, M).
        write_weights: w, (B, H, M).

    Returns:
        (B, H, M), each row of sum at most 1.
    """
    return reference.precedence(previous, write_weights)


def links(
    previous: Tensor, previous_precedence: Tensor, write_weights: Tensor
) -> Tensor:
    """L: how far each slot was written right after each other one.

        L[i, j] = (1 − w[i] − w[j]) L[i, j] + w[i] p[j],  L[i, i] = 0

    Args:
        previous: L of the step before, (B, H, M, M).
        previous_precedence: p of the step before, (B, H, M).
        write_weights: w, (B, H, M).

    Returns:
        (B, H, M, M), each row and each column of sum at most 1.
    """
    return reference.write_links(previous, previous_precedence, write_weights)


def directions(links: Tensor, read_weights: Tensor) -> tuple[Tensor, Tensor]:
    """f and b: what was written after, and before, what was read.

        f = L w,  b = Lᵀ w

    Args:
        links: L, (B, H, M, M).
        read_weights: wʳ of the step before, (B, R, M).

    Returns:
        f and b, (B, R, H, M).
    """
    return reference.follow_links(links, read_weights)


def no_links(
    batch: Any, heads: int, slots: int, number: int, dtype: str = "float32"
) -> SparseLinks:
    """The sparse links of a memory that nothing was written to.

    Args:
        batch: B.
        heads: H.
        slots: M.
        number: K, how many links a slot may have; of a smaller memory all its slots.
        dtype: of the values.

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
    """L with at most K links in a row, in O(M K).

    Of w and p the K largest count; they are scaled to the sum that all of them had.
    So only K rows of L get new links, and links below the threshold are dropped. With
    K = M and a threshold of 0 this is `links`. The cost is that of the links there are,
    and a few passes over M K numbers. A link of 0 hands on no gradient.

    Args:
        previous: L of the step before.
        previous_precedence: p of the step before, (B, H, M).
        write_weights: w, (B, H, M).
        threshold: links below it are dropped; 1 / K where it is left out.

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
    at = ops.copy(at)  # on NumPy Keras' scatter would change L of the step before
    at, values = _written(at, index, new_at), _written(values, index, new)
    values = ops.where(values < threshold, ops.zeros_like(values), values)
    shape = (-1, heads, k, slots)
    return SparseLinks(ops.reshape(at, shape), ops.reshape(values, shape))


def sparse_directions(
    links: SparseLinks, read_weights: Tensor
) -> tuple[Tensor, Tensor]:
    """f and b of sparse links: f = L w, b = Lᵀ w, in O(R M K).

    Args:
        links: L.
        read_weights: wʳ of the step before, (B, R, M).

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
    found = kernels.follow_links(values, at, reads)  # (B H, M, R)
    forward, backward = (
        ops.transpose(ops.reshape(x, (-1, heads, slots, readers)), (0, 3, 1, 2))
        for x in found
    )
    return forward, backward


def linkage(links: bool | int) -> Linkage | None:
    """How a step of the memory writes and follows links.

    Args:
        links: True for dense links, K for sparse ones of that number, whose threshold
            is 1 / K whatever the number of slots, False for none.
    """
    if isinstance(links, bool):
        return reference.DENSE if links else None
    write = functools.partial(sparse_links, threshold=1 / links)
    return Linkage(write, sparse_directions)


def dense_links(links: SparseLinks) -> Tensor:
    """Sparse links written out, (B, H, M, M).

    Args:
        links: L.
    """
    slots = links.values.shape[3]
    hot = ops.one_hot(links.slots, slots, dtype=links.values.dtype)
    return ops.sum(links.values[..., None] * hot, axis=2)


def _strongest(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Slots and weights of the K largest of each row (G, M), of the sum of all."""
    values, slots = ops.top_k(weights, k)  # (G, K)
    total = ops.sum(weights, axis=-1, keepdims=True)
    kept = ops.sum(values, axis=-1, keepdims=True)
    return ops.cast(slots, "int32"), values * ((total + EPSILON) / (kept + EPSILON))


def _written(x: Tensor, index: Tensor, numbers: Tensor) -> Tensor:
    """A tensor with numbers at places of its flat form."""
    flat, index = ops.reshape(x, (-1,)), ops.reshape(index, (-1, 1))
    flat = ops.scatter_update(flat, index, ops.reshape(numbers, (-1,)))
    return ops.reshape(flat, ops.shape(x))


def _merge(
    at: Tensor,
    values: Tensor,
    rows: tuple[Tensor, Tensor],
    columns: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """New links w[i] p[j] joined to those of the rows i, of which the K largest stay.

    Args:
        at: slots of the links that the rows have, (G, K, K).
        values: how far, (G, K, K).
        rows: slots i and weights w, (G, K).
        columns: slots j and weights p, (G, K).

    Returns:
        Slots and values, (G, K, K).
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
