"""Sparse links on JAX. Examples can be split over devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import keras

from keras_attention.kernels.keras import is_exporting
from keras_attention.kernels.partitioning.jax import partitioned
from keras_attention.kernels.sparse_links import reference

Tensor = Any


def fade(values: Tensor, slots: Tensor, weights: Tensor) -> Tensor:
    """Computes the links after a write, (G, K, M)."""
    if isinstance(values, keras.KerasTensor) or is_exporting():
        return reference.fade(values, slots, weights)
    return _fade_of_parts()(values, slots, weights)[0]


def follow(values: Tensor, slots: Tensor, reads: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the forward and backward weights, each (G, M, R)."""
    if isinstance(values, keras.KerasTensor) or is_exporting():
        return reference.follow(values, slots, reads)
    return _follow_of_parts()(values, slots, reads)


@cache
def _fade_of_parts() -> Callable:
    links, weights = ("groups", None, None), ("groups", None)
    return partitioned(lambda *x: (_fade(*x),), [links, links, weights], [links])


@cache
def _follow_of_parts() -> Callable:
    axes = "groups", None, None
    return partitioned(lambda *x: _follow(*x), [axes] * 3, [axes] * 2)


@jax.custom_vjp
def _fade(values: Tensor, slots: Tensor, weights: Tensor) -> Tensor:
    return reference.fade_pieces(values, slots, weights)


def _fade_forward(*saved: Tensor) -> tuple[Tensor, Any]:
    return _fade(*saved), saved


def _fade_backward(saved: Any, slope: Tensor) -> tuple[Any, ...]:
    of_values, of_weights = _fade_gradient(*saved, slope)
    return of_values, None, of_weights


_fade.defvjp(_fade_forward, _fade_backward)


@jax.custom_vjp
def _follow(values: Tensor, slots: Tensor, reads: Tensor) -> tuple[Tensor, Tensor]:
    return reference.follow_pieces(values, slots, reads)


def _follow_forward(*saved: Tensor) -> tuple[Any, Any]:
    return _follow(*saved), saved


def _follow_backward(saved: Any, slopes: Any) -> tuple[Any, ...]:
    of_values, of_reads = _follow_gradient(*saved, *slopes)
    return of_values, None, of_reads


_follow.defvjp(_follow_forward, _follow_backward)


# A loop of unknown length has no gradient, so second derivatives use the reference.
@jax.custom_vjp
def _fade_gradient(
    values: Tensor, slots: Tensor, weights: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor]:
    return reference.fade_gradient(values, slots, weights, slope)


def _fade_gradient_backward(saved: Any, slopes: Any) -> tuple[Any, ...]:
    values, slots, weights, slope = saved

    def again(values: Tensor, weights: Tensor, slope: Tensor) -> Any:
        form = jax.vjp(lambda v, w: reference.fade(v, slots, w), values, weights)
        return form[1](slope)

    first, second, third = jax.vjp(again, values, weights, slope)[1](slopes)
    return first, None, second, third


_fade_gradient.defvjp(
    lambda *saved: (_fade_gradient(*saved), saved), _fade_gradient_backward
)


@jax.custom_vjp
def _follow_gradient(
    values: Tensor, slots: Tensor, reads: Tensor, ahead: Tensor, back: Tensor
) -> tuple[Tensor, Tensor]:
    return reference.follow_gradient(values, slots, reads, ahead, back)


def _follow_gradient_backward(saved: Any, slopes: Any) -> tuple[Any, ...]:
    values, slots, reads, *further = saved

    def again(values: Tensor, reads: Tensor, *further: Tensor) -> Any:
        form = jax.vjp(lambda v, r: reference.follow(v, slots, r), values, reads)
        return form[1](further)

    of_values, of_reads, *of_further = jax.vjp(again, values, reads, *further)[1](
        slopes
    )
    return of_values, None, of_reads, *of_further


_follow_gradient.defvjp(
    lambda *saved: (_follow_gradient(*saved), saved), _follow_gradient_backward
)
