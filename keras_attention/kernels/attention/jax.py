"""Scaled dot-product attention on JAX, in the shapes of `reference.py`."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
from keras import ops

from keras_attention.kernels.attention import (
    bands,
    dropout_jax,
    parts_jax,
    reference,
    tiles,
)
from keras_attention.kernels.keras import is_exporting
from keras_attention.kernels.tracing.jax import platform

Tensor = Any


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    bias: Tensor | None = None,
) -> Tensor:
    """Computes attention by cuDNN, in tiles or by matrix products.

    cuDNN is used on a GPU in half precision, if E = V and there is no mask or bias.
    Tiles are used for long sequences on a CPU.
    """
    fused = (
        mask is None
        and bias is None
        and keras.backend.standardize_dtype(query.dtype) in ("float16", "bfloat16")
        and query.shape[-1] == value.shape[-1]
        and platform() == "gpu"
    )
    if fused:
        return ops.dot_product_attention(
            query, key, value, scale=scale, is_causal=is_causal
        )
    symbolic = any(isinstance(x, keras.KerasTensor) for x in (query, key, value))
    known = not symbolic and all(isinstance(n, int) for n in (*query.shape, *key.shape))
    long = known and query.shape[1] * key.shape[1] >= tiles.LEAST
    if long and tiles.pays(query, key, value) and platform() == "cpu":
        q, k, v = (ops.convert_to_tensor(x) for x in (query, key, value))
        return parts_jax.attention(q, k, v, mask, scale, is_causal, bias)
    return reference.dot_product_attention(
        query, key, value, mask, scale, is_causal, bias
    )


def local_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    window: int,
) -> Tensor | None:
    """Computes attention in a sliding window by blocks, on a CPU."""
    if platform() != "cpu" or not _is_known(query, key, value):
        return None
    band = bands.plan(query, key, value, mask, is_causal, window)
    if band is None:
        return None
    q, k, v = (ops.convert_to_tensor(x) for x in (query, key, value))
    return parts_jax.local_attention(q, k, v, mask, scale, band)


def dropout_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    bias: Tensor | None,
    rate: float,
    seed: keras.random.SeedGenerator,
) -> Tensor | None:
    """Computes attention with dropout of the weights, without storing the dropout."""
    if not _is_known(query, key, value) or is_exporting():
        return None
    q, k, v = (ops.convert_to_tensor(x) for x in (query, key, value))
    dropout = dropout_jax.sample(q, k, rate, seed.next())
    if platform() == "cpu" and tiles.pays(q, k, v):
        return parts_jax.attention(q, k, v, mask, scale, is_causal, bias, dropout)
    drop = partial(dropout_jax.drop, dropout=dropout)
    return reference.dot_product_attention(q, k, v, mask, scale, is_causal, bias, drop)


def _is_known(*tensors: Tensor) -> bool:
    """Returns whether the tensors have values, or at least static sizes."""
    known = not any(isinstance(x, keras.KerasTensor) for x in tensors)
    return known and isinstance(tensors[0].shape[0], int)
