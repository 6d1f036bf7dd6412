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
    above,
    below_zero,
    finish,
    threshold_of,
)
from keras_attention.numerics.precision import to_float32

Tensor = Any
ROUNDS = 60  # more than either method needs for 10⁹ scores


def sparsemax(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """Computes max(zᵢ − τ, 0), with τ such that the weights sum to one.

    τ is computed for all scores that are above the last τ, until none falls below.

    Reference:
        Michelot, "A finite algorithm for finding the projection of a point onto the
        canonical simplex of ℝⁿ" (1986).
    """
    z = below_zero(scores, mask, axis)

    def next_tau(tau: Tensor) -> tuple[Tensor, Tensor]:
        size = ops.sum(ops.cast(z > tau, z.dtype), axis=axis, keepdims=True)
        excess = ops.sum(above(z, tau), axis=axis, keepdims=True) - 1
        return tau + excess / ops.maximum(size, 1), size

    def step(tau: Tensor, size: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        new, inside = next_tau(tau)
        return new, inside, ops.any(inside < size)

    tau, size = next_tau(-ops.ones_like(ops.max(z, axis=axis, keepdims=True)))
    tau, *_ = ops.while_loop(
        lambda tau, size, shrinks: shrinks,
        step,
        (tau, size, ops.any(size > 0)),
        maximum_iterations=ROUNDS,
    )
    return finish(above(z, tau), mask, scores)


def entmax15(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """Computes max(zᵢ/2 − τ, 0)², with τ such that the weights sum to one.

    Newton's method approaches τ from below, because the sum of the weights is convex in
    τ. Then τ is computed for all scores above it.

    Reference:
        Peters, Niculae & Martins, "Sparse sequence-to-sequence models" (2019).
    """
    z = below_zero(to_float32(scores) / 2, mask, axis)

    def step(tau: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        inside = ops.relu(z - tau)
        excess = ops.sum(ops.square(inside), axis=axis, keepdims=True) - 1
        slope = 2 * ops.sum(inside, axis=axis, keepdims=True)
        return tau + ops.relu(excess) / slope, ops.any(excess > 1e-6)

    tau = -ops.ones_like(ops.max(z, axis=axis, keepdims=True))
    tau, _ = ops.while_loop(
        lambda tau, moves: moves,
        step,
        (tau, ops.any(tau < 0)),
        maximum_iterations=ROUNDS,
    )
    inside = ops.where(z <= tau, 0.0, ops.ones_like(z))
    size = ops.maximum(ops.sum(inside, axis=axis, keepdims=True), 1)
    tau = tau + threshold_of(above(z, tau), size, axis)
    return finish(ops.square(above(z, tau)), mask, scores)


KNOWN = {"sparsemax": sparsemax, "entmax15": entmax15}
