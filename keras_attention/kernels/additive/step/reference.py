"""The additive score of one query, against keys whose exponentials are at hand.

A decoder compares one query after the other with the same keys, so that e^{2k} is
computed once for all steps, and a step needs only

    vᵀ tanh(q + k) = Σ v − 2 Σ v r,    r = 1 / (1 + e^{2q} e^{2k})

with a gradient of its own, r (1 − r), that goes to the keys and not by way of their
exponentials. The kernels are in the files beside this one; here is the plain form.

Shapes: B batch, S keys, U units.
"""

from __future__ import annotations

from typing import Any

from keras_attention.kernels.additive import reference as plain

Tensor = Any


def powers(key: Tensor) -> Tensor | None:
    """None: the plain form has no use for exponentials."""
    return None


def additive_step(query: Tensor, key: Tensor, power: Tensor, scale: Tensor) -> Tensor:
    """The plain form; see `ops.scores.additive_step`."""
    return plain.additive(query, key, scale, True)
