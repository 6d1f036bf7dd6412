"""Weighted word counts of sentences on TensorFlow."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

Tensor = Any


def word_counts(tokens: Tensor, weights: Tensor, size: int) -> Tensor:
    """Computes segment sums, with one segment per word and sentence."""
    tokens = tf.cast(tokens, tf.int32)
    shape = tf.shape(tokens)
    sentences = tf.size(tokens) // shape[-1]
    rows = tf.reshape(tokens, (sentences, -1))
    places = rows + size * tf.range(sentences, dtype=rows.dtype)[:, None]
    # Invalid words get a negative index, which is ignored. Otherwise they would count
    # for another sentence.
    places = tf.where((rows >= 0) & (rows < size), places, -1)
    counts = tf.math.unsorted_segment_sum(
        tf.reshape(weights, [-1]), tf.reshape(places, [-1]), sentences * size
    )
    return tf.reshape(counts, tf.concat([shape[:-1], [size]], 0))  # (..., V)
