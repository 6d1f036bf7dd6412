"""Scaled dot-product attention on TensorFlow.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_attention.kernels.attention import (
    bands,
    bands_tensorflow,
    reference,
    tiles,
    tiles_tensorflow,
)

dropout_attention = reference.dropout_attention

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
    """Computes two products; long sequences are computed tile by tile."""
    given = query, key, value
    if any(isinstance(x, keras.KerasTensor) for x in given) or not tiles.pays(*given):
        return reference.dot_product_attention(*given, mask, scale, is_causal, bias)
    q, k, v = (tf.convert_to_tensor(x) for x in given)
    if tf.executing_eagerly() and _scores(q, k) < tiles.EAGER:
        return reference.dot_product_attention(q, k, v, mask, scale, is_causal, bias)
    bias = None if bias is None else tf.convert_to_tensor(bias)
    return tiles_tensorflow.attention(q, k, v, mask, scale, is_causal, bias)


def local_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    window: int,
) -> Tensor:
    """Computes attention in a sliding window by blocks or by tiles."""
    given = query, key, value
    band = None
    if not any(isinstance(x, keras.KerasTensor) for x in given):
        band = bands.plan(*given, mask, is_causal, window)
    if band is None:
        mask = bands.merged(mask, query, key, window)
        return dot_product_attention(*given, mask, scale, is_causal)
    q, k, v = (tf.convert_to_tensor(x) for x in given)
    return bands_tensorflow.attention(q, k, v, mask, scale, band)


def _scores(query: Tensor, key: Tensor) -> int:
    return query.shape[0] * query.shape[1] * query.shape[2] * key.shape[1]
