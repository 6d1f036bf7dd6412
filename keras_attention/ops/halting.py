"""Adaptive computation time: each position halts after its own number of steps.

Shapes: B batch, T positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from keras import ops

from keras_attention.numerics.precision import to_float32

Tensor = Any


class Halting(NamedTuple):
    """What is known of each position after a number of steps."""

    probability: Tensor  # (B, T), the sum of the halting probabilities so far
    remainder: Tensor  # (B, T), 1 − that sum at the step of the halt, else 0
    updates: Tensor  # (B, T), N, the number of steps so far
    is_running: Tensor  # booleans (B, T)


def initial_halting(is_valid: Tensor) -> Halting:
    """Returns the state before the first step.

    Args:
        is_valid: booleans (B, T). A position with False never runs.

    Returns:
        A :class:`Halting` in float32.
    """
    is_valid = ops.cast(is_valid, "bool")
    zeros = ops.zeros_like(is_valid, dtype="float32")
    return Halting(zeros, zeros, zeros, is_valid)


def halting_step(
    probability: Tensor, state: Halting, threshold: float = 0.99
) -> tuple[Tensor, Halting]:
    """Computes how much of a new state each position takes over, and who halts.

        h ← Σ of the halting probabilities p of the earlier steps
        w = p        if h + p ≤ threshold: the position goes on
        w = 1 − h    if h + p > threshold: it halts, and R = 1 − h is its remainder
        w = 0        if it halted before

    The output of a recurrence is then y ← w x + (1 − w) y with the new state x.

    Args:
        probability: p, (B, T), between 0 and 1.
        state: the state after the previous step.
        threshold: 1 − ε of the paper.

    Returns:
        The weights w, (B, T), in float32 (float64 for a float64 p), and the next state.

    Reference:
        Graves, "Adaptive computation time for recurrent neural networks" (2016),
        equations 5 to 8; the weighted update: Dehghani et al., "Universal Transformers"
        (2019), appendix C.
    """
    p = to_float32(ops.convert_to_tensor(probability))
    zero = ops.zeros_like(p)
    running = state.is_running
    sum_, remainder, updates = (
        ops.cast(part, p.dtype)
        for part in (state.probability, state.remainder, state.updates)
    )
    goes_on = ops.logical_and(running, sum_ + p <= threshold)
    halts = ops.logical_and(running, ops.logical_not(goes_on))
    at_halt = ops.where(halts, 1.0 - sum_, zero)
    weight = ops.where(goes_on, p, at_halt)
    return weight, Halting(
        sum_ + weight,
        remainder + at_halt,
        updates + ops.cast(running, p.dtype),
        goes_on,
    )


def interpolate(states: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """Computes the output of a recurrence from its states: y ← w x + (1 − w) y.

    The output is a weighted sum of the states, Σₜ wₜ Πₛ (1 − wₛ) xₜ over the later
    steps s. One sum at the end is faster than one update per step.

    Args:
        states: x of each step, (B, T, D).
        weights: w of each step, (B, T), from :func:`halting_step`.

    Returns:
        y, (B, T, D), in the dtype of the states. It is 0 before the first step.

    Reference:
        Dehghani et al., "Universal Transformers" (2019), appendix C.
    """
    parts, later = [], 1.0  # later = Πₛ (1 − wₛ)
    for x, weight in zip(reversed(states), reversed(weights)):
        part = ops.cast(ops.expand_dims(weight * later, -1), x.dtype)  # (B, T, 1)
        parts.append(part * x)
        later = later * (1.0 - weight)
    return sum(parts[1:], parts[0])


def ponder_cost(state: Halting, is_valid: Tensor) -> Tensor:
    """Computes the mean of N + R over the valid positions, 0 if there is none.

    The number of steps N has no gradient; the remainder R has one.

    Args:
        state: the state after the last step.
        is_valid: booleans (B, T), or (1, T) for all samples.

    Returns:
        A scalar.

    Reference:
        Graves, "Adaptive computation time for recurrent neural networks" (2016),
        equation 10; the mean over positions: the code of the Universal Transformer.
    """
    cost = state.updates + state.remainder
    is_valid = ops.broadcast_to(ops.cast(is_valid, "bool"), ops.shape(cost))
    total = ops.sum(ops.where(is_valid, cost, ops.zeros_like(cost)))
    return total / ops.maximum(ops.sum(ops.cast(is_valid, cost.dtype)), 1.0)
