"""Scaled dot-product attention on JAX.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value.
"""

from __future__ import annotations

from typing import Any

import jax
import keras
from keras import ops

from keras_attention.kernels.attention import reference, tiles, tiles_jax

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
    if known and jax.default_backend() == "cpu" and tiles.pays(query, key, value):
        q, k, v = (ops.convert_to_tensor(x) for x in (query, key, value))
        return tiles_jax.attention(q, k, v, mask, scale, is_causal, bias)
    return reference.dot_product_attention(
        query, key, value, mask, scale, is_causal, bias
    )
