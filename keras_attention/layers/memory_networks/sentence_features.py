"""I of a memory network: the features of a sentence.

Shapes: B batch, M memory slots, L words; "·" stands for the features of a sentence, or
the fields of a record.
"""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.layers.memory_networks.memory_writer import shifted
from keras_attention.numerics import masks

Tensor = Any


@export
class SentenceFeatures(keras.layers.Layer):
    """I, the input feature map: a sentence as the set of its words and n-grams.

    A word's feature is its token. An n-gram of two or more words falls into one of
    `buckets` features behind those of the words, by the hash

        h(w₁ … wₙ) = (h(w₁ … wₙ₋₁) · p + wₙ) mod buckets,  h(w₁) = w₁ mod buckets

    with p the least number from `vocabulary_size` on that has no factor in common with
    `buckets`. Where p · V ≤ buckets, different pairs of words have different features.
    The layer has no weights.

    Args:
        vocabulary_size: V, the number of different tokens, padding included.
        ngrams: the most words of an n-gram; 1 for a bag of words.
        buckets: the number of features for n-grams.

    Call arguments:
        inputs: integers (..., L), token 0 is padding.

    Returns:
        int32 (..., L · ngrams), numbers of features below `size`; 0 where there is
        none.

    Raises:
        ValueError: if a size is below 1, or V · buckets does not fit int32.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import SentenceFeatures
    >>> features = SentenceFeatures(vocabulary_size=5, ngrams=2, buckets=100)
    >>> np.asarray(features(np.array([[1, 4, 0]]))).tolist()
    [[1, 4, 0, 0, 16, 0]]

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.1; n-grams: Weston
        et al., "Towards AI-complete question answering" (2015), section 5.
    """

    def __init__(
        self,
        vocabulary_size: int,
        ngrams: int = 1,
        buckets: int = 2003,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = positive("vocabulary_size", vocabulary_size)
        self.ngrams = positive("ngrams", ngrams)
        self.buckets = positive("buckets", buckets)
        if vocabulary_size * buckets >= 2**30:
            raise ValueError(
                "`vocabulary_size` times `buckets` must be below 2³⁰. Received: "
                f"vocabulary_size={vocabulary_size}, buckets={buckets}"
            )
        self.factor = next(
            p
            for p in range(vocabulary_size, vocabulary_size + buckets)
            if math.gcd(p, buckets) == 1
        )
        self.built = True

    @property
    def size(self) -> int:
        """How many different features there are, padding included."""
        return self.vocabulary_size + (self.buckets if self.ngrams > 1 else 0)

    def call(self, inputs: Tensor) -> Tensor:
        word = ops.cast(inputs, "int32")
        is_valid = masks.padding(word)  # (..., L)
        parts, hashed, whole = [word], word % self.buckets, is_valid
        for _ in range(1, self.ngrams):
            # The n-gram that ends in a word: the one before it, and the word.
            hashed = (shifted(hashed) * self.factor + word) % self.buckets
            whole = ops.logical_and(is_valid, shifted(whole))
            parts.append(ops.where(whole, self.vocabulary_size + hashed, 0))
        return ops.concatenate(parts, axis=-1)  # (..., ·)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        words = inputs.shape[-1]
        width = None if words is None else self.ngrams * words
        return keras.KerasTensor((*inputs.shape[:-1], width), "int32")

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "ngrams": self.ngrams,
            "buckets": self.buckets,
        }
