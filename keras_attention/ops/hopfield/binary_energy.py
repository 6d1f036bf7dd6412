"""Hopfield networks with neurons −1 and 1: classical, polynomial and exponential.

The networks differ in the function F of the energy

    E(σ) = −Σᵢ F(xᵢᵀσ),    F(z) = ½z², zⁿ or eᶻ

A faster-growing F allows the network to store more patterns. A neuron is flipped if the
flip lowers the energy. Updating one neuron after another never raises the energy and
converges. Updating all neurons at once may raise the energy or end in a cycle.

As xᵢⱼ and σⱼ are −1 or 1, flipping neuron j changes an overlap m = xᵢᵀσ by ∓2:

    F(m ∓ 2) − F(m) = bend(m) ∓ slope(m),    ∓ as −xᵢⱼσⱼ

The differences of all neurons are therefore one matrix product, and no tensor of shape
(T, S, D) is stored.

Shapes: T states, S stored patterns, D width (neurons); "..." for any leading axes,
which broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.ops import scores
from keras_attention.ops.hopfield import patterns as pattern_checks
from keras_attention.ops.sequence.loop import scan

Tensor = Any
Differences = Callable[[Tensor, int], tuple[Tensor, Tensor]]

ORDERS = ("asynchronous", "synchronous")


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
    return _checked(states, patterns, "classical", order)


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
    return _checked(states, patterns, "polynomial", order, degree)


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
    total = overlap
    for _ in range(_check_degree(degree) - 1):
        total = total * overlap
    return -ops.sum(total, axis=-1)


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
    return _checked(states, patterns, "exponential", order)


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


def _checked(
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
