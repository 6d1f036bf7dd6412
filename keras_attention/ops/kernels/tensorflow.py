"""Kernels for TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_attention.ops.kernels.generic import dot_product_attention

Tensor = Any

__all__ = ["dot_product_attention", "is_traced", "word_counts"]


def word_counts(tokens: Tensor, weights: Tensor, size: int) -> Tensor:
    """Sums over segments, one segment for each word of each sentence."""
    tokens = tf.cast(tokens, tf.int32)
    shape = tf.shape(tokens)
    sentences = tf.size(tokens) // shape[-1]
    rows = tf.reshape(tokens, (sentences, -1))
    places = rows + size * tf.range(sentences, dtype=rows.dtype)[:, None]
    # A negative place is left out; without this, such a word would be its neighbour's.
    places = tf.where((rows >= 0) & (rows < size), places, -1)
    counts = tf.math.unsorted_segment_sum(
        tf.reshape(weights, [-1]), tf.reshape(places, [-1]), sentences * size
    )
    return tf.reshape(counts, tf.concat([shape[:-1], [size]], 0))  # (..., V)


def is_traced(tensor: Tensor) -> bool:
    """Whether the tensor belongs to a graph or is symbolic."""
    return isinstance(tensor, keras.KerasTensor) or (
        tf.is_tensor(tensor) and not hasattr(tensor, "numpy")
    )
