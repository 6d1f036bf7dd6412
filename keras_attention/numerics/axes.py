"""Folding and unfolding of axes, for attention over any axes of an input.

Inputs (B, ..., D) have axes between the first and the last. Attended axes become one
axis T (queries) or S (keys), and the other axes join the batch. For example, a video
(B, T, height, width, D) may attend over time, over space or over both.

Shapes: B batch including the axes that are not attended over, T queries, S keys, H
heads, E width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

from keras import ops

from keras_attention.numerics import masks

Tensor = Any
Axes = tuple[int, ...]


def resolve(axes: Sequence[int] | None, rank: int) -> Axes:
    """Converts the attended axes of inputs (B, ..., D) to positive indices.

    Args:
        axes: the user's axes; negative axes count from the end. None selects all axes
            between the first and the last.
        rank: the rank of the inputs.

    Returns:
        Indices from 1 to rank − 2.

    Raises:
        ValueError: if an axis is the batch axis, the feature axis, duplicated or out of
            range.
    """
    if axes is None:
        return tuple(range(1, rank - 1))
    positive = tuple(axis if axis >= 0 else rank + axis for axis in axes)
    repeated = len(set(positive)) < len(positive)
    if repeated or not all(0 < axis < rank - 1 for axis in positive):
        raise ValueError(
            f"`attention_axes` must be different axes between the batch (0) and the "
            f"features ({rank - 1}) of inputs of rank {rank}. "
            f"Received: attention_axes={tuple(axes)}"
        )
    return positive


def free(axes: Axes, rank: int) -> Axes:
    """Returns the axes between the first and the last that are not attended over."""
    return tuple(axis for axis in range(1, rank - 1) if axis not in axes)


def fold(x: Tensor, axes: Axes) -> Tensor:
    """Reshapes heads (B, ..., H, E) to (B, T, H, E).

    Args:
        x: heads of rank r + 1, for inputs of rank r.
        axes: as returned by `resolve`.
    """
    if len(x.shape) == 4:
        return x
    others = free(axes, len(x.shape) - 1)
    shape, last = ops.shape(x), len(x.shape) - 2
    x = ops.transpose(x, (0, *others, *axes, last, last + 1))
    sizes = (_size(shape, (0, *others)), _size(shape, axes))
    return ops.reshape(x, (*sizes, *shape[last:]))  # (B, T, H, E)


def unfold(x: Tensor, shape: Sequence[Any], axes: Axes) -> Tensor:
    """Reshapes heads (B, T, H, E) to (B, ..., H, E), the inverse of `fold`.

    Args:
        x: (B, T, H, E).
        shape: the shape of the inputs, (B, ..., D), numbers or tensors.
        axes: as returned by `resolve`.
    """
    rank = len(shape)
    if rank == 3:
        return x
    order = (0, *free(axes, rank), *axes)
    x = ops.reshape(x, (*(shape[axis] for axis in order), *ops.shape(x)[2:]))
    back = [order.index(axis) for axis in range(rank - 1)]
    return ops.transpose(x, (*back, rank - 1, rank))


def weights_shape(
    query_shape: Sequence[Any], key_shape: Sequence[Any], heads: int, axes: Axes
) -> tuple:
    """Returns the unfolded shape of the weights: (B, others, H, queries, keys)."""
    others = free(axes, len(query_shape))
    return (
        *(query_shape[axis] for axis in (0, *others)),
        heads,
        *(query_shape[axis] for axis in axes),
        *(key_shape[axis] for axis in axes),
    )


def fold_sequence_mask(mask: Tensor, shape: Sequence[Any], axes: Axes) -> Tensor:
    """Folds a mask (B, ...) of inputs to (B, T). A mask of rank-3 inputs is unchanged.

    Args:
        mask: booleans, one per position of the input; an axis of size 1 is broadcast.
        shape: the shape of the inputs, (B, ..., D), numbers or tensors.
        axes: as returned by `resolve`.
    """
    if len(shape) == 3:
        return mask
    mask = ops.broadcast_to(mask, tuple(shape[:-1]))
    others = free(axes, len(shape))
    mask = ops.transpose(mask, (0, *others, *axes))
    return ops.reshape(mask, (_size(shape, (0, *others)), _size(shape, axes)))


def fold_mask(
    mask: Tensor, query_shape: Sequence[Any], key_shape: Sequence[Any], axes: Axes
) -> Tensor:
    """Folds a mask or bias of pairs, so that it broadcasts to (B, H, T, S).

    Args:
        mask: a tensor with the axes (B, others, H, queries, keys). It may omit trailing
            axes of (B, others, H); an axis of size 1 is broadcast.
        query_shape: (B, ..., D), numbers or tensors.
        key_shape: (B, ..., D), numbers or tensors.
        axes: as returned by `resolve`.
    """
    pairs = 2 * len(axes)
    others = free(axes, len(query_shape))
    missing = 2 + len(others) + pairs - len(mask.shape)
    for _ in range(missing):
        mask = ops.expand_dims(mask, -pairs - 1)
    if len(query_shape) == 3:
        return mask  # (B, H, T, S)
    shape = ops.shape(mask)
    full = weights_shape(query_shape, key_shape, shape[-pairs - 1], axes)
    mask = ops.broadcast_to(mask, full)
    pairs_of = _size(query_shape, axes), _size(key_shape, axes)
    batch, heads = _size(query_shape, (0, *others)), shape[-pairs - 1]
    return ops.reshape(mask, (batch, heads, *pairs_of))


def check_mask(
    name: str,
    mask: Tensor | None,
    query_shape: Sequence[int | None],
    key_shape: Sequence[int | None],
    heads: int,
    axes: Axes,
) -> Tensor | None:
    """Checks that a mask of pairs has a rank and a shape that `fold_mask` accepts.

    Raises:
        ValueError: if the mask has too few or too many axes, or an axis does not fit.
    """
    if mask is None:
        return None
    full = weights_shape(query_shape, key_shape, heads, axes)
    pairs = 2 * len(axes)
    before = len(mask.shape) - pairs
    if before < 0 or len(mask.shape) > len(full):
        ranks = f"{pairs} to {len(full)}" if pairs < len(full) else f"{pairs}"
        raise ValueError(
            f"`{name}` must have rank {ranks}: queries and keys, and before them the "
            f"batch (and the heads). Received: shape={tuple(mask.shape)}"
        )
    return masks.check(name, mask, (*full[:before], *full[-pairs:]))


def full_bias(
    bias: Any,
    query_shape: Sequence[int | None],
    key_shape: Sequence[int | None],
    heads: int,
    axes: Axes,
) -> Tensor | None:
    """Prepends axes of size 1 to a bias of pairs until it has all axes of the weights.

    Args:
        bias: numbers (queries, keys), (H, queries, keys) or (B, others, H, queries,
            keys); an axis of size 1 is broadcast. Or None.
        query_shape: (B, ..., D), None where unknown.
        key_shape: (B, ..., D), None where unknown.
        heads: H.
        axes: as returned by `resolve`.

    Raises:
        ValueError: if the bias has another rank or a size that does not fit.
    """
    if bias is None:
        return None
    bias = bias if hasattr(bias, "shape") else ops.convert_to_tensor(bias)
    full = weights_shape(query_shape, key_shape, heads, axes)
    pairs, rank = 2 * len(axes), len(bias.shape)
    sizes = zip(reversed(bias.shape), reversed(full))
    fits = all(a in (1, None, b) or b is None for a, b in sizes)
    if rank not in (pairs, pairs + 1, len(full)) or not fits:
        raise ValueError(
            "`bias` must be the shape of the weights, with or without the batch, with "
            f"or without the heads, or 1 where it is repeated: {tuple(full)}. "
            f"Received: bias.shape={tuple(bias.shape)}"
        )
    for _ in range(len(full) - rank):
        bias = ops.expand_dims(bias, 0)
    return bias


def grouped_matmul(x: Tensor, y: Tensor) -> Tensor:
    """Multiplies each head by the matrix of its group, without copying the matrices.

    Args:
        x: (B, H, T, N).
        y: (B, G, N, M), where G divides H: head h is in group ⌊h G / H⌋.

    Returns:
        (B, H, T, M).
    """
    heads, groups = x.shape[1], y.shape[1]
    if heads == groups:
        return ops.matmul(x, y)
    batch, _, rows, width = ops.shape(x)
    shared, whole = heads // groups, (batch, heads, rows, ops.shape(y)[3])
    if isinstance(rows, Integral):
        x = ops.reshape(x, (batch, groups, shared * rows, width))
        return ops.reshape(ops.matmul(x, y), whole)
    # Exporters can distinguish dynamic sizes from each other, but not their products.
    x = ops.reshape(x, (batch, groups, shared, rows, width))
    return ops.reshape(ops.matmul(x, ops.expand_dims(y, 2)), whole)


def _size(shape: Sequence[Any], axes: Sequence[int]) -> Any:
    return math.prod(shape[axis] for axis in axes)
