"""Two weighted sums of the word embeddings of sentences, on TensorFlow.

With gradients, segment sums are 1.7 to 3.6 times as fast as comparisons (1,600
sentences of 7 to 12 words, 22 to 330 words of the vocabulary).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

Tensor = Any

PAYS = 28  # words of the vocabulary per word of a sentence, see tests/speed/trials.md


def word_sums(
    tokens: Tensor, first: Tensor, second: Tensor, table: Tensor
) -> tuple[Tensor, Tensor]:
    """Multiplies weighted word counts by the table."""
    size = table.shape[0]
    c_1, c_2 = (
        tf.cast(_counts(tokens, weights, size), table.dtype)  # (..., V)
        for weights in (first, second)
    )
    return tf.matmul(c_1, table), tf.matmul(c_2, table)


def word_sums_pay(size: int, length: int | None) -> bool:
    """Counts grow with the vocabulary, lookups with the length of a sentence."""
    return length is not None and size <= PAYS * length


def _counts(tokens: Tensor, weights: Tensor, size: int) -> Tensor:
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
