"""I of a memory network: extracts the features of a sentence.

Shapes: B batch, M memory slots, L words. "·" is the number of features of a sentence or
of fields of a record.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import natural, positive
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.layers.memory_networks.memory_writer import shifted
from keras_attention.numerics import masks

Tensor = Any


@export
class SentenceFeatures(Configured, keras.layers.Layer):
    """I, the input feature map: represents a sentence by its words and n-grams.

    The feature of a word is its token. The features of n-grams of two or more words
    come after the features of words. A hash maps each n-gram to one of `buckets`
    features:

        h(w₁ … wₙ) = (h(w₁ … wₙ₋₁) · p + wₙ) mod buckets,  h(w₁) = w₁ mod buckets

    where p is the smallest integer ≥ `vocabulary_size` that is coprime to `buckets`. If
    p · V ≤ buckets, different pairs of words have different features. The layer has no
    weights.

    Args:
        vocabulary_size: V, the number of different tokens, including padding.
        ngrams: the largest number of words in an n-gram; 1 for a bag of words.
        buckets: the number of n-gram features.
        new_words: the number of ids from V on, which stand for words without features.

    Call arguments:
        inputs: integers (..., L); token 0 is padding.

    Returns:
        int32 (..., L · ngrams), feature indices below `size`; 0 is padding. New word n,
        with the id V + n, becomes `size` + 1 + n. (Index `size` is free for the feature
        of m_∅, see `MemoryWriter`.) An n-gram that contains a new word has no feature.

    Raises:
        ValueError: if a size is below 1, or V · buckets does not fit into int32.

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

    id_sizes: ClassVar[Any] = {"inputs": "num_ids"}
    input_ranks: ClassVar[Any] = {"inputs": (1, 9)}

    def __init__(
        self,
        vocabulary_size: int,
        ngrams: int = 1,
        buckets: int = 2003,
        new_words: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = positive("vocabulary_size", vocabulary_size)
        self.ngrams = positive("ngrams", ngrams)
        self.buckets = positive("buckets", buckets)
        self.new_words = natural("new_words", new_words)
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
        """The number of different features, including padding."""
        return self.vocabulary_size + (self.buckets if self.ngrams > 1 else 0)

    @property
    def num_ids(self) -> int:
        """The number of different ids, those of new words included."""
        return self.vocabulary_size + self.new_words

    def call(self, inputs: Tensor) -> Tensor:
        word = ops.cast(inputs, "int32")
        is_valid = masks.padding(word)  # (..., L)
        feature = word
        if self.new_words:
            is_new = word >= self.vocabulary_size
            above = self.size + 1 - self.vocabulary_size
            feature = ops.where(is_new, word + above, word)
            is_valid = ops.logical_and(is_valid, ops.logical_not(is_new))
        parts, hashed, whole = [feature], word % self.buckets, is_valid
        for _ in range(1, self.ngrams):
            # Append this word to the n-gram that ends at the previous word.
            hashed = (shifted(hashed) * self.factor + word) % self.buckets
            whole = ops.logical_and(is_valid, shifted(whole))
            parts.append(ops.where(whole, self.vocabulary_size + hashed, 0))
        return ops.concatenate(parts, axis=-1)  # (..., ·)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        words = inputs.shape[-1]
        width = None if words is None else self.ngrams * words
        return keras.KerasTensor((*inputs.shape[:-1], width), "int32")
