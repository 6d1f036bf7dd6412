"""Fading and following of sparse links, with gradients that skip zeros.

A memory of many slots can store M K links, but most of them are 0: all links in a new
memory, and all but one or two links of a slot after a sharp write. A link of 0 has no
effect and no gradient. The array is split into pieces. A piece holds one of the K links
of some adjacent slots. The loops for the result and for its gradient visit only pieces
with nonzero links. The cost grows with the number of nonzero links.

`fade` and `follow` are the equations. The backends compute the same values differently:
JAX and TensorFlow by a loop over pieces, torch by a list of the nonzero links.

Shapes: G examples times write heads, M slots, K links of a slot, R read heads, S slots
of a piece.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

Tensor = Any

LONGEST = 512  # the maximum of S


class Piece(NamedTuple):
    """The location of a piece: the index among K links, and the first slot."""

    rank: Tensor
    start: Tensor
    size: int


def in_whole_pieces(
    inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> Callable[[Callable], Callable]:
    """Decorates a function so that it receives a whole number of pieces.

    The decorator appends slots without links and cuts them off the results. `inputs`
    and `outputs` hold the slot axis of each argument and of each result.
    """

    def decorator(function: Callable) -> Callable:
        @functools.wraps(function)
        def run(*arrays: Tensor) -> Any:
            number = arrays[0].shape[-1]
            missing = -number % _size(number)
            if not missing:
                return function(*arrays)
            filled = (_filled(x, axis, missing) for x, axis in zip(arrays, inputs))
            results = function(*filled)
            results = results if len(outputs) > 1 else (results,)
            pairs = zip(results, outputs)
            cut = (y[(slice(None),) * axis + (slice(number),)] for y, axis in pairs)
            return tuple(cut) if len(outputs) > 1 else next(cut)

        return run

    return decorator


def _filled(x: Tensor, axis: int, missing: int) -> Tensor:
    return ops.pad(x, [(0, missing * (n == axis)) for n in range(len(x.shape))])


def fade(values: Tensor, slots: Tensor, weights: Tensor) -> Tensor:
    """Computes the links after a write, (1 − w[i] − w[j]) L[i, j], (G, K, M).

    The slots are j, integers (G, K, M). The last axis is slot i.
    """
    _, links, number = values.shape
    flat = ops.reshape(slots, (-1, links * number))
    before = ops.reshape(ops.take_along_axis(weights, flat, axis=-1), ops.shape(values))
    return values * ((1 - weights[:, None]) - before)


def follow(
    values: Tensor,
    slots: Tensor,
    reads: Tensor,
    segment_sum: Callable = ops.segment_sum,
) -> tuple[Tensor, Tensor]:
    """Computes the forward and backward weights f = L w and b = Lᵀ w, (G, M, R)."""
    _, links, number = values.shape
    groups, heads = ops.shape(reads)[0], reads.shape[-1]
    first = ops.arange(groups, dtype="int32") * number
    flat = ops.reshape(first[:, None, None] + slots, (-1,))  # (G K M,)
    ahead, back = [], []
    for r in range(heads):  # gathering scalars is faster than gathering rows
        weights = reads[:, :, r]
        before = ops.take(ops.reshape(weights, (-1,)), flat, axis=0)
        before = ops.reshape(before, (-1, links, number))  # w[j]
        ahead.append(ops.sum(values * before, axis=1))
        sent = ops.reshape(values * weights[:, None], (-1,))
        received = segment_sum(sent, flat, groups * number)
        back.append(ops.reshape(received, (-1, number)))
    return ops.stack(ahead, axis=-1), ops.stack(back, axis=-1)


@in_whole_pieces((2, 2, 1), (2,))
def fade_pieces(values: Tensor, slots: Tensor, weights: Tensor) -> Tensor:
    """Computes `fade` piece by piece."""
    table = weights[..., None]  # (G, M, 1)

    def step(piece: Piece, out: Tensor) -> tuple[Tensor]:
        before = _gather_rows(table, _slice_piece(slots, piece))[..., 0]  # w[j], (G, S)
        return (_add_to_links(out, piece, -before * _slice_piece(values, piece)),)

    faded = values * (1 - weights[:, None])
    return _for_each_piece(values, step, faded)[0]


@in_whole_pieces((2, 2, 1, 2), (2, 1))
def fade_gradient(
    values: Tensor, slots: Tensor, weights: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor]:
    """Computes the gradients with respect to L (G, K, M) and w (G, M)."""
    table = weights[..., None]

    def step(piece: Piece, of_values: Tensor, of_weights: Tensor) -> tuple:
        targets, d = _slice_piece(slots, piece), _slice_piece(slope, piece)
        before = _gather_rows(table, targets)[..., 0]
        sent = (-d * _slice_piece(values, piece))[..., None]
        of_weights = _add_to_rows(of_weights, targets, sent)
        return _add_to_links(of_values, piece, -before * d), of_weights

    here = -ops.sum(slope * values, axis=1)[..., None]
    faded = slope * (1 - weights[:, None])
    of_values, of_weights = _for_each_piece(values, step, faded, here)
    return of_values, of_weights[..., 0]


@in_whole_pieces((2, 2, 1), (1, 1))
def follow_pieces(
    values: Tensor, slots: Tensor, reads: Tensor
) -> tuple[Tensor, Tensor]:
    """Computes `follow` piece by piece."""

    def step(piece: Piece, ahead: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
        targets = _slice_piece(slots, piece)
        value = _slice_piece(values, piece)[..., None]
        ahead = _add_to_piece(ahead, piece, value * _gather_rows(reads, targets))
        return ahead, _add_to_rows(back, targets, value * _rows(reads, piece))

    none = ops.zeros_like(reads), ops.zeros_like(reads)
    ahead, back = _for_each_piece(values, step, *none)
    return ahead, back


@in_whole_pieces((2, 2, 1, 1, 1), (2, 1))
def follow_gradient(
    values: Tensor, slots: Tensor, reads: Tensor, ahead: Tensor, back: Tensor
) -> tuple[Tensor, Tensor]:
    """Computes the gradients with respect to L (G, K, M) and wʳ (G, M, R).

    `ahead` and `back` are the gradients with respect to f and b.
    """
    heads = reads.shape[-1]
    both = ops.concatenate([reads, back], axis=-1)  # one gather for both

    def step(piece: Piece, of_values: Tensor, of_reads: Tensor) -> tuple:
        targets = _slice_piece(slots, piece)
        value = _slice_piece(values, piece)[..., None]
        before = _gather_rows(both, targets)  # (G, S, ·)
        after = _rows(ahead, piece)  # (G, S, R)
        products = after * before[..., :heads]
        products = products + _rows(reads, piece) * before[..., heads:]
        of_reads = _add_to_piece(of_reads, piece, value * before[..., heads:])
        of_reads = _add_to_rows(of_reads, targets, value * after)
        return _add_to_links(of_values, piece, ops.sum(products, axis=-1)), of_reads

    none = ops.zeros_like(values), ops.zeros_like(reads)
    of_values, of_reads = _for_each_piece(values, step, *none)
    return of_values, of_reads


def _for_each_piece(
    values: Tensor, step: Callable[..., tuple[Tensor, ...]], *results: Tensor
) -> tuple[Tensor, ...]:
    """Updates `results` by step(piece, *results) for each piece with a nonzero link."""
    _, links, number = values.shape
    size = _size(number)
    pieces = number // size
    cut = ops.reshape(values, (-1, links, pieces, size))
    live = ops.reshape(ops.any(ops.any(ops.not_equal(cut, 0), axis=3), axis=0), (-1,))
    live = ops.cast(live, "int32")  # (K M / S,)
    order, count = ops.cast(ops.argsort(1 - live), "int32"), ops.sum(live)

    def visit(n: Tensor, *results: Tensor) -> tuple[Tensor, ...]:
        which = ops.take(order, n)
        rank = ops.cast(which // pieces, "int32")
        piece = Piece(rank, (which - rank * pieces) * size, size)
        return n + 1, *step(piece, *results)

    start = ops.zeros((), "int32")
    _, *results = ops.while_loop(lambda n, *_: n < count, visit, (start, *results))
    return tuple(results)


def _size(number: int) -> int:
    """Returns S for the smallest number of equal pieces of at most `LONGEST` slots."""
    pieces = -(-number // LONGEST)
    return -(-number // pieces)


def _slice_piece(x: Tensor, piece: Piece) -> Tensor:
    """Returns the part (G, S) of x (G, K, M) in a piece."""
    shape = (ops.shape(x)[0], 1, piece.size)
    return ops.slice(x, _start(0, piece.rank, piece.start), shape)[:, 0]


def _rows(x: Tensor, piece: Piece) -> Tensor:
    """Returns the rows (G, S, R) of x (G, M, R) in a piece."""
    shape = (ops.shape(x)[0], piece.size, x.shape[-1])
    return ops.slice(x, _start(0, piece.start, 0), shape)


def _start(*indices: Any) -> Tensor:
    return ops.stack([ops.cast(n, "int32") for n in indices])


def _gather_rows(x: Tensor, slots: Tensor) -> Tensor:
    """Gathers the rows `slots` (G, S) of x (G, M, R). Returns (G, S, R)."""
    flat = ops.reshape(x, (-1, x.shape[-1]))
    return ops.take(flat, _flat(slots, x.shape[1]), axis=0)


def _add_to_links(x: Tensor, piece: Piece, block: Tensor) -> Tensor:
    """Adds a block (G, S) to the part of x (G, K, M) in a piece."""
    _, links, number = x.shape
    here = piece.start + ops.arange(piece.size, dtype="int32") + piece.rank * number
    index = _flat(ops.broadcast_to(here, ops.shape(block)), links * number)
    return _scatter(x, (-1,), index, ops.reshape(block, (-1,)))


def _add_to_piece(x: Tensor, piece: Piece, block: Tensor) -> Tensor:
    """Adds a block (G, S, R) to the rows of x (G, M, R) in a piece."""
    here = piece.start + ops.arange(piece.size, dtype="int32")
    return _add_to_rows(x, ops.broadcast_to(here, ops.shape(block)[:2]), block)


def _add_to_rows(x: Tensor, slots: Tensor, block: Tensor) -> Tensor:
    """Adds a block (G, S, R) to the rows `slots` (G, S) of x (G, M, R)."""
    width = x.shape[-1]
    index = _flat(slots, x.shape[1])
    return _scatter(x, (-1, width), index, ops.reshape(block, (-1, width)))


def _scatter(x: Tensor, shape: Any, index: Tensor, numbers: Tensor) -> Tensor:
    flat = ops.reshape(x, shape)
    index = ops.reshape(index, (-1, 1))
    flat = ops.scatter_update(flat, index, numbers, reduction="add")
    return ops.reshape(flat, ops.shape(x))


def _flat(slots: Tensor, number: int) -> Tensor:
    """Converts indices of `number` entries per group to flat indices of all entries."""
    first = ops.arange(ops.shape(slots)[0], dtype="int32") * number
    return first[:, None] + slots
