"""The additive score vᵀ tanh(q + k): its plain form, and when to use its factored form.

The plain form computes and stores a tanh for each unit of each pair, (B, T, S, U). The
other kernels in this folder compute the equal factored form

    vᵀ tanh(q + k) = Σ v − 2 Σ v r,    r = 1 / (1 + e^{2q} e^{2k})

which needs exponentials only of queries and keys. Far from 0 it is wrong (`is_wide`);
r = sigmoid(−2q − 2k) of each pair then replaces it. These kernels define a custom
gradient with d tanh = 4 r (1 − r). Many queries are processed chunk by chunk, and the
gradient recomputes each chunk. A decoder scores single queries against the same keys:
on JAX, `precompute_key` then computes e^{2k} once for all steps.

Shapes: B batch, T queries, S keys, U units.
"""

from __future__ import annotations

import math
from collections import namedtuple
from operator import attrgetter
from typing import Any

import keras
from keras import ops

Tensor = Any

# Within ±RANGE, an exponential and its inverse fit into float32. The product of two
# exponentials may overflow; r is then 0, which is correct.
RANGE = 43.0
# If all queries or all keys are within ±SAFE, clipping the others to ±RANGE is correct:
# for |q| > 43 and |k| ≤ 33, |q + k| > 10 before and |q + k| ≥ 10 after clipping, and
# 1 − |tanh x| < 5e-9 for |x| ≥ 10, less than the rounding of 1 in float32.
SAFE = 33.0
LEAST_ROWS = 4  # with fewer queries or keys, the factored form saves nothing
LEAST_UNITS = 2**14  # smallest B · T · S · U for which a loop pays off
UNKNOWN = 64  # the assumed value of an unknown size


class PrecomputedKey(namedtuple("PrecomputedKey", ["key", "exp_key"])):
    """Keys (B, S, U) and their e^{2k}. The shape and the dtype are those of the keys.

    The gradient flows to the keys, not through the exponentials.
    """

    __slots__ = ()
    shape = property(attrgetter("key.shape"))
    dtype = property(attrgetter("key.dtype"))


def precompute_key(key: Tensor) -> Tensor:
    """Returns the keys unchanged; the plain form does not use exponentials."""
    return key


def additive(query: Tensor, key: Tensor, scale: Tensor, exact: bool) -> Tensor:
    """Computes the plain form; see `ops.scores.additive`."""
    sums = ops.expand_dims(query, -2) + ops.expand_dims(key, -3)  # (..., T, S, U)
    return ops.matmul(ops.tanh(sums), scale)


def gradients(
    query: Tensor, key: Tensor, scale: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients of the plain form by differentiable operations.

    The custom gradients of the kernels are faster but not differentiable on some
    backends. This function replaces them for second derivatives.
    """
    units = ops.tanh(ops.expand_dims(query, 2) + key[:, None])  # (B, T, S, U)
    slope = ops.expand_dims(slope, -1)
    part = slope * scale * (1 - units**2)
    dscale = ops.sum(slope * units, axis=(0, 1, 2))
    return ops.sum(part, axis=2), ops.sum(part, axis=1), dscale


def pays(query: Tensor, key: Tensor) -> bool:
    """Returns whether the factored form supports these shapes and is faster."""
    if any(isinstance(x, keras.KerasTensor) for x in (query, key)):
        return False
    if tuple(query.shape[:-2]) != tuple(key.shape[:-2]) or query.shape[-1] is None:
        return False
    sizes = [UNKNOWN if n is None else n for n in (*query.shape, key.shape[-2])]
    fewest = min(sizes[-3], sizes[-1])
    return fewest >= LEAST_ROWS and math.prod(sizes) >= LEAST_UNITS


def is_wide(query: Tensor, key: Tensor) -> Tensor:
    """Returns whether the factored form is wrong for some pair; True for NaN."""
    q, k = (ops.max(ops.abs(x)) for x in (query, key))
    fits = ops.logical_or(q <= SAFE, k <= SAFE)
    fits = ops.logical_or(fits, ops.logical_and(q <= RANGE, k <= RANGE))
    known = ops.logical_and(q == q, k == k)  # a NaN must not hide behind the other
    return ops.logical_not(ops.logical_and(fits, known))


def exponential(x: Tensor) -> Tensor:
    """Computes e^{2x}, with x clipped to ±RANGE."""
    return ops.exp(2 * ops.clip(x, -RANGE, RANGE))
