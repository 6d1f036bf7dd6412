"""Hopfield networks: the energy of a state and the update that lowers it.

A continuous Hopfield network stores patterns x₁ … x_N and updates its state ξ by

    ξ ← Σᵢ pᵢ xᵢ,    p = separate(β · similar(ξ, x))

This is attention: the state is the query, and the patterns are keys and values. Each
normalizer is the gradient of a convex function Ψ, so the update descends on

    E(ξ) = ½‖ξ‖² − β⁻¹ Ψ(β Xξ) + a constant

by the concave-convex procedure. :func:`hopfield_energy` lists the energies of other
similarities. The xᵢ are the rows of X; the papers use columns and write Xᵀξ. A stored
pattern lies near a minimum of the energy.

The classical, polynomial and exponential networks have neurons −1 and 1. They differ in
the function F of the energy

    E(σ) = −Σᵢ F(xᵢᵀσ),    F(z) = ½z², zⁿ or eᶻ

A faster-growing F allows the network to store more patterns. A neuron is flipped if the
flip lowers the energy. Updating one neuron after another never raises the energy and
converges. Updating all neurons at once may raise the energy or end in a cycle.

As xᵢⱼ and σⱼ are −1 or 1, flipping neuron j changes an overlap m = xᵢᵀσ by ∓2:

    F(m ∓ 2) − F(m) = bend(m) ∓ slope(m),    ∓ as −xᵢⱼσⱼ

The differences of all neurons are therefore one matrix product, and no tensor of shape
(T, S, D) is stored.

Shapes: T states, S stored patterns (N in the papers), D width (neurons); "..." for any
leading axes, which broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.numerics import masks, normalizers
from keras_attention.ops import scores
from keras_attention.ops.hopfield import patterns as pattern_checks
from keras_attention.ops.sequence.loop import scan

Tensor = Any
Differences = Callable[[Tensor, int], tuple[Tensor, Tensor]]

SIMILARITIES = ("dot", "cosine", "distance")
ORDERS = ("asynchronous", "synchronous")


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
    if callable(normalizer):
        separate = normalizer
    else:
        separate = normalizers.get(_known(normalizer, " or a callable f(scores, mask)"))
    mask = None if mask is None else masks.check_boolean("mask", mask)
    ours, stored, similar = scaled_similarities(
        states, patterns, beta, similarity, mask
    )
    weights = separate(similar, mask)  # (..., T, S)
    if similarity == "cosine":
        updated = scores.unit(ops.matmul(weights, scores.unit(stored)))
    else:
        updated = ops.matmul(weights, stored)  # (..., T, D)
    if similarity == "distance":
        updated = updated + _remainder(weights, mask) * ours
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
    if callable(normalizer):
        raise ValueError(
            "`normalizer` must be given by its name for an energy: the energy of a "
            f"callable is not known. Received: normalizer={normalizer!r}"
        )
    convex, constant = _POTENTIALS[_known(normalizer)]
    mask = None if mask is None else masks.check_boolean("mask", mask)
    ours, stored, similar = scaled_similarities(
        states, patterns, beta, similarity, mask
    )
    beta = pattern_checks.inverse_temperature(beta, similar.dtype)
    allowed = ops.ones_like(similar)  # (..., T, S), 1 for patterns of a state, else 0
    if mask is not None:
        allowed = ops.where(mask, allowed, ops.zeros_like(allowed))
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


def scaled_similarities(
    states: Tensor, patterns: Tensor, beta: Any, similarity: str, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns states (..., T, D), patterns (..., S, D) and β · scores (..., T, S).

    The arguments are those of :func:`hopfield_update`. All results are in float32, or
    in float64 if an input is.
    """
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


def _remainder(weights: Tensor, mask: Tensor | None) -> Tensor:
    """Computes 1 − Σ weights, (..., T, 1); 0 for rows without a pattern."""
    remainder = 1 - ops.sum(weights, axis=-1, keepdims=True)
    if mask is None:
        return remainder
    some = ops.any(ops.broadcast_to(mask, ops.shape(weights)), axis=-1, keepdims=True)
    return ops.where(some, remainder, ops.zeros_like(remainder))


def _known(normalizer: str, or_else: str = "") -> str:
    if isinstance(normalizer, str) and normalizer in _POTENTIALS:
        return normalizer
    raise ValueError(
        f"`normalizer` must be one of {list(_POTENTIALS)}{or_else}. "
        f"Received: normalizer={normalizer!r}"
    )


def _log_sum(z: Tensor, mask: Tensor | None) -> Tensor:
    z = z if mask is None else normalizers.hide(z, mask)
    return ops.logsumexp(z, axis=-1, keepdims=True)  # (..., T, 1)


def _log_sum_and_one(z: Tensor, mask: Tensor | None) -> Tensor:
    return ops.softplus(_log_sum(z, mask))


def _greatest(z: Tensor, mask: Tensor | None) -> Tensor:
    z = z if mask is None else normalizers.hide(z, mask)
    return ops.max(z, axis=-1, keepdims=True)  # (..., T, 1)


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


def classical_update(
    states: Tensor, patterns: Tensor, order: str = "asynchronous"
) -> Tensor:
    """Updates σⱼ ← sign(Σ_k W_jk σ_k) with Hebb's W = Σᵢ xᵢxᵢᵀ − diagonal.

    Args:
        states: σ, (..., T, D), −1 and 1.
        patterns: X, (..., S, D), −1 and 1, one pattern per row. The values of states
            and patterns are checked only outside compiled functions.
        order: "asynchronous" updates one neuron after another and never increases
            :func:`classical_energy`. "synchronous" updates all neurons at once and ends
            in a fixed point or in a cycle of two states.

    Returns:
        (..., T, D), the states after one pass over all neurons. They are in half
        precision if the given states are. Otherwise they are in float64 if the inputs
        are and the backend keeps float64, else in float32.

    Raises:
        ValueError: if the widths differ, a value is neither −1 nor 1, or the order is
            unknown.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import energy
    >>> stored = np.array([[1, 1, 1, 1, 1], [1, -1, 1, -1, 1]])
    >>> state = np.array([[-1, 1, 1, 1, 1]])
    >>> np.asarray(energy.classical_update(state, stored)).tolist()
    [[1.0, 1.0, 1.0, 1.0, 1.0]]

    Reference:
        Hopfield, "Neural networks and physical systems with emergent collective
        computational abilities" (1982).
    """
    return _checked_update(states, patterns, "classical", order)


def classical_energy(states: Tensor, patterns: Tensor) -> Tensor:
    """Computes −½ σᵀWσ with W = Σᵢ xᵢxᵢᵀ without its diagonal.

    Args:
        states: σ, (..., T, D), −1 and 1.
        patterns: X, (..., S, D), −1 and 1.

    Returns:
        (..., T); float32 for inputs in half precision.

    Raises:
        ValueError: as `classical_update` does.

    Reference:
        Hopfield (1982).
    """
    ours, stored = pattern_checks.binary(states, patterns)
    overlap = scores.dot(ours, stored)  # (..., T, S)
    # Subtract the diagonal, which contributes the width D for each pattern.
    return -ops.sum(overlap**2 - ours.shape[-1], axis=-1) / 2


def polynomial_update(
    states: Tensor, patterns: Tensor, degree: int = 3, order: str = "asynchronous"
) -> Tensor:
    """Updates σⱼ ← sign(Σᵢ (xᵢⱼ + hᵢⱼ)ⁿ − (−xᵢⱼ + hᵢⱼ)ⁿ), hᵢⱼ = Σ_{k ≠ j} xᵢₖσₖ.

    n = 2 gives the classical network. `degree` is n, an integer of at least 2. The
    other arguments and the result are those of :func:`classical_update`. Asynchronous
    updates never increase :func:`polynomial_energy`.

    Raises:
        ValueError: as `classical_update` does, and for an invalid degree.

    Reference:
        Krotov & Hopfield, "Dense associative memory for pattern recognition" (2016),
        section 2.
    """
    return _checked_update(states, patterns, "polynomial", order, degree)


def polynomial_energy(states: Tensor, patterns: Tensor, degree: int = 3) -> Tensor:
    """Computes −Σᵢ (xᵢᵀσ)ⁿ.

    The arguments and the errors are those of :func:`polynomial_update`.

    Returns:
        (..., T); float32 for inputs in half precision. The energy is −∞ if S Dⁿ
        overflows the dtype; the update does not overflow.

    Reference:
        Krotov & Hopfield (2016), section 2.
    """
    ours, stored = pattern_checks.binary(states, patterns)
    overlap = scores.dot(ours, stored)  # (..., T, S)
    power = overlap
    for _ in range(_check_degree(degree) - 1):
        power = power * overlap
    return -ops.sum(power, axis=-1)


def exponential_update(
    states: Tensor, patterns: Tensor, order: str = "asynchronous"
) -> Tensor:
    """Updates σⱼ ← sign(Σᵢ exp(hᵢⱼ + xᵢⱼ) − exp(hᵢⱼ − xᵢⱼ)), hᵢⱼ = Σ_{k ≠ j} xᵢₖσₖ.

    The exponentials are taken relative to the largest overlap, so they cannot overflow.
    The update is a form of attention: with p = softmax(Xσ), neuron j is flipped if σⱼ
    Σᵢ pᵢ xᵢⱼ < tanh 1.

    The arguments, the result and the errors are those of :func:`classical_update`.
    Asynchronous updates never increase :func:`exponential_energy`.

    Reference:
        Demircigil et al., "On a model of associative memory with huge storage capacity"
        (2017).
    """
    return _checked_update(states, patterns, "exponential", order)


def exponential_energy(states: Tensor, patterns: Tensor) -> Tensor:
    """Computes −ln Σᵢ exp(xᵢᵀσ), which ranks states like the energy −Σᵢ exp(xᵢᵀσ).

    The energy itself, −exp(−`exponential_energy`), overflows float32 from 89 neurons
    on. The arguments, the result and the errors are those of :func:`classical_energy`.

    Reference:
        Demircigil et al. (2017); as a logarithm: Ramsauer et al., "Hopfield networks is
        all you need" (2021).
    """
    ours, stored = pattern_checks.binary(states, patterns)
    return -ops.logsumexp(scores.dot(ours, stored), axis=-1)


def neurons_update(
    states: Tensor, patterns: Tensor, kind: str, order: str, degree: int = 2
) -> Tensor:
    """Flips each neuron whose flip increases Σᵢ F(xᵢᵀσ). The inputs are not checked.

    Use it for many steps with patterns that were checked once.

    Args:
        states: σ, (..., T, D), −1 and 1.
        patterns: X, (..., S, D), −1 and 1, in the same dtype, float32 or float64.
        kind: "classical", "polynomial" or "exponential".
        order: one of `ORDERS`.
        degree: n, for the polynomial memory.

    Returns:
        (..., T, D) in the dtype of the states.
    """
    differences: Differences = _exponential
    if kind != "exponential":
        differences = _power(2 if kind == "classical" else degree)
    overlap = scores.dot(states, patterns)  # (..., T, S)
    sweep = _one_by_one if order == "asynchronous" else _at_once
    return sweep(states, patterns, overlap, differences)


def _checked_update(
    states: Tensor, patterns: Tensor, kind: str, order: str, degree: int = 2
) -> Tensor:
    """Checks the user's arguments and calls `neurons_update`."""
    if order not in ORDERS:
        raise ValueError(
            f"`order` must be one of {list(ORDERS)}. Received: order={order!r}"
        )
    degree = _check_degree(degree)
    ours, stored = pattern_checks.binary(states, patterns)
    updated = neurons_update(ours, stored, kind, order, degree)
    return pattern_checks.result(updated, states)


def _at_once(
    states: Tensor, patterns: Tensor, overlap: Tensor, differences: Differences
) -> Tensor:
    even_part, slope = differences(overlap, states.shape[-1])  # (..., T, S)
    growth = ops.sum(even_part, axis=-1, keepdims=True)
    growth = growth - states * ops.matmul(slope, patterns)  # (..., T, D)
    return ops.where(growth > 0, -states, states)


def _one_by_one(
    states: Tensor, patterns: Tensor, overlap: Tensor, differences: Differences
) -> Tensor:
    width = states.shape[-1]

    def step(overlap: Tensor, neuron: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        old, stored = neuron  # (..., T), (..., S)
        even_part, slope = differences(overlap, width)  # (..., T, S)
        stored = ops.expand_dims(stored, -2)  # (..., 1, S)
        growth = ops.sum(even_part, axis=-1) - old * ops.sum(slope * stored, axis=-1)
        new = ops.where(growth > 0, -old, old)  # (..., T)
        return overlap + ops.expand_dims(new - old, -1) * stored, new

    neurons = (ops.moveaxis(states, -1, 0), ops.moveaxis(patterns, -1, 0))
    _, updated = scan(step, overlap, neurons)  # (D, ..., T)
    return ops.moveaxis(updated, 0, -1)


def _power(degree: int) -> Differences:
    """Returns a function that computes bend and slope of zⁿ, both divided by cⁿ.

    The number c is the smallest power of two that is at least the width. A tie in
    integer arithmetic remains an exact tie, as long as the dtype can represent the
    sums.
    """

    def differences(overlap: Tensor, width: int) -> tuple[Tensor, Tensor]:
        size = 2.0 ** math.ceil(math.log2(width))
        step, u = 2 / size, overlap / size
        even_part, slope, power = ops.zeros_like(u), ops.zeros_like(u), ops.ones_like(u)
        for k in range(degree, 0, -1):  # power = u^(n − k)
            term = math.comb(degree, k) * step**k * power
            if k % 2:
                slope = slope + term
            else:
                even_part = even_part + term
            power = power * u
        return even_part, slope

    return differences


def _exponential(overlap: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Computes bend and slope of eᶻ, both divided by eᵐ for the largest overlap m.

    The bend is slightly reduced. Otherwise rounding errors would keep flipping neurons
    in a tie, and the iteration would not converge.
    """
    e = ops.exp(overlap - ops.max(overlap, axis=-1, keepdims=True))
    rounding_margin = 64 * float(np.finfo(keras.backend.standardize_dtype(e.dtype)).eps)
    return (math.cosh(2) - 1) * (1 - rounding_margin) * e, math.sinh(2) * e


def _check_degree(degree: int) -> int:
    whole = isinstance(degree, Integral) and not isinstance(degree, bool)
    if not whole or degree < 2:
        raise ValueError(
            "`degree` must be a whole number of at least 2. "
            f"Received: degree={degree!r}"
        )
    return int(degree)
