"""What the theory of Hopfield networks says of a retrieval: how far, how many.

The first functions are of the stored patterns, on every backend. The capacities are
numbers in Python, to draw what is measured over what is expected.

Shapes: T states, S stored patterns (N in the papers), D width; "..." for any axes in
front.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from keras import ops

from keras_attention.numerics import masks
from keras_attention.numerics.precision import wide
from keras_attention.ops import scores
from keras_attention.ops.hopfield import patterns as given

Tensor = Any


def pattern_separation(patterns: Tensor) -> Tensor:
    """Δᵢ = xᵢᵀxᵢ − max_{j ≠ i} xᵢᵀxⱼ: how far ahead of the others a pattern is.

    Args:
        patterns: X, (..., S, D), a pattern in each row.

    Returns:
        Δ, (..., S), in float32 for half precision; ∞ for a pattern that is alone, and
        negative for one that is more like another than like itself.

    Raises:
        ValueError: if the rows have not one width.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import retrieval
    >>> stored = np.array([[1, 1, 1, 1], [1, -1, 1, -1]])
    >>> np.asarray(retrieval.pattern_separation(stored)).tolist()
    [4.0, 4.0]

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021), equation 5.
    """
    stored = given.rows("patterns", patterns)
    similar = scores.dot(stored, stored)  # (..., S, S)
    place = masks.places(ops.shape(stored)[-2])  # (S,)
    same = ops.equal(ops.expand_dims(place, 0), ops.expand_dims(place, 1))
    others = ops.where(same, float("-inf"), similar)
    return ops.sum(stored**2, axis=-1) - ops.max(others, axis=-1)


def retrieval_error_bound(
    patterns: Tensor,
    beta: float | Tensor,
    distance: float | Tensor,
    separation: Tensor | None = None,
) -> Tensor:
    """How far from pattern i one update ends, at most, that begins near it.

        ‖f(ξ) − xᵢ‖ ≤ 2M (S − 1) exp(−β(Δᵢ − 2M‖ξ − xᵢ‖))

    for the update f of softmax and dot products, where M is the length of the longest
    pattern; and never more than 2M, since f(ξ) lies among the patterns. With the
    distance 1/(2βM) it bounds how far the fixed point near xᵢ is from xᵢ (equation 9).

    Args:
        patterns: X, (..., S, D), a pattern in each row.
        beta: β, a positive number or a tensor that broadcasts to (..., S).
        distance: ‖ξ − xᵢ‖, a number or a tensor that broadcasts to (..., S).
        separation: Δ, (..., S), where it is known already; else it is that of
            :func:`pattern_separation`, which holds (..., S, S).

    Returns:
        (..., S), in float32 for half precision.

    Raises:
        ValueError: if the rows have not one width, β is not positive, or a distance
            is not at least 0.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import retrieval
    >>> stored = np.array([[1, 1, 1, 1], [1, -1, 1, -1]])
    >>> bound = retrieval.retrieval_error_bound(stored, beta=4.0, distance=0.5)
    >>> [round(float(b), 4) for b in bound]
    [0.0013, 0.0013]

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021), theorem 5,
        equation 8; there the distance is the greater of ‖ξ − xᵢ‖ and ‖x*ᵢ − xᵢ‖, of
        which the proof needs the first alone.
    """
    stored = given.rows("patterns", patterns)
    beta = given.inverse_temperature(beta, stored.dtype, per_row=False)
    lengths = ops.sqrt(ops.sum(stored**2, axis=-1))  # (..., S)
    longest = ops.max(lengths, axis=-1, keepdims=True)  # (..., 1)
    if separation is None:
        separation = pattern_separation(stored)
    ahead = separation - 2 * longest * _distance(distance, stored.dtype)
    others = ops.cast(ops.shape(stored)[-2], stored.dtype) - 1
    share = others * ops.exp(ops.minimum(-beta * ahead, 0.0))
    return 2 * longest * ops.minimum(share, 1.0)


def metastable_size(weights: Tensor, mass: float = 0.9) -> Tensor:
    """How many patterns a state is made of: the fewest that hold most of its weight.

    One for a state in which one pattern was found, S for an average of all. Of weights
    that do not sum to one it is the fewest that hold `mass` of their sum.

    Args:
        weights: p, (..., S), not negative.
        mass: the part of the sum that they must hold, above 0 and at most 1.

    Returns:
        int32 (...); 0 where there is no weight at all.

    Raises:
        ValueError: for another mass.

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
    p = wide(weights)
    held = ops.cumsum(-ops.sort(-p, axis=-1), axis=-1)  # (..., S)
    total = held[..., -1:]
    short = ops.sum(ops.cast(held < mass * total, "int32"), axis=-1)
    return short + ops.cast(ops.squeeze(total, -1) > 0, "int32")


def classical_capacity(dim: int) -> float:
    """0.138 d: patterns that a classical memory holds, with few errors.

    Without any error it is :func:`polynomial_capacity` of degree 2, for one pattern.

    Args:
        dim: d, the number of neurons, at least 1.

    Raises:
        ValueError: if it is smaller.

    Reference:
        Amit, Gutfreund & Sompolinsky, "Storing infinite numbers of patterns in a
        spin-glass model of neural networks" (1985).
    """
    _at_least(1, dim=dim)
    return 0.138 * dim


def polynomial_capacity(dim: int, degree: int) -> float:
    """d^(n−1) / (2 (2n − 3)!! ln d): patterns that come back without an error.

    Args:
        dim: d, the number of neurons, at least 2.
        degree: n, at least 2.

    Raises:
        ValueError: if one is smaller.

    Reference:
        Krotov & Hopfield, "Dense associative memory for pattern recognition" (2016),
        section 2.
    """
    _at_least(2, dim=dim, degree=degree)
    return dim ** (degree - 1) / (2 * _odd_factorial(2 * degree - 3) * math.log(dim))


def exponential_capacity(dim: int, flips: float = 0.0) -> float:
    """exp(d I(1 − 2ρ)/2): patterns that one sweep brings back though some bits differ.

        I(a) = ½ ((1 + a) ln(1 + a) + (1 − a) ln(1 − a))

    which is 2^(d/2) where no bit differs.

    Args:
        dim: d, the number of neurons, at least 1.
        flips: ρ, the part of a pattern's bits that differ, at least 0 and below ½.

    Returns:
        The number, ∞ where it is beyond float64.

    Raises:
        ValueError: for another ρ or d.

    Reference:
        Demircigil et al., "On a model of associative memory with huge storage capacity"
        (2017); as Ramsauer et al. (2021) have it, theorem A10.
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
    """How many random patterns a modern memory stores at least, with a probability.

        N = √p c^((d − 1)/4),    c = b / W₀(exp(a + ln b)),
        a = 2/(d − 1) (1 + ln(2 β K² p (d − 1))),    b = 2K²β/5

    Patterns are drawn on a sphere of radius K√(d − 1). It is a loose bound: far more
    are stored. A number below 2 promises nothing.

    Args:
        dim: d, the width of the patterns, at least 2.
        beta: β, positive.
        radius: K, positive.
        failure: p, the probability that one of them is not stored, between 0 and 1.

    Returns:
        N, ∞ where it is beyond float64.

    Raises:
        ValueError: for other arguments.

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
    """½ erfc √(d^(n−1) / (2K (2n − 3)!!)): how often a bit of a stored pattern flips.

    Expected of the first update of K random patterns, whose crosstalk is taken as
    normally distributed; not to be used for the exponential memory, where it is not.

    Args:
        dim: d, the number of neurons, at least 2.
        patterns: K, how many are stored, at least 1.
        degree: n, at least 2, which is the classical memory.

    Raises:
        ValueError: if one is smaller.

    Reference:
        Krotov & Hopfield, "Dense associative memory for pattern recognition" (2016),
        section 2.
    """
    _at_least(2, dim=dim, degree=degree)
    _at_least(1, patterns=patterns)
    noise = 2 * patterns * _odd_factorial(2 * degree - 3)
    return math.erfc(math.sqrt(dim ** (degree - 1) / noise)) / 2


def _odd_factorial(n: int) -> int:
    """n!! = n (n − 2) … 3 · 1."""
    return math.prod(range(n, 0, -2))


def _lambert(log: float) -> float:
    """W₀(exp(log)): the w > 0 of w + ln w = log, by Newton's steps from below."""
    w = log - math.log(log) if log > 1 else math.exp(log - 1)
    for _ in range(50):
        w *= (1 + log - math.log(w)) / (1 + w)
    return w


def _distance(distance: Any, dtype: Any) -> Tensor:
    values = given.seen(distance if hasattr(distance, "shape") else np.array(distance))
    if values is not None and not np.all(values >= 0):
        raise ValueError(f"`distance` must be at least 0. Received: {distance=}")
    return ops.cast(distance, dtype)


def _at_least(least: int, **arguments: int) -> None:
    for name, value in arguments.items():
        if not value >= least:
            raise ValueError(
                f"`{name}` must be at least {least}. Received: {name}={value!r}"
            )
