"""Sparsemax and entmax without sorting, for scores that are split over devices.

The weights depend on all scores only through the threshold τ. Sums find it in a few
rounds. XLA adds up such sums on each device and combines them. It gathers the scores
before it sorts them, as the functions of the same names in
:mod:`keras_attention.numerics.normalizers` do.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.numerics.normalizers import (
    below_zero,
    entmax15_threshold,
    finish,
)
from keras_attention.numerics.precision import to_float32

Tensor = Any
ROUNDS = 60  # more than either method needs for 10⁹ scores


def sparsemax(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """Computes max(zᵢ − τ, 0), with τ such that the weights sum to one.

    τ is computed for all scores that are above the last τ, until none falls below.

    Args:
        scores: (..., S) numbers.
        mask: booleans that broadcast to the scores, True = may attend; or None.
        axis: the axis along which the weights sum to one.

    Returns:
        Weights in the shape and dtype of the scores.

    Reference:
        Michelot, "A finite algorithm for finding the projection of a point onto the
        canonical simplex of ℝⁿ" (1986).
    """
    z = below_zero(scores, mask, axis)

    def above(tau: Tensor) -> tuple[Tensor, Tensor]:
        inside = z > tau
        size = ops.sum(ops.cast(inside, z.dtype), axis=axis, keepdims=True)
        total = ops.sum(ops.where(inside, z, 0), axis=axis, keepdims=True)
        return (total - 1) / ops.maximum(size, 1), size

    def one(tau: Tensor, size: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        new, inside = above(tau)
        return new, inside, ops.any(inside < size)

    tau, size = above(-ops.ones_like(ops.max(z, axis=axis, keepdims=True)))
    tau, *_ = ops.while_loop(
        lambda tau, size, shrinks: shrinks,
        one,
        (tau, size, ops.any(size > 0)),
        maximum_iterations=ROUNDS,
    )
    return finish(ops.where(z <= tau, 0, z - tau), mask, scores)


def entmax15(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """Computes max(zᵢ/2 − τ, 0)², with τ such that the weights sum to one.

    Newton's method approaches τ from below, because the sum of the weights is convex in
    τ. Then τ is computed for all scores above it.

    Args:
        scores: (..., S) numbers.
        mask: booleans that broadcast to the scores, True = may attend; or None.
        axis: the axis along which the weights sum to one.

    Returns:
        Weights in the shape and dtype of the scores.

    Reference:
        Peters, Niculae & Martins, "Sparse sequence-to-sequence models" (2019).
    """
    z = below_zero(to_float32(scores) / 2, mask, axis)

    def one(tau: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        above = ops.relu(z - tau)
        excess = ops.sum(ops.square(above), axis=axis, keepdims=True) - 1
        slope = 2 * ops.sum(above, axis=axis, keepdims=True)
        return tau + ops.relu(excess) / slope, ops.any(excess > 1e-6)

    tau = -ops.ones_like(ops.max(z, axis=axis, keepdims=True))
    tau, _ = ops.while_loop(
        lambda tau, moves: moves,
        one,
        (tau, ops.any(tau < 0)),
        maximum_iterations=ROUNDS,
    )
    outside = z <= tau  # False for NaN, so NaN stays
    size = ops.sum(ops.where(outside, 0.0, ops.ones_like(z)), axis=axis, keepdims=True)
    chosen = ops.where(outside, 0, z)
    tau = entmax15_threshold(
        size,
        ops.sum(chosen, axis=axis, keepdims=True),
        ops.sum(ops.square(chosen), axis=axis, keepdims=True),
    )
    return finish(ops.where(outside, 0, ops.square(z - tau)), mask, scores)


KNOWN = {"sparsemax": sparsemax, "entmax15": entmax15}
