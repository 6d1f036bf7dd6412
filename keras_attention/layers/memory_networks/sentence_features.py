"""I of a memory network: extracts the features of a sentence.

Shapes: B batch, M memory slots, L words. "·" is the number of features of a sentence or
of fields of a record.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import positive
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

    Call arguments:
        inputs: integers (..., L); token 0 is padding.

    Returns:
        int32 (..., L · ngrams), feature indices below `size`; 0 is padding.

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

    id_sizes: ClassVar[Any] = {"inputs": "vocabulary_size"}
    input_ranks: ClassVar[Any] = {"inputs": (1, 9)}

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
        """The number of different features, including padding."""
        return self.vocabulary_size + (self.buckets if self.ngrams > 1 else 0)

    def call(self, inputs: Tensor) -> Tensor:
        word = ops.cast(inputs, "int32")
        is_valid = masks.padding(word)  # (..., L)
        parts, hashed, whole = [word], word % self.buckets, is_valid
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
