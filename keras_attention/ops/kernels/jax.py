"""Kernels for JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import keras
from keras import ops

from keras_attention.ops.kernels import generic, tiled, tiled_jax
from keras_attention.ops.kernels.generic import (
    any_left,
    ascending,
    called,
    dense,
    is_open,
    lookup,
    word_counts,
)

Tensor = Any

__all__ = [
    "any_left",
    "ascending",
    "called",
    "dense",
    "dot_product_attention",
    "is_open",
    "is_traced",
    "lookup",
    "scan",
    "segments",
    "word_counts",
]


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    bias: Tensor | None = None,
) -> Tensor:
    """cuDNN's attention where it applies (a GPU, half precision), else products.

    On a processor long ones are computed tile by tile.
    """
    fused = (
        jax.default_backend() == "gpu"
        and keras.backend.standardize_dtype(query.dtype) in ("float16", "bfloat16")
        and query.shape[-1] == value.shape[-1]
        and mask is None
        and bias is None
    )
    if fused:
        return ops.dot_product_attention(
            query, key, value, scale=scale, is_causal=is_causal
        )
    known = not any(isinstance(x, keras.KerasTensor) for x in (query, key, value))
    known = known and isinstance(query.shape[0], int)
    if known and jax.default_backend() == "cpu" and tiled.pays(query, key, value):
        q, k, v = (ops.convert_to_tensor(x) for x in (query, key, value))
        return tiled_jax.attention(q, k, v, mask, scale, is_causal, bias)
    return generic.dot_product_attention(
        query, key, value, mask, scale, is_causal, bias
    )


def scan(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """`jax.lax.scan`, which compiles the step once for all times."""
    return jax.lax.scan(step, state, inputs)


def segments(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """`jax.checkpoint` of a scan, within a scan."""

    def segment(state: Any, now: Any) -> tuple[Any, Any]:
        return jax.lax.scan(step, state, now)

    segment = jax.checkpoint(segment, prevent_cse=False)
    return jax.lax.scan(segment, state, inputs)


def is_traced(tensor: Tensor) -> bool:
    """Whether the tensor is a tracer or symbolic."""
    return isinstance(tensor, (jax.core.Tracer, keras.KerasTensor))
