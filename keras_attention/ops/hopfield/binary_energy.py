"""Hopfield networks of neurons that are −1 or 1: classical, polynomial, exponential.

They differ in how fast F grows in the energy

    E(σ) = −Σᵢ F(xᵢᵀσ),    F(z) = ½z², zⁿ or eᶻ

and so in how many patterns they can hold. A neuron is turned over where that makes the
energy less; where it makes no difference, it stays. Neuron after neuron, in order, that
is descent, which comes to rest; all neurons at once may go up, and in circles.

As xᵢⱼ and σⱼ are −1 or 1, turning neuron j moves an overlap m = xᵢᵀσ by ∓2, so that

    F(m ∓ 2) − F(m) = bend(m) ∓ slope(m),    ∓ as −xᵢⱼσⱼ

and all neurons' differences are one matrix product; no (T, S, D) is held.

Shapes: T states, S stored patterns, D width (neurons); "..." for any axes in front,
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
from keras_attention.ops.hopfield import patterns as given
from keras_attention.ops.sequence.loop import scan

Tensor = Any
Differences = Callable[[Tensor, int], tuple[Tensor, Tensor]]

ORDERS = ("asynchronous", "synchronous")


def classical_update(
    states: Tensor, patterns: Tensor, order: str = "asynchronous"
) -> Tensor:
    """σⱼ ← sign(Σ_k W_jk σ_k), W = Σᵢ xᵢxᵢᵀ without its diagonal (Hebb's rule).

    Args:
        states: σ, (..., T, D), −1 and 1.
        patterns: X, (..., S, D), −1 and 1, a pattern in each row. That there is nothing
            else in either is checked where the numbers are known: not in a compiled
            function.
        order: "asynchronous", neuron after neuron, which is descent on
            :func:`classical_energy`; or "synchronous", all at once, which ends in a
            fixed point or in a circle of two states.

    Returns:
        (..., T, D), once over all neurons; in half precision if the states are, else in
        float32, or float64 where the backend keeps it.

    Raises:
        ValueError: if the widths differ, a number is neither −1 nor 1, or there is no
            such order.

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
    """−½ σᵀWσ, W = Σᵢ xᵢxᵢᵀ without its diagonal.

    Args:
        states: σ, (..., T, D), −1 and 1.
        patterns: X, (..., S, D), −1 and 1.

    Returns:
        (..., T), in float32 for half precision.

    Raises:
        ValueError: as `classical_update` does.

    Reference:
        Hopfield (1982).
    """
    ours, stored = given.binary(states, patterns)
    overlap = scores.dot(ours, stored)  # (..., T, S)
    # The diagonal, which is not there, would add the width D for each pattern.
    return -ops.sum(overlap**2 - ours.shape[-1], axis=-1) / 2


def polynomial_update(
    states: Tensor, patterns: Tensor, degree: int = 3, order: str = "asynchronous"
) -> Tensor:
    """σⱼ ← sign(Σᵢ (xᵢⱼ + hᵢⱼ)ⁿ − (−xᵢⱼ + hᵢⱼ)ⁿ), hᵢⱼ = Σ_{k ≠ j} xᵢₖσₖ.

    With n = 2 it is the classical network.

    Args:
        states: σ, (..., T, D), −1 and 1.
        patterns: X, (..., S, D), −1 and 1, a pattern in each row; checked as in
            :func:`classical_update`.
        degree: n, a whole number, at least 2.
        order: "asynchronous", neuron after neuron, which is descent on
            :func:`polynomial_energy`; or "synchronous", all at once.

    Returns:
        (..., T, D), once over all neurons; in half precision if the states are, else in
        float32, or float64 where the backend keeps it.

    Raises:
        ValueError: as `classical_update` does, and for another degree.

    Reference:
        Krotov & Hopfield, "Dense associative memory for pattern recognition" (2016),
        section 2.
    """
    return _checked(states, patterns, "polynomial", order, degree)


def polynomial_energy(states: Tensor, patterns: Tensor, degree: int = 3) -> Tensor:
    """−Σᵢ (xᵢᵀσ)ⁿ.

    Args:
        states: σ, (..., T, D), −1 and 1.
        patterns: X, (..., S, D), −1 and 1.
        degree: n, a whole number, at least 2.

    Returns:
        (..., T), in float32 for half precision: −∞ where S Dⁿ is beyond the dtype. The
        update has no such limit.

    Raises:
        ValueError: as `polynomial_update` does.

    Reference:
        Krotov & Hopfield (2016), section 2.
    """
    ours, stored = given.binary(states, patterns)
    overlap = scores.dot(ours, stored)  # (..., T, S)
    total = overlap
    for _ in range(_check_degree(degree) - 1):
        total = total * overlap
    return -ops.sum(total, axis=-1)


def exponential_update(
    states: Tensor, patterns: Tensor, order: str = "asynchronous"
) -> Tensor:
    """σⱼ ← sign(Σᵢ exp(xᵢⱼ + hᵢⱼ) − exp(−xᵢⱼ + hᵢⱼ)), hᵢⱼ = Σ_{k ≠ j} xᵢₖσₖ.

    The exponentials are those of differences from the greatest overlap, of which none
    overflows. It is attention: neuron j is turned over where σⱼ Σᵢ pᵢ xᵢⱼ < tanh 1,
    with p = softmax(Xσ).

    Args:
        states: σ, (..., T, D), −1 and 1.
        patterns: X, (..., S, D), −1 and 1, a pattern in each row; checked as in
            :func:`classical_update`.
        order: "asynchronous", neuron after neuron, which is descent on
            :func:`exponential_energy`; or "synchronous", all at once.

    Returns:
        (..., T, D), once over all neurons; in half precision if the states are, else in
        float32, or float64 where the backend keeps it.

    Raises:
        ValueError: as `classical_update` does.

    Reference:
        Demircigil et al., "On a model of associative memory with huge storage capacity"
        (2017).
    """
    return _checked(states, patterns, "exponential", order)


def exponential_energy(states: Tensor, patterns: Tensor) -> Tensor:
    """−ln Σᵢ exp(xᵢᵀσ), which orders states as the energy −Σᵢ exp(xᵢᵀσ) does.

    The energy itself, −exp(−`exponential_energy`), is beyond float32 from 89 neurons
    on.

    Args:
        states: σ, (..., T, D), −1 and 1.
        patterns: X, (..., S, D), −1 and 1.

    Returns:
        (..., T), in float32 for half precision.

    Raises:
        ValueError: as `exponential_update` does.

    Reference:
        Demircigil et al. (2017); as a logarithm: Ramsauer et al., "Hopfield networks is
        all you need" (2021).
    """
    ours, stored = given.binary(states, patterns)
    return -ops.logsumexp(scores.dot(ours, stored), axis=-1)


def neurons_update(
    states: Tensor, patterns: Tensor, kind: str, order: str, degree: int = 2
) -> Tensor:
    """Turns over each neuron for which Σᵢ F(xᵢᵀσ) grows by it; nothing is checked.

    For what takes many steps with patterns that it has looked at once.

    Args:
        states: σ, (..., T, D), −1 and 1.
        patterns: X, (..., S, D), −1 and 1, in the same dtype, float32 or float64.
        kind: "classical", "polynomial" or "exponential".
        order: one of `ORDERS`.
        degree: n, of the polynomial memory.

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
    """The same, of what the user gave."""
    if order not in ORDERS:
        raise ValueError(
            f"`order` must be one of {list(ORDERS)}. Received: order={order!r}"
        )
    degree = _check_degree(degree)
    ours, stored = given.binary(states, patterns)
    return given.result(neurons_update(ours, stored, kind, order, degree), states)


def _at_once(
    states: Tensor, patterns: Tensor, overlap: Tensor, differences: Differences
) -> Tensor:
    bend, slope = differences(overlap, states.shape[-1])  # (..., T, S)
    growth = ops.sum(bend, axis=-1, keepdims=True) - states * ops.matmul(
        slope, patterns
    )  # (..., T, D)
    return ops.where(growth > 0, -states, states)


def _one_by_one(
    states: Tensor, patterns: Tensor, overlap: Tensor, differences: Differences
) -> Tensor:
    width = states.shape[-1]

    def step(overlap: Tensor, neuron: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        old, stored = neuron  # (..., T), (..., S)
        bend, slope = differences(overlap, width)  # (..., T, S)
        stored = ops.expand_dims(stored, -2)  # (..., 1, S)
        growth = ops.sum(bend, axis=-1) - old * ops.sum(slope * stored, axis=-1)
        new = ops.where(growth > 0, -old, old)  # (..., T)
        return overlap + ops.expand_dims(new - old, -1) * stored, new

    neurons = (ops.moveaxis(states, -1, 0), ops.moveaxis(patterns, -1, 0))
    _, found = scan(step, overlap, neurons)  # (D, ..., T)
    return ops.moveaxis(found, 0, -1)


def _power(degree: int) -> Differences:
    """Bend and slope of zⁿ, divided by the n-th power of what is at least the width.

    That divisor is a power of two, so that what is a tie in whole numbers is one here,
    as long as the sums are no longer than what the dtype holds.
    """

    def differences(overlap: Tensor, width: int) -> tuple[Tensor, Tensor]:
        size = 2.0 ** math.ceil(math.log2(width))
        step, u = 2 / size, overlap / size
        bend, slope, power = ops.zeros_like(u), ops.zeros_like(u), ops.ones_like(u)
        for k in range(degree, 0, -1):  # power is u to the n − k
            term = math.comb(degree, k) * step**k * power
            bend, slope = (bend, slope + term) if k % 2 else (bend + term, slope)
            power = power * u
        return bend, slope

    return differences


def _exponential(overlap: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Bend and slope of eᶻ, divided by that of the greatest overlap.

    The bend is a hair less than it is, or rounding would turn neurons over in a tie,
    and for ever.
    """
    e = ops.exp(overlap - ops.max(overlap, axis=-1, keepdims=True))
    hair = 64 * float(np.finfo(keras.backend.standardize_dtype(e.dtype)).eps)
    return (math.cosh(2) - 1) * (1 - hair) * e, math.sinh(2) * e


def _check_degree(degree: int) -> int:
    whole = isinstance(degree, Integral) and not isinstance(degree, bool)
    if not whole or degree < 2:
        raise ValueError(
            "`degree` must be a whole number of at least 2. "
            f"Received: degree={degree!r}"
        )
    return int(degree)
