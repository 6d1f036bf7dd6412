"""Scaled dot-product attention on TensorFlow, in the shapes of `reference.py`."""

from __future__ import annotations

import math
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
    tensors = query, key, value
    symbolic = any(isinstance(x, keras.KerasTensor) for x in tensors)
    if symbolic or not tiles.pays(*tensors):
        return reference.dot_product_attention(*tensors, mask, scale, is_causal, bias)
    q, k, v = (tf.convert_to_tensor(x) for x in tensors)
    if tf.executing_eagerly() and math.prod(q.shape[:3]) * k.shape[1] < tiles.EAGER:
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
) -> Tensor | None:
    """Computes attention in a sliding window by blocks."""
    if any(isinstance(x, keras.KerasTensor) for x in (query, key, value)):
        return None
    band = bands.plan(query, key, value, mask, is_causal, window)
    if band is None:
        return None
    q, k, v = (tf.convert_to_tensor(x) for x in (query, key, value))
    return bands_tensorflow.attention(q, k, v, mask, scale, band)
