"""Retrieval from memories with too many patterns to store all scores at once.

The patterns are read in chunks. For each state, three running values are kept: the
largest score m, the sum s of the weights and the sum a of the weighted patterns. A
larger score in a later chunk scales the sums down ("online softmax"):

    m' = max(m, max zᵢ)
    s ← s e^(m − m') + Σ e^(zᵢ − m'),    a ← a e^(m − m') + Σ e^(zᵢ − m') xᵢ,    m ← m'

Only the scores of one chunk are stored at a time. The result a/s equals
:func:`keras_attention.ops.hopfield.energy.hopfield_update`.

The patterns are stored in a table with spare rows, so that a new pattern rarely changes
the shape of the table and rarely requires a new compilation. `table_size` returns the
number of rows of the table. Rows after the last pattern are masked.

Shapes: T states, P rows of the table, C rows of a chunk, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_attention import kernels
from keras_attention.numerics import masks, normalizers
from keras_attention.numerics.precision import mask_value
from keras_attention.ops import scores

Tensor = Any
State = tuple[Tensor, Tensor, Tensor]  # largest score and sum (T, 1), patterns (T, D)

NORMALIZERS = ("softmax", "softmax1", "hardmax")  # computable in one pass
SCORES = 2**20  # stored at a time if all patterns are scored together
LEAST = 8  # the smallest number of rows of a table


def table_size(count: int, chunk: int) -> int:
    """Returns the number of table rows for a number of patterns.

    Args:
        count: the number of patterns, at least 1.
        chunk: C, the number of patterns read at a time.

    Returns:
        A power of two up to `chunk`; a multiple of `chunk` above.
    """
    if count > chunk:
        return -(-count // chunk) * chunk
    return min(chunk, max(LEAST, 1 << (count - 1).bit_length()))


def streamed_update(
    states: Tensor,
    table: Tensor,
    count: int | Tensor,
    beta: float | Tensor = 1.0,
    normalizer: str = "softmax",
    similarity: str = "dot",
    chunk: int = 2048,
) -> Tensor:
    """Moves each state one step towards similar patterns, chunk by chunk.

    Args:
        states: ξ, (T, D) in float32 or float64.
        table: (P, D), the patterns followed by zeros. P is at most `chunk`, or a
            multiple of it.
        count: the number of rows that are patterns, more than P − `chunk` and at least
            1.
        beta: β, a positive number.
        normalizer: "softmax", "softmax1" or "hardmax". The other normalizers need all
            scores at once.
        similarity: "dot", "cosine" or "distance".
        chunk: C, the number of patterns read at a time.

    Returns:
        (T, D) in the dtype of the states.

    Raises:
        ValueError: for another normalizer, or a table that is not made of whole chunks.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import streaming
    >>> table = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [0, 0, 0, 0]], "float32")
    >>> half = np.array([[1, 1, 0, 0]], "float32")
    >>> found = streaming.streamed_update(half, table, count=2, beta=4.0)
    >>> np.round(np.asarray(found), 2).tolist()
    [[1.0, 1.0, 1.0, 1.0]]

    Reference:
        Milakov & Gimelshein, "Online normalizer calculation for softmax" (2018); for
        attention: Rabe & Staats, "Self-attention does not need O(n²) memory" (2021).
    """
    if normalizer not in NORMALIZERS:
        raise ValueError(
            f"`normalizer` must be one of {list(NORMALIZERS)}, which need one chunk at "
            f"a time. Received: normalizer={normalizer!r}"
        )
    size = table.shape[0]
    if size > chunk and size % chunk:
        raise ValueError(
            "`table` must have a multiple of `chunk` rows. "
            f"Received: table.shape={tuple(table.shape)}, chunk={chunk}"
        )
    states, table = (ops.convert_to_tensor(x) for x in (states, table))
    beta = ops.cast(beta, states.dtype)
    middle = None
    normalized_states = scores.unit(states) if similarity == "cosine" else states
    if similarity == "distance":
        middle = _middle(table, count, min(chunk, size), states.dtype)
        normalized_states = states - middle
    query = normalized_states * beta  # (T, D)
    found = None
    if (normalizer, similarity) == ("softmax", "dot"):
        found = kernels.lookup(query, table, count)
    if found is None:
        null_score = None  # the score of "no pattern", (T, 1)
        if normalizer == "softmax1":
            null_score = ops.zeros_like(query[:, :1])
            if similarity == "distance":  # ½‖ξ‖² is omitted from the scores below
                lengths = ops.sum(normalized_states**2, axis=-1, keepdims=True)
                null_score = beta * lengths / 2
        read = _hard if normalizer == "hardmax" else _soft
        greatest, total, sums = _fold(
            read,
            _start(query, null_score),
            lambda x, seen: _scored(query, x, seen, beta, similarity, middle),
            (table, count, min(chunk, size)),
        )
        found = sums / total
        if null_score is not None and similarity == "distance":
            found = found + ops.exp(null_score - greatest) / total * states
    return scores.unit(found) if similarity == "cosine" else found


def _fold(
    read: Callable[[State, Tensor, Tensor], State],
    state: State,
    scored: Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]],
    places: tuple[Tensor, Any, int],
) -> State:
    """Reads every chunk. Only the last chunk may hold rows that are not patterns."""
    table, count, chunk = places
    last = table.shape[0] - chunk

    def one(start: Any, state: State, seen: Tensor | None = None) -> State:
        x = ops.slice(table, (start, 0), (chunk, table.shape[1]))  # (C, D)
        x = ops.cast(x, state[2].dtype)
        return read(state, *scored(x, seen))

    if last:
        state = ops.fori_loop(0, last // chunk, lambda i, s: one(i * chunk, s), state)
    seen = ops.expand_dims(masks.positions(chunk, last) < ops.cast(count, "int32"), 0)
    return one(last, state, seen)


def _middle(table: Tensor, count: Any, chunk: int, dtype: Any) -> Tensor:
    """Computes the mean of the first chunk's patterns, (1, D).

    Distances relative to this mean are accurate even far from the origin.
    """
    first = ops.cast(ops.slice(table, (0, 0), (chunk, table.shape[1])), dtype)
    seen = masks.positions(chunk) < ops.cast(count, "int32")
    seen = ops.cast(ops.expand_dims(seen, -1), dtype)  # (C, 1)
    return ops.sum(seen * first, axis=0, keepdims=True) / ops.sum(seen)


def _scored(
    query: Tensor,
    x: Tensor,
    seen: Tensor | None,
    beta: Tensor,
    similarity: str,
    middle: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Returns the scores (T, C) of the chunk x (C, D), and its patterns (C, D)."""
    x = scores.unit(x) if similarity == "cosine" else x
    near = x if middle is None else x - middle
    z = ops.matmul(query, ops.transpose(near))  # (T, C)
    if similarity == "distance":  # −½β‖ξ‖² is equal for all patterns: omitted
        z = z - ops.expand_dims(beta / 2 * ops.sum(near**2, axis=-1), 0)
    return (z if seen is None else ops.where(seen, z, mask_value(z.dtype))), x


def _start(query: Tensor, null_score: Tensor | None) -> State:
    """Returns the state before the first chunk."""
    if null_score is not None:
        return null_score, ops.ones_like(null_score), ops.zeros_like(query)
    zeros = ops.zeros_like(query[:, :1])
    return zeros + mask_value(query.dtype), zeros, ops.zeros_like(query)


def _soft(state: State, z: Tensor, x: Tensor) -> State:
    greatest, total, sums = state
    top = ops.maximum(greatest, ops.max(z, axis=1, keepdims=True))  # (T, 1)
    e, shrink = ops.exp(z - top), ops.exp(greatest - top)
    total = total * shrink + ops.sum(e, axis=1, keepdims=True)
    return top, total, sums * shrink + ops.matmul(e, x)


def _hard(state: State, z: Tensor, x: Tensor) -> State:
    """Keeps the first pattern with the largest score so far, with weight 1."""
    greatest, total, best = state
    top = ops.max(z, axis=1, keepdims=True)  # (T, 1)
    better = top > greatest
    chosen = ops.matmul(normalizers.hardmax(z), x)  # (T, D)
    return (
        ops.maximum(top, greatest),
        ops.ones_like(total),
        ops.where(better, chosen, best),
    )
