"""The additive score of one query on JAX; see `one_query.py`."""

from __future__ import annotations

from typing import Any

import jax
from jax import numpy as jnp

from keras_attention.kernels.additive import reference as plain
from keras_attention.kernels.keras import is_exporting

Tensor = Any


def powers(key: Tensor) -> Tensor | None:
    """e^{2k}, (B, S, U), through which no gradient flows; None in exports."""
    if is_exporting():
        return None
    return jax.lax.stop_gradient(plain.exponential(key))


def additive_step(query: Tensor, key: Tensor, power: Tensor, scale: Tensor) -> Tensor:
    """Scores (B, 1, S) of queries (B, 1, U)."""
    return _scores(query[:, 0], key, power, scale)[:, None]


@jax.custom_vjp
def _scores(query: Tensor, key: Tensor, power: Tensor, scale: Tensor) -> Tensor:
    return _forward(query, key, power, scale)[0]


def _forward(
    query: Tensor, key: Tensor, power: Tensor, scale: Tensor
) -> tuple[Tensor, Any]:
    """Scores (B, S); the keys themselves matter to the gradient alone."""
    r = _sigmoids(query, power)  # (B, S, U)
    scores = jnp.sum(scale) - 2 * jnp.matmul(r, scale)
    return scores, (query, key, power, scale)


def _backward(saved: Any, slope: Tensor) -> tuple[Tensor, ...]:
    query, key, power, scale = saved
    dquery, dkey, dscale = _gradients(query, key, power, scale, slope)
    return dquery, dkey, jnp.zeros_like(power), dscale


_scores.defvjp(_forward, _backward)


@jax.custom_vjp
def _gradients(
    query: Tensor, key: Tensor, power: Tensor, scale: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    r = _sigmoids(query, power)  # cheaper again than kept
    sums = jnp.einsum("bs,bsu->u", slope, r)
    part = 4 * scale * (slope[..., None] * (r - r * r))  # (B, S, U)
    return jnp.sum(part, 1), part, jnp.sum(slope) - 2 * sums


def _gradients_forward(*given: Tensor) -> tuple[Any, Any]:
    return _gradients(*given), given


def _gradients_backward(given: Any, slopes: Any) -> tuple[Tensor, ...]:
    """Of the plain form: through the exponentials nothing flows to the keys."""
    query, key, power, scale, slope = given

    def again(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> tuple[Tensor, ...]:
        dq, dk, dv = plain.gradients(q[:, None], k, v, g[:, None])
        return dq[:, 0], dk, dv

    dq, dk, dv, dg = jax.vjp(again, query, key, scale, slope)[1](slopes)
    return dq, dk, jnp.zeros_like(power), dv, dg


_gradients.defvjp(_gradients_forward, _gradients_backward)


def _sigmoids(query: Tensor, power: Tensor) -> Tensor:
    """r (B, S, U) of queries (B, U)."""
    return 1 / (1 + plain.exponential(query)[:, None] * power)
