"""Retrieval by Hopfield networks: error bounds, product keys and storage capacities.

The capacities are Python numbers, for comparing measurements with the theory.

Shapes: T states, S stored patterns (N in the papers), D width; "..." for any leading
axes.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from keras import ops

from keras_attention.numerics import masks
from keras_attention.numerics.precision import to_float32
from keras_attention.ops import scores
from keras_attention.ops.hopfield import patterns as pattern_checks

Tensor = Any


def pattern_separation(patterns: Tensor) -> Tensor:
    """Computes the separation of each pattern, Δᵢ = xᵢᵀxᵢ − max_{j ≠ i} xᵢᵀxⱼ.

    Args:
        patterns: X, (..., S, D), one pattern per row.

    Returns:
        Δ, (..., S); float32 for inputs in half precision. Δ is ∞ for a single pattern.
        Δ is negative if xᵢᵀxⱼ > xᵢᵀxᵢ for another pattern xⱼ.

    Raises:
        ValueError: if the rows differ in width.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import retrieval
    >>> stored = np.array([[1, 1, 1, 1], [1, -1, 1, -1]])
    >>> np.asarray(retrieval.pattern_separation(stored)).tolist()
    [4.0, 4.0]

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021), equation 5.
    """
    stored = pattern_checks.rows("patterns", patterns)
    similar = scores.dot(stored, stored)  # (..., S, S)
    place = masks.positions(ops.shape(stored)[-2])  # (S,)
    same = ops.equal(ops.expand_dims(place, 0), ops.expand_dims(place, 1))
    others = ops.where(same, float("-inf"), similar)
    return ops.sum(stored**2, axis=-1) - ops.max(others, axis=-1)


def retrieval_error_bound(
    patterns: Tensor,
    beta: float | Tensor,
    distance: float | Tensor,
    separation: Tensor | None = None,
) -> Tensor:
    """Bounds the distance between pattern i and a query near it after one update.

        ‖f(ξ) − xᵢ‖ ≤ 2M (S − 1) exp(−β(Δᵢ − 2M‖ξ − xᵢ‖))

    Here f is the update with softmax and dot products, and M is the norm of the longest
    pattern. The bound never exceeds 2M, because f(ξ) is a mean of the patterns. With
    `distance` = 1/(2βM), the bound also holds for the distance between xᵢ and the fixed
    point near xᵢ (equation 9).

    Args:
        patterns: X, (..., S, D), one pattern per row.
        beta: β, a positive number or a tensor that broadcasts to (..., S).
        distance: ‖ξ − xᵢ‖, a number or a tensor that broadcasts to (..., S).
        separation: Δ, (..., S), if already known. By default :func:`pattern_separation`
            computes Δ and needs memory for (..., S, S) numbers.

    Returns:
        (..., S); float32 for inputs in half precision.

    Raises:
        ValueError: if the rows differ in width, β is not positive, or a distance is
            negative.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import retrieval
    >>> stored = np.array([[1, 1, 1, 1], [1, -1, 1, -1]])
    >>> bound = retrieval.retrieval_error_bound(stored, beta=4.0, distance=0.5)
    >>> [round(float(b), 4) for b in bound]
    [0.0013, 0.0013]

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021), theorem 5, equation
        8. The paper uses the larger of ‖ξ − xᵢ‖ and ‖x*ᵢ − xᵢ‖, but its proof needs
        only ‖ξ − xᵢ‖.
    """
    stored = pattern_checks.rows("patterns", patterns)
    beta = pattern_checks.inverse_temperature(beta, stored.dtype, per_row=False)
    lengths = ops.sqrt(ops.sum(stored**2, axis=-1))  # (..., S)
    longest = ops.max(lengths, axis=-1, keepdims=True)  # (..., 1)
    if separation is None:
        separation = pattern_separation(stored)
    ahead = separation - 2 * longest * _distance(distance, stored.dtype)
    others = ops.cast(ops.shape(stored)[-2], stored.dtype) - 1
    share = others * ops.exp(ops.minimum(-beta * ahead, 0.0))
    return 2 * longest * ops.minimum(share, 1.0)


def metastable_size(weights: Tensor, mass: float = 0.9) -> Tensor:
    """Returns the smallest number of patterns that hold `mass` of the weight.

    The size is 1 if a single pattern was retrieved, and near S for an average of all
    patterns. `mass` is relative to the sum of the weights.

    Args:
        weights: p, (..., S), non-negative.
        mass: the fraction of the sum that the patterns must reach, above 0 and at most
            1.

    Returns:
        int32 (...); 0 if all weights are 0.

    Raises:
        ValueError: if `mass` is out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import retrieval
    >>> weights = np.array([[0.95, 0.03, 0.02], [0.25, 0.5, 0.25]], "float32")
    >>> np.asarray(retrieval.metastable_size(weights)).tolist()
    [1, 3]

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021).
    """
    if not 0 < mass <= 1:
        raise ValueError(
            f"`mass` must be above 0 and at most 1. Received: mass={mass!r}"
        )
    p = to_float32(weights)
    held = ops.cumsum(-ops.sort(-p, axis=-1), axis=-1)  # (..., S)
    total = held[..., -1:]
    short = ops.sum(ops.cast(held < mass * total, "int32"), axis=-1)
    return short + ops.cast(ops.squeeze(total, -1) > 0, "int32")


def product_top_k(first: Tensor, second: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Finds the k largest of the n² sums of two lists of n scores, exactly.

        zᵢₙ₊ⱼ = aᵢ + bⱼ,   0 ≤ i, j < n

    The scores of n² product keys are such sums: each key consists of one of n first and
    one of n second halves (sub-keys). A sum is among the k largest only if aᵢ and bⱼ
    are each among the k largest of their list. The paper therefore compares k² sums.
    Here, only the sums of the r-th largest aᵢ and the s-th largest bⱼ with r s ≤ k are
    compared, about k ln k, since r s − 1 others are at least as large.

    Args:
        first: a, (..., n).
        second: b, (..., n).
        k: the number of sums, at most n².

    Returns:
        The sums (..., k) in descending order, float32 for scores in half precision, and
        their indices i n + j, int32 (..., k). Of equal sums, any may be returned.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import retrieval
    >>> a, b = np.array([[1.0, 5.0, 0.0]]), np.array([[2.0, 0.5, 7.0]])
    >>> sums, indices = retrieval.product_top_k(a, b, k=2)
    >>> np.asarray(sums).tolist(), np.asarray(indices).tolist()
    ([[12.0, 8.0]], [[5, 2]])

    Reference:
        Lample et al., "Large memory layers with product keys" (2019), section 3.1.
    """
    n = first.shape[-1]
    _at_least(1, k=k)
    if k > n * n:
        raise ValueError(f"`k` must be at most n². Received: k={k}, n={n}")
    count = min(k, n)
    pairs = [(r, s) for r in range(count) for s in range(min(k // (r + 1), n))]
    r, s = np.array(pairs, "int32").T
    a, i = ops.top_k(to_float32(first), count)  # (..., K)
    b, j = ops.top_k(to_float32(second), count)
    sums = ops.take(a, r, axis=-1) + ops.take(b, s, axis=-1)  # (..., ·)
    i, j = ops.take(ops.cast(i, "int32"), r, axis=-1), ops.take(j, s, axis=-1)
    largest, chosen = ops.top_k(sums, k)  # (..., ·)
    return largest, ops.take_along_axis(i * n + ops.cast(j, "int32"), chosen, axis=-1)


def classical_capacity(dim: int) -> float:
    """Returns 0.138 d, how many patterns a classical memory stores with few errors.

    For retrieval of a pattern without errors, see :func:`polynomial_capacity` with
    degree 2.

    Args:
        dim: d, the number of neurons, at least 1.

    Raises:
        ValueError: if `dim` is below 1.

    Reference:
        Amit, Gutfreund & Sompolinsky, "Storing infinite numbers of patterns in a
        spin-glass model of neural networks" (1985).
    """
    _at_least(1, dim=dim)
    return 0.138 * dim


def polynomial_capacity(dim: int, degree: int) -> float:
    """Returns d^(n−1) / (2 (2n − 3)!! ln d), how many patterns are retrieved exactly.

    Args:
        dim: d, the number of neurons, at least 2.
        degree: n, at least 2.

    Raises:
        ValueError: if an argument is below its minimum.

    Reference:
        Krotov & Hopfield, "Dense associative memory for pattern recognition" (2016),
        section 2.
    """
    _at_least(2, dim=dim, degree=degree)
    return dim ** (degree - 1) / (2 * _odd_factorial(2 * degree - 3) * math.log(dim))


def exponential_capacity(dim: int, flips: float = 0.0) -> float:
    """Returns exp(d I(1 − 2ρ)/2), how many patterns one sweep can restore.

        I(a) = ½ ((1 + a) ln(1 + a) + (1 − a) ln(1 − a))

    This is 2^(d/2) if no bits are flipped.

    Args:
        dim: d, the number of neurons, at least 1.
        flips: ρ, the fraction of flipped bits, at least 0 and below ½.

    Returns:
        The number of patterns; ∞ if it overflows float64.

    Raises:
        ValueError: if ρ or d is out of range.

    Reference:
        Demircigil et al., "On a model of associative memory with huge storage capacity"
        (2017); in the form of Ramsauer et al. (2021), theorem A10.
    """
    _at_least(1, dim=dim)
    if not 0 <= flips < 0.5:
        raise ValueError(
            f"`flips` must be at least 0 and below 0.5. Received: flips={flips!r}"
        )
    a = 1 - 2 * flips
    rate = (1 + a) * math.log1p(a)
    rate += (1 - a) * math.log1p(-a) if flips else 0.0
    power = dim * rate / 4
    return math.exp(power) if power < math.log(sys.float_info.max) else math.inf


def modern_capacity(
    dim: int, beta: float, radius: float, failure: float = 0.001
) -> float:
    """Returns a lower bound on the number of patterns that a modern memory stores.

        N = √p c^((d − 1)/4),    c = b / W₀(exp(a + ln b)),
        a = 2/(d − 1) (1 + ln(2 β K² p (d − 1))),    b = 2K²β/5

    The patterns are sampled from a sphere of radius K√(d − 1). The bound is loose: far
    more patterns are stored in practice. A value below 2 gives no guarantee.

    Args:
        dim: d, the width of the patterns, at least 2.
        beta: β, positive.
        radius: K, positive.
        failure: p, the probability that a pattern is not stored, between 0 and 1.

    Returns:
        N; ∞ if it overflows float64.

    Raises:
        ValueError: if an argument is out of range.

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021), theorem 3,
        equation 4.
    """
    _at_least(2, dim=dim)
    for name, value in (("beta", beta), ("radius", radius)):
        if not 0 < value < math.inf:
            raise ValueError(
                f"`{name}` must be positive and finite. Received: {name}={value!r}"
            )
    if not 0 < failure < 1:
        raise ValueError(
            f"`failure` must be between 0 and 1. Received: failure={failure!r}"
        )
    a = 2 / (dim - 1) * (1 + math.log(2 * beta * radius**2 * failure * (dim - 1)))
    b = 2 * radius**2 * beta / 5
    base = b / _lambert(a + math.log(b))
    power = math.log(failure) / 2 + (dim - 1) / 4 * math.log(base)
    return math.exp(power) if power < math.log(sys.float_info.max) else math.inf


def bit_error(dim: int, patterns: int, degree: int = 2) -> float:
    """Returns the bit error rate ½ erfc √(d^(n−1) / (2K (2n − 3)!!)) of one update.

    This is the expected error of the first update for K random patterns. It assumes
    normally distributed crosstalk, which does not hold for the exponential memory.

    Args:
        dim: d, the number of neurons, at least 2.
        patterns: K, the number of stored patterns, at least 1.
        degree: n, at least 2; degree 2 is the classical memory.

    Raises:
        ValueError: if an argument is below its minimum.

    Reference:
        Krotov & Hopfield, "Dense associative memory for pattern recognition" (2016),
        section 2.
    """
    _at_least(2, dim=dim, degree=degree)
    _at_least(1, patterns=patterns)
    noise = 2 * patterns * _odd_factorial(2 * degree - 3)
    return math.erfc(math.sqrt(dim ** (degree - 1) / noise)) / 2


def _odd_factorial(n: int) -> int:
    """Computes n!! = n (n − 2) … 3 · 1."""
    return math.prod(range(n, 0, -2))


def _lambert(log: float) -> float:
    """Solves w + ln w = log for w = W₀(exp(log)) > 0 by Newton's method from below."""
    w = log - math.log(log) if log > 1 else math.exp(log - 1)
    for _ in range(50):
        w *= (1 + log - math.log(w)) / (1 + w)
    return w


def _distance(distance: Any, dtype: Any) -> Tensor:
    values = pattern_checks.concrete_values(
        distance if hasattr(distance, "shape") else np.array(distance)
    )
    if values is not None and not np.all(values >= 0):
        raise ValueError(f"`distance` must be at least 0. Received: {distance=}")
    return ops.cast(distance, dtype)


def _at_least(least: int, **arguments: int) -> None:
    for name, value in arguments.items():
        if not value >= least:
            raise ValueError(
                f"`{name}` must be at least {least}. Received: {name}={value!r}"
            )
