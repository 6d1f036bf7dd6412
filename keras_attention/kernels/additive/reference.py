"""The additive score vᵀ tanh(q + k): its plain form, and when another one pays.

The plain form computes a tanh for each unit of each pair, (B, T, S, U), and holds
them all. The kernels beside this file compute the same number as

    vᵀ tanh(q + k) = Σ v − 2 Σ v r,    r = 1 / (1 + e^{2q} e^{2k})

which needs exponentials of queries and keys alone. They have a gradient of their own,
with d tanh = 4 r (1 − r). Many queries are taken chunk by chunk, and the gradient
computes each chunk again. A decoder compares one query after another with the same
keys: `precompute_key` then computes e^{2k} once for all steps.

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

# Within ±RANGE neither an exponential nor its inverse leaves float32. A product of two
# may overflow: its r is then 0, as it should be.
RANGE = 43.0
LEAST_ROWS = 4  # with fewer queries or keys there are as many exponentials as tanhs
LEAST_UNITS = 2**14  # B · T · S · U from which on a loop costs less than it saves
UNKNOWN = 64  # what an unknown size counts as


class PrecomputedKey(namedtuple("PrecomputedKey", ["key", "exp_key"])):
    """Keys (B, S, U) and e^{2k}, with the shape and the dtype of keys.

    The gradient goes to the keys; none flows through the exponentials.
    """

    __slots__ = ()
    shape = property(attrgetter("key.shape"))
    dtype = property(attrgetter("key.dtype"))


def precompute_key(key: Tensor) -> Tensor:
    """The keys as they are: the plain form has no use for exponentials."""
    return key


def additive(query: Tensor, key: Tensor, scale: Tensor, exact: bool) -> Tensor:
    """The plain form; see `ops.scores.additive`."""
    units = ops.tanh(query[..., :, None, :] + key[..., None, :, :])  # (..., T, S, U)
    return ops.matmul(units, scale)


def gradients(
    query: Tensor, key: Tensor, scale: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the plain form, in steps that have gradients themselves.

    The kernels' own gradients are fast and, on some backends, the last: where these are
    to be differentiated again, these here take their place.
    """
    units = ops.tanh(query[:, :, None] + key[:, None])  # (B, T, S, U)
    slope = slope[..., None]
    part = slope * scale * (1 - units**2)
    dscale = ops.sum(slope * units, axis=(0, 1, 2))
    return ops.sum(part, axis=2), ops.sum(part, axis=1), dscale


def pays(query: Tensor, key: Tensor) -> bool:
    """Whether the factored form can be used at these shapes, and is worth its steps."""
    if any(isinstance(x, keras.KerasTensor) for x in (query, key)):
        return False
    if tuple(query.shape[:-2]) != tuple(key.shape[:-2]) or query.shape[-1] is None:
        return False
    sizes = [UNKNOWN if n is None else n for n in (*query.shape, key.shape[-2])]
    fewest = min(sizes[-3], sizes[-1])
    return fewest >= LEAST_ROWS and math.prod(sizes) >= LEAST_UNITS


def exponential(x: Tensor) -> Tensor:
    """e^{2x}, for x within ±RANGE."""
    return ops.exp(2 * ops.clip(x, -RANGE, RANGE))
