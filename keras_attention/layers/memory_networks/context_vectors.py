"""Vectors of words that have no features of their own, and features in two sentences.

Shapes: B batch, M memory slots, L words, D width, N new words. "·" is the number of
features of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attention.layers.memory_networks.sentence_encoder import (
    SentenceEncoder,
    normal,
)

Tensor = Any


class ContextVectors(keras.layers.Layer):
    """Represents each new word by the mean of its left and right neighbours.

    Each version has its own embeddings of left neighbours and of right neighbours.

    Args:
        features: the number of features of known words.
        new_words: N.
        embedding_dim: D.
        versions: the names of the versions.

    Call arguments:
        contexts: int32 (B, M, L, 3), from `WordContexts`.

    Returns:
        A dict with the vectors (B, N, D) of each version; 0 for words that do not occur
        in the story.
    """

    def __init__(
        self,
        features: int,
        new_words: int,
        embedding_dim: int,
        versions: Sequence[str],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.new_words = new_words
        self.versions = tuple(versions)
        self.left, self.right = (
            keras.layers.Embedding(
                features,
                embedding_dim * len(self.versions),
                embeddings_initializer=normal(),
                dtype=self.dtype_policy,
                name=side,
            )
            for side in ("left", "right")
        )

    def build(self, contexts_shape: Any) -> None:
        for side in (self.left, self.right):
            side.build(contexts_shape)
        self.built = True

    def call(self, contexts: Tensor) -> dict[str, Tensor]:
        number, left, right = (contexts[..., i] for i in range(3))  # (B, M, L)
        neighbours = self.left(left) + self.right(right)  # (B, M, L, ·)
        occurs = is_number(number - 1, self.new_words)  # (B, M, L, N)
        weights = ops.cast(occurs, neighbours.dtype)
        total = ops.einsum("bmln,bmld->bnd", weights, neighbours)
        count = ops.maximum(ops.sum(weights, axis=(1, 2)), 1)  # (B, N)
        mean = total / ops.expand_dims(count, -1)
        return dict(zip(self.versions, ops.split(mean, len(self.versions), axis=-1)))


def is_number(number: Tensor, size: int) -> Tensor:
    """Returns which of 0 … size − 1 each integer (...) is; booleans (..., size)."""
    return ops.equal(ops.expand_dims(number, -1), ops.arange(size, dtype="int32"))


def bag(block: SentenceEncoder, features: Tensor, vectors: Tensor | None) -> Tensor:
    """Embeds sentences as the sum over their features and the vectors of new words.

    Args:
        block: the embeddings of F features.
        features: integers (B, ·) or (B, M, ·); F + n is new word n.
        vectors: (B, N, D), the vectors of the new words; None if there are none.

    Returns:
        (B, D) or (B, M, D).
    """
    if vectors is None:
        return block(features)
    features = ops.cast(features, "int32")
    number = features - block.vocabulary_size
    known = block(ops.where(number < 0, features, 0))
    is_new = is_number(number, vectors.shape[1])
    count = ops.sum(ops.cast(is_new, vectors.dtype), axis=-2)  # (B, N) or (B, M, N)
    if len(count.shape) == 2:
        new = ops.matmul(ops.expand_dims(count, 1), vectors)[:, 0]
    else:
        new = ops.matmul(count, vectors)
    return known + new


def shared(features: Tensor, others: Tensor) -> Tensor:
    """Keeps the features (B, M, ·) that occur in `others` (B, ·); the rest become 0."""
    others = ops.cast(others, "int32")[:, None, None]
    same = ops.equal(ops.expand_dims(features, -1), others)  # (B, M, ·, ·)
    return ops.where(ops.any(same, axis=-1), features, 0)
