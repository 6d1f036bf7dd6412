"""Continuous Hopfield networks: the energy of a state and the update that lowers it.

A continuous Hopfield network stores patterns x₁ … x_N and updates its state ξ by

    ξ ← Σᵢ pᵢ xᵢ,    p = separate(β · similar(ξ, x))

This is attention: the state is the query, and the patterns are keys and values. Each
normalizer is the gradient of a convex function Ψ, so the update descends on

    E(ξ) = ½‖ξ‖² − β⁻¹ Ψ(β Xξ) + a constant

by the concave-convex procedure. :func:`hopfield_energy` lists the energies of other
similarities. The xᵢ are the rows of X; the papers use columns and write Xᵀξ. A stored
pattern lies near a minimum of the energy.

This module also exports the networks with neurons −1 and 1 from
:mod:`keras_attention.ops.hopfield.binary_energy`.

Shapes: T states, S stored patterns (N in the papers), D width; "..." for any leading
axes, which broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_attention.numerics import masks, normalizers
from keras_attention.ops import scores
from keras_attention.ops.hopfield import patterns as pattern_checks
from keras_attention.ops.hopfield.binary_energy import (
    classical_energy,
    classical_update,
    exponential_energy,
    exponential_update,
    polynomial_energy,
    polynomial_update,
)

__all__ = [
    "NORMALIZERS",
    "SIMILARITIES",
    "classical_energy",
    "classical_update",
    "exponential_energy",
    "exponential_update",
    "hopfield_energy",
    "hopfield_update",
    "polynomial_energy",
    "polynomial_update",
]

Tensor = Any

SIMILARITIES = ("dot", "cosine", "distance")


def hopfield_update(
    states: Tensor,
    patterns: Tensor,
    beta: float | Tensor = 1.0,
    normalizer: str | Callable = "softmax",
    similarity: str = "dot",
    mask: Tensor | None = None,
) -> Tensor:
    """Moves each state one step towards the patterns that it is similar to.

    Here p = separate(β s), and s holds the similarities of ξ to the patterns:

    - "dot", sᵢ = xᵢᵀξ: ξ ← Σ pᵢ xᵢ.
    - "cosine", sᵢ = xᵢᵀξ / (‖xᵢ‖ ‖ξ‖): ξ ← Σ pᵢ xᵢ/‖xᵢ‖, then normalized. The result is
      a direction, or 0 if the directions cancel.
    - "distance", sᵢ = −½‖ξ − xᵢ‖²: ξ ← ξ + Σ pᵢ (xᵢ − ξ), which is the mean shift Σ pᵢ
      xᵢ unless the weights sum to less than one (softmax1). It equals "dot" if all
      patterns have the same norm.

    Args:
        states: ξ, (..., T, D).
        patterns: X, (..., S, D), one pattern per row.
        beta: β, the inverse temperature, a positive number or a tensor that broadcasts
            to (..., T). The sign is checked only outside compiled functions.
        normalizer: maps similarities to weights: "softmax", "softmax1", "sparsemax",
            "entmax15", "hardmax" (the limit of the others for large β), or a callable
            f(scores, mask).
        similarity: "dot", "cosine" or "distance".
        mask: booleans that broadcast to (..., T, S), True = may be retrieved; or None.

    Returns:
        (..., T, D) in the dtype of the states, or in float64 if the patterns are in
        float64; 0 for a state that may retrieve no pattern. Half precision is computed
        in float32.

    Raises:
        ValueError: if states and patterns differ in width, β is not positive, or the
            normalizer or similarity is unknown.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import energy
    >>> stored = np.array([[1, 1, 1, 1], [1, -1, 1, -1]], "float32")
    >>> half = np.array([[1, 1, 0, 0]], "float32")
    >>> np.round(np.asarray(energy.hopfield_update(half, stored, beta=4.0)), 2).tolist()
    [[1.0, 1.0, 1.0, 1.0]]

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021), equation 3;
        sparsemax and entmax15: Santos et al., "Hopfield-Fenchel-Young networks" (2024);
        softmax1: Miller, "Attention is off by one" (2023), and Hu et al.,
        "Outlier-efficient Hopfield layers for large Transformer-based models" (2024).
    """
    separate = _normalizer(normalizer)
    mask = None if mask is None else masks.check_boolean("mask", mask)
    ours, stored, similar = _similar(states, patterns, beta, similarity, mask)
    weights = separate(similar, mask)  # (..., T, S)
    if similarity == "cosine":
        stored = scores.unit(stored)
    updated = ops.matmul(weights, stored)  # (..., T, D)
    if similarity == "cosine":
        updated = scores.unit(updated)
    if similarity == "distance":
        updated = updated + _left(weights, mask) * ours
    return pattern_checks.result(updated, states)


def hopfield_energy(
    states: Tensor,
    patterns: Tensor,
    beta: float | Tensor = 1.0,
    normalizer: str = "softmax",
    similarity: str = "dot",
    mask: Tensor | None = None,
) -> Tensor:
    """Computes the energy of each state; :func:`hopfield_update` never increases it.

    - "dot": E = ½‖ξ‖² − β⁻¹ Ψ(β Xξ) + β⁻¹ Ψ₀ + ½M², where M is the norm of the longest
      pattern. E ≥ 0, and E ≤ 2M² for ‖ξ‖ ≤ M. An update lowers E by at least ½‖ξ −
      f(ξ)‖².
    - "cosine": the same for normalized states and patterns, between 0 and 2.
    - "distance": E = −β⁻¹ Ψ(−½β‖ξ − xᵢ‖²) + β⁻¹ Ψ₀, at least 0.

    The normalizer is the gradient of the convex function Ψ(z) = max_p pᵀz − Ω(p) over
    its valid weights p. Ψ₀ is −Ω at equal weights:

    | normalizer | Ψ(z) | Ψ₀ of N patterns |
    |---|---|---|
    | softmax | ln Σ exp zᵢ | ln N |
    | softmax1 | ln (1 + Σ exp zᵢ) | ln (N + 1) |
    | sparsemax | pᵀz − ½(‖p‖² − 1) | ½(1 − 1/N) |
    | entmax15 | pᵀz − 4/3 (Σ pᵢ^1.5 − 1) | 4/3 (1 − 1/√N) |
    | hardmax | max zᵢ | 0 |

    With a mask, N and M refer to the patterns that a state may retrieve. A state that
    may retrieve no pattern has Ψ = Ψ₀ = M = 0.

    The arguments are those of :func:`hopfield_update`, but the normalizer cannot be a
    callable, whose energy is unknown.

    Returns:
        (..., T); float32 for inputs in half precision.

    Raises:
        ValueError: as `hopfield_update` does, and if the normalizer is a callable.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import energy
    >>> stored = np.array([[1, 1, 1, 1], [1, -1, 1, -1]], "float32")
    >>> states = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], "float32")
    >>> energies = energy.hopfield_energy(states, stored, beta=4.0)
    >>> [round(float(e), 2) for e in energies]
    [1.17, 0.17]

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021), equation 2;
        sparsemax and entmax15: Santos et al., "Hopfield-Fenchel-Young networks" (2024),
        as the conjugates of their negative entropies; softmax1: Hu et al.,
        "Outlier-efficient Hopfield layers for large Transformer-based models" (2024).
    """
    convex, constant = _potential(normalizer)
    mask = None if mask is None else masks.check_boolean("mask", mask)
    ours, stored, similar = _similar(states, patterns, beta, similarity, mask)
    beta = pattern_checks.inverse_temperature(beta, similar.dtype)
    allowed = _allowed(similar, mask)  # (..., T, S)
    # (..., T, 1), like β, from here to the last line.
    count = ops.sum(allowed, axis=-1, keepdims=True)
    some = count > 0
    if mask is not None:  # rows without patterns: computed over all, then discarded
        mask = ops.logical_or(mask, ops.logical_not(some))
    free = constant(ops.maximum(count, 1.0)) - convex(similar, mask)
    total = ops.where(some, free, ops.zeros_like(free)) / beta
    if similarity != "distance":
        if similarity == "cosine":
            ours, stored = scores.unit(ours), scores.unit(stored)
        lengths = ops.expand_dims(ops.sum(stored**2, axis=-1), -2)  # (..., 1, S)
        longest = ops.max(allowed * lengths, axis=-1, keepdims=True)
        total = total + (ops.sum(ours**2, axis=-1, keepdims=True) + longest) / 2
    return ops.squeeze(total, -1)


def _similar(
    states: Tensor, patterns: Tensor, beta: Any, similarity: str, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns states (..., T, D), patterns (..., S, D) and β · scores (..., T, S)."""
    if similarity not in SIMILARITIES:
        raise ValueError(
            f"`similarity` must be one of {list(SIMILARITIES)}. "
            f"Received: similarity={similarity!r}"
        )
    ours, stored = pattern_checks.states_and_patterns(states, patterns)
    if similarity == "distance":
        similar = pattern_checks.nearness(ours, stored, mask)  # (..., T, S)
    else:
        similar = (scores.dot if similarity == "dot" else scores.cosine)(ours, stored)
    beta = pattern_checks.inverse_temperature(beta, similar.dtype)
    return ours, stored, ops.multiply(beta, similar)


def _allowed(similar: Tensor, mask: Tensor | None) -> Tensor:
    """Returns 1.0 for patterns that a state may retrieve, else 0.0: (..., T, S)."""
    ones = ops.ones_like(similar)
    return ones if mask is None else ops.where(mask, ones, ops.zeros_like(ones))


def _left(weights: Tensor, mask: Tensor | None) -> Tensor:
    """Computes 1 − Σ weights, (..., T, 1); 0 for rows without a pattern."""
    left = 1 - ops.sum(weights, axis=-1, keepdims=True)
    if mask is None:
        return left
    some = ops.any(ops.broadcast_to(mask, ops.shape(weights)), axis=-1, keepdims=True)
    return ops.where(some, left, ops.zeros_like(left))


def _normalizer(normalizer: str | Callable) -> Callable:
    if callable(normalizer):
        return normalizer
    return normalizers.get(_known(normalizer, " or a callable f(scores, mask)"))


def _potential(normalizer: str) -> tuple[Callable, Callable]:
    if callable(normalizer):
        raise ValueError(
            "`normalizer` must be given by its name for an energy: the energy of a "
            f"callable is not known. Received: normalizer={normalizer!r}"
        )
    return _POTENTIALS[_known(normalizer)]


def _known(normalizer: str, or_else: str = "") -> str:
    if isinstance(normalizer, str) and normalizer in _POTENTIALS:
        return normalizer
    raise ValueError(
        f"`normalizer` must be one of {list(_POTENTIALS)}{or_else}. "
        f"Received: normalizer={normalizer!r}"
    )


def _hidden(z: Tensor, mask: Tensor | None) -> Tensor:
    return z if mask is None else normalizers.hide(z, mask)


def _log_sum(z: Tensor, mask: Tensor | None) -> Tensor:
    return ops.logsumexp(_hidden(z, mask), axis=-1, keepdims=True)  # (..., T, 1)


def _log_sum_and_one(z: Tensor, mask: Tensor | None) -> Tensor:
    return ops.softplus(_log_sum(z, mask))


def _greatest(z: Tensor, mask: Tensor | None) -> Tensor:
    return ops.max(_hidden(z, mask), axis=-1, keepdims=True)  # (..., T, 1)


def _quadratic(z: Tensor, mask: Tensor | None) -> Tensor:
    """Computes max pᵀz − ½(‖p‖² − 1)."""
    p = normalizers.sparsemax(z, mask)
    return _mean(p, z, mask) - (ops.sum(p**2, axis=-1, keepdims=True) - 1) / 2


def _between(z: Tensor, mask: Tensor | None) -> Tensor:
    """Computes max pᵀz − 4/3 (Σ pᵢ^1.5 − 1)."""
    p = normalizers.entmax15(z, mask)
    entropy = ops.sum(ops.power(p, 1.5), axis=-1, keepdims=True) - 1
    return _mean(p, z, mask) - 4 / 3 * entropy


def _mean(p: Tensor, z: Tensor, mask: Tensor | None) -> Tensor:
    """Computes Σ pᵢ zᵢ relative to max zᵢ, so that rounding errors of p stay small."""
    top = ops.stop_gradient(_greatest(z, mask))
    below = ops.where(p > 0, z - top, ops.zeros_like(z))
    return top + ops.sum(p * below, axis=-1, keepdims=True)


# For each normalizer: Ψ of z and a mask, and Ψ₀ of the number of patterns (≥ 1).
_POTENTIALS: dict[str, tuple[Callable, Callable]] = {
    "softmax": (_log_sum, ops.log),
    "softmax1": (_log_sum_and_one, ops.log1p),
    "sparsemax": (_quadratic, lambda n: (1 - 1 / n) / 2),
    "entmax15": (_between, lambda n: 4 / 3 * (1 - ops.rsqrt(n))),
    "hardmax": (_greatest, ops.zeros_like),
}

NORMALIZERS = tuple(_POTENTIALS)
