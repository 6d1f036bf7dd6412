"""Alignments that depend on earlier alignments or on positions.

Shapes: B batch, T queries, S keys.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.numerics import masks
from keras_attention.numerics.precision import to_float32
from keras_attention.ops.sequence import loop

Tensor = Any

MONOTONIC = ("parallel", "recursive", "hard")


def coverage_cost(weights: Tensor) -> Tensor:
    """Computes Σ_s min(a_s, c_s), where c is the sum of all earlier alignments.

    The cost is high where a query attends to keys that already received attention.

    Args:
        weights: a, (..., T, S).

    Returns:
        (..., T), in float32 or float64; 0 for the first query.

    Reference:
        See et al., "Get to the point" (2017), equation 12.
    """
    full = to_float32(ops.convert_to_tensor(weights))
    before = ops.cumsum(full, axis=-2) - full
    return ops.sum(ops.minimum(full, before), axis=-1)


def positions(mask: Tensor | None, size: Any) -> Tensor:
    """Computes the positions 0, 1, … of the keys, skipping masked keys.

    Masked keys at the start or in between do not shift the later positions.

    Args:
        mask: booleans that broadcast to (B, T, S), or None.
        size: S, a number or a tensor.

    Returns:
        float32 that broadcasts to (B, T, S); undefined for masked keys.
    """
    position = masks.positions(size)[None, None]  # (1, 1, S)
    if mask is None:
        return ops.cast(position, "float32")
    full = ops.logical_and(mask, position >= 0)  # (B, T, S)
    return ops.cumsum(ops.cast(full, "float32"), axis=-1) - 1


def number_of_positions(mask: Tensor | None, size: Any) -> Tensor:
    """Counts the keys that each query may attend to: float32, broadcasts to (B, T)."""
    return 1 + positions(mask, size)[..., -1]


def local_window(centre: Tensor, position: Tensor, window: int) -> Tensor:
    """Checks whether each position s is in [p − D, p + D].

    Args:
        centre: p, (B, T).
        position: s, broadcasts to (B, T, S).
        window: D.

    Returns:
        Booleans (B, T, S).

    Reference:
        Luong et al., "Effective approaches to attention-based neural machine
        translation" (2015), section 3.2.
    """
    distance = ops.subtract(position, ops.expand_dims(centre, -1))
    return ops.abs(distance) <= window


def gaussian_window(centre: Tensor, position: Tensor, window: int) -> Tensor:
    """Computes exp(−(s − p)² / (2σ²)) with σ = D/2.

    The arguments are those of :func:`local_window`.

    Returns:
        (B, T, S), between 0 and 1.

    Reference:
        Luong et al., "Effective approaches to attention-based neural machine
        translation" (2015), equation 10.
    """
    distance = ops.subtract(position, ops.expand_dims(centre, -1))
    distance = distance * (2 / window)  # (s − p) / σ
    return ops.exp(-(distance**2) / 2)


def monotonic(probability: Tensor, previous: Tensor, mode: str = "parallel") -> Tensor:
    """Computes the next monotonic alignment from the previous one.

        q_s = (1 − p_{s−1}) q_{s−1} + a′_s,    a_s = p_s q_s

    Each scan over the keys starts where the previous one stopped. p_s is the
    probability of stopping at s once the scan is there, and a′ is the previous
    alignment. A scan may reach the end without a stop, so the alignment may sum to less
    than one.

    Args:
        probability: p, (B, S) between 0 and 1; mode "hard" stops at values of 0.5 or
            more.
        previous: a′, (B, S); initially 1 at position 0. In mode "hard", at most one
            position is 1 and all others are 0.
        mode: "parallel", "recursive" or "hard". "parallel" is a closed form that clips
            divisors to at least 1e-10, so weights are too small after keys that the
            scan has almost surely passed. "recursive" is the exact recursion, step by
            step. "hard" is 1 at the first stop, and NaN where the scan meets NaN.

    Returns:
        a, (B, S), in float32 or float64.

    Raises:
        ValueError: for an unknown mode.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import alignments
    >>> p = np.array([[0.5, 0.5, 1.0]], "float32")
    >>> start = np.array([[1.0, 0.0, 0.0]], "float32")
    >>> [round(float(a), 4) for a in alignments.monotonic(p, start, "recursive")[0]]
    [0.5, 0.25, 0.25]

    Reference:
        Raffel et al., "Online and linear-time attention by enforcing monotonic
        alignments" (2017), sections 2.2 and 2.3.
    """
    p = to_float32(ops.convert_to_tensor(probability))
    previous = ops.cast(previous, p.dtype)
    if mode == "parallel":
        return _parallel(p, previous)
    if mode == "recursive":
        return _recursive(p, previous)
    if mode == "hard":
        return _first_stop(p, previous)
    raise ValueError(f"`mode` must be one of {MONOTONIC}. Received: mode={mode!r}")


def _parallel(p: Tensor, previous: Tensor) -> Tensor:
    """Computes p_s c_s Σ_{r ≤ s} a′_r / c_r, where c_s = Π_{r < s} (1 − p_r)."""
    dtype = keras.backend.standardize_dtype(p.dtype)
    logs = ops.log(ops.clip(1 - p, float(np.finfo(dtype).tiny), 1))
    passed = ops.exp(ops.cumsum(logs, axis=-1) - logs)  # c, (B, S)
    return p * passed * ops.cumsum(previous / ops.clip(passed, 1e-10, 1), axis=-1)


def _recursive(p: Tensor, previous: Tensor) -> Tensor:
    def step(passing: Tensor, now: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        stop, start = now
        arriving = passing + start  # q_s
        return (1 - stop) * arriving, stop * arriving

    inputs = (ops.swapaxes(p, 0, 1), ops.swapaxes(previous, 0, 1))  # (S, B)
    _, weights = loop.scan(step, ops.zeros_like(p[:, 0]), inputs)
    return ops.swapaxes(weights, 0, 1)


def _first_stop(p: Tensor, previous: Tensor) -> Tensor:
    started = ops.cumsum(previous, axis=-1)  # 1 from the previous stop on
    stops = started * ops.where(p >= 0.5, ops.ones_like(p), 0 * p)  # NaN stays NaN
    stops = ops.where(started <= 0, ops.zeros_like(p), stops)
    earlier = ops.cumsum(stops, axis=-1) - stops
    return ops.where(earlier > 0, ops.zeros_like(stops), stops)
