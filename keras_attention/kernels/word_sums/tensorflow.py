"""Two weighted sums of the word embeddings of sentences, on TensorFlow.

With gradients, segment sums are 1.7 to 3.6 times as fast as comparisons (1,600
sentences of 7 to 12 words, 22 to 330 words of the vocabulary).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import tensorflow as tf

from keras_attention.kernels.word_sums import reference

Tensor = Any

PAYS = 28  # words of the vocabulary per word of a sentence, see tests/speed/trials.md


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


word_sums = partial(reference.word_sums, counts=_counts)
word_sums_pay = partial(reference.word_sums_pay, most=PAYS)
