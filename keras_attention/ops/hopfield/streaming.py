"""Retrieval from memories with too many patterns to store all scores at once.

The patterns are read in chunks. For each state, three running values are kept: the
largest score m, the sum s of the weights and the sum a of the weighted patterns. A
larger score in a later chunk scales the sums down ("online softmax"):

    m' = max(m, max zᵢ)
    s ← s e^(m − m') + Σ e^(zᵢ − m'),    a ← a e^(m − m') + Σ e^(zᵢ − m') xᵢ,    m ← m'

Only the scores of one chunk are stored at a time. The result a/s equals
:func:`keras_attention.ops.hopfield.energy.hopfield_update`.

The rows of a table can be split over n devices. Each device keeps the three values for
its rows. They are combined in the same way, which is exact:

    m' = max mᵢ,    s' = Σ sᵢ e^(mᵢ − m'),    a' = Σ aᵢ e^(mᵢ − m')

The patterns are stored in a table with spare rows, so that a new pattern rarely changes
the shape of the table and rarely requires a new compilation. `table_size` returns the
number of rows of the table. Rows after the last pattern are masked.

Shapes: T states, P rows of the table, C rows of a chunk, D width, n devices.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
    device_mesh: Any = None,
    axis: str = "model",
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
        device_mesh: a `keras.distribution.DeviceMesh` or a `jax.sharding.Mesh`, if the
            rows of the table are split over devices; or None. Only JAX splits tensors.
            Each of n devices holds P/n rows, at most `chunk` or a multiple of it, and
            `count` is any number of rows, at least 1.
        axis: the axis of the mesh over which the rows are split.

    Returns:
        (T, D) in the dtype of the states.

    Raises:
        RuntimeError: if there is a mesh, and the backend is not JAX or JAX has no
            `jax.shard_map`.
        ValueError: for another normalizer, a table that is not made of whole chunks, a
            mesh that is none or lacks the axis, or a number of rows that the size of
            the axis does not divide.

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
            f"`normalizer` must be one of {list(NORMALIZERS)}, which are computed "
            f"chunk by chunk. Received: normalizer={normalizer!r}"
        )
    size = _rows_of_a_device(table, device_mesh, axis)
    if size > chunk and size % chunk:
        raise ValueError(
            "`table` must have a multiple of `chunk` rows, on each device. "
            f"Received: table.shape={tuple(table.shape)}, chunk={chunk}"
        )
    states, table = (ops.convert_to_tensor(x) for x in (states, table))
    beta, chunk = ops.cast(beta, states.dtype), min(chunk, size)
    near = scores.unit(states) if similarity == "cosine" else states
    middle: tuple[Tensor, ...] = ()
    if similarity == "distance":
        middle = (_middle(table, count, chunk, states.dtype, device_mesh, axis),)
        near = states - middle[0]
    query = near * beta  # (T, D)
    is_split, is_hard = device_mesh is not None, normalizer == "hardmax"
    if (normalizer, similarity) == ("softmax", "dot") and not is_split:
        updated = kernels.lookup(query, table, count)
        if updated is not None:
            return updated
    read: Callable = partial(
        _read, chunk=chunk, similarity=similarity, is_hard=is_hard, is_split=is_split
    )
    tensors = query, beta, *middle
    if is_split:
        parts = kernels.on_rows(read, table, count, tensors, device_mesh, axis)
        state = _combined(parts, is_hard)
    else:
        state = read(table, count, *tensors)
    if normalizer == "softmax1":  # combine with the score 0 of "no pattern"
        score, stays = ops.zeros_like(state[0]), ops.zeros_like(states)
        if similarity == "distance":  # ½β‖ξ‖² is omitted from all other scores
            score = beta / 2 * ops.sum(near**2, axis=-1, keepdims=True)
            stays = states
        null = score, ops.ones_like(score), stays
        greatest, total, sums = (ops.stack(pair) for pair in zip(state, null))
        state = _combined((greatest, total, sums), False)
    _, total, sums = state
    updated = sums / total
    return scores.unit(updated) if similarity == "cosine" else updated


def _rows_of_a_device(table: Tensor, mesh: Any, axis: str) -> int:
    """Returns the number of rows of a table that a device holds."""
    if mesh is None:
        return table.shape[0]
    devices = kernels.axis_sizes(mesh, axis, "`streamed_update`")[axis]
    if table.shape[0] % devices:
        raise ValueError(
            f"The {devices} devices of the axis {axis!r} must divide the rows of "
            f"`table`. Received: table.shape={tuple(table.shape)}"
        )
    return table.shape[0] // devices


def _read(
    table: Tensor,
    count: Any,
    query: Tensor,
    beta: Tensor,
    middle: Tensor | None = None,
    *,
    chunk: int,
    similarity: str,
    is_hard: bool,
    is_split: bool,
) -> State:
    """Reads every chunk with a pattern. Only the last one may hold other rows, too.

    If the rows are split, the last chunk of a device depends on the number of its rows
    that are patterns, which may be 0.
    """

    def add(start: Any, state: State, seen: Tensor | None = None) -> State:
        x = ops.slice(table, (start, 0), (chunk, table.shape[1]))  # (C, D)
        x = ops.cast(x, query.dtype)
        x = scores.unit(x) if similarity == "cosine" else x
        near = x if middle is None else x - middle
        z = ops.matmul(query, ops.transpose(near))  # (T, C)
        if similarity == "distance":  # −½β‖ξ‖² is equal for all patterns: omitted
            z = z - ops.expand_dims(beta / 2 * ops.sum(near**2, axis=-1), 0)
        if seen is not None:
            z = ops.where(seen, z, mask_value(z.dtype))
        return _hard(state, z, x) if is_hard else _soft(state, z, x)

    last: Any = table.shape[0] // chunk - 1  # the last chunk
    if is_split:
        last = ops.maximum((count - 1) // chunk, 0)
    zeros = ops.zeros_like(query[:, :1])
    state = zeros + mask_value(query.dtype), zeros, ops.zeros_like(query)
    if is_split or last:
        state = ops.fori_loop(0, last, lambda i, s: add(i * chunk, s), state)
    positions = masks.positions(chunk, last * chunk)
    seen = ops.expand_dims(positions < ops.cast(count, "int32"), 0)
    return add(last * chunk, state, seen)


def _combined(parts: State, is_hard: bool) -> State:
    """Combines the states of all devices, whose axis 0 counts the devices."""
    greatest, total, sums = parts  # one of each per device
    top = ops.max(greatest, axis=0)
    if is_hard:  # the first pattern with the largest score
        share = ops.cast(normalizers.first_largest(greatest, 0), sums.dtype)
    else:
        share = ops.exp(greatest - top)
    return top, ops.sum(total * share, axis=0), ops.sum(sums * share, axis=0)


def _middle(
    table: Tensor, count: Any, chunk: int, dtype: Any, mesh: Any, axis: str
) -> Tensor:
    """Computes the mean of the patterns in the first chunk of each device, (1, D).

    Distances relative to this mean are accurate even far from the origin.
    """

    def sums(table: Tensor, count: Any) -> tuple[Tensor, Tensor]:
        first = ops.cast(ops.slice(table, (0, 0), (chunk, table.shape[1])), dtype)
        seen = masks.positions(chunk) < ops.cast(count, "int32")
        seen = ops.cast(ops.expand_dims(seen, -1), dtype)  # (C, 1)
        return ops.sum(seen * first, axis=0, keepdims=True), ops.sum(seen)

    if mesh is None:
        total, number = sums(table, count)
    else:
        parts = kernels.on_rows(sums, table, count, (), mesh, axis)
        total, number = (ops.sum(x, axis=0) for x in parts)
    return total / number


def _soft(state: State, z: Tensor, x: Tensor) -> State:
    greatest, total, sums = state
    top = ops.maximum(greatest, ops.max(z, axis=1, keepdims=True))  # (T, 1)
    e, shrink = ops.exp(z - top), ops.exp(greatest - top)
    total = total * shrink + ops.sum(e, axis=1, keepdims=True)
    return top, total, sums * shrink + ops.matmul(e, x)


def _hard(state: State, z: Tensor, x: Tensor) -> State:
    """Keeps the first pattern with the largest score so far, with weight 1.

    XLA may compute z twice, with different rounding, so no score may be compared with
    the largest one: possibly none would be equal to it.
    """
    greatest, total, best = state
    top = ops.max(z, axis=1, keepdims=True)  # (T, 1)
    chosen = ops.take(x, ops.argmax(z, axis=1), axis=0)  # (T, D)
    best = ops.where(top > greatest, chosen, best)
    return ops.maximum(top, greatest), ops.ones_like(total), best
