"""How often each word stands in each sentence on TensorFlow."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

Tensor = Any


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
