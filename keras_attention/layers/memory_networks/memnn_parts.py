"""The parts that `FactFinder` and `WordResponder` share.

Shapes: B batch, M memory slots, L words, D width, K hops, V words of the vocabulary, N
new words. "·" is the number of features of a sentence or of fields of a record.
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

    It maps contexts (B, M, L, 3) of `WordContexts` to a dict of the vectors (B, N, D)
    of each version, 0 for words that are not in the story. Each version has its own
    embeddings of left neighbours and of right neighbours.
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
    """Embeds sentences (B, ·) or (B, M, ·) as sums over their features and new words.

    Feature F + n, for F features of the block, is the new word n of the vectors
    (B, N, D); they are None if there are no new words.
    """
    if vectors is None:
        return block(features)
    features = ops.cast(features, "int32")
    number = features - block.vocabulary_size
    known = block(ops.where(number < 0, features, 0))
    is_new = is_number(number, vectors.shape[1])
    count = ops.sum(ops.cast(is_new, vectors.dtype), axis=-2)  # (B, N) or (B, M, N)
    if len(count.shape) == 2:
        return known + ops.matmul(ops.expand_dims(count, 1), vectors)[:, 0]
    return known + ops.matmul(count, vectors)


def shared(features: Tensor, others: Tensor) -> Tensor:
    """Keeps the features (B, M, ·) that occur in `others` (B, ·); the rest become 0."""
    others = ops.cast(others, "int32")[:, None, None]
    same = ops.equal(ops.expand_dims(features, -1), others)  # (B, M, ·, ·)
    return ops.where(ops.any(same, axis=-1), features, 0)


def block(layer: Any, name: str, size: int | None = None) -> SentenceEncoder:
    """Returns one block of U. A block embeds a sentence as a sum over its features."""
    return SentenceEncoder(
        size or layer.features,
        layer.embedding_dim,
        "bag",
        dtype=layer.dtype_policy,
        name=name,
    )


def found_blocks(layer: Any, hops: int) -> list[SentenceEncoder]:
    """Returns the blocks of U for found facts: one per hop, or one for all hops."""
    versions = hops if layer.hop_versions else min(hops, 1)
    return [block(layer, f"found_{hop}") for hop in range(versions)]


def match_blocks(layer: Any, versions: int, size: int | None = None) -> list[Any]:
    """Returns the blocks of U for matches with the question and with found facts."""
    count = versions if layer.exact_match else 0
    return [block(layer, f"match_{version}", size) for version in range(count)]


def context_vectors(layer: Any, versions: list[str]) -> ContextVectors | None:
    """Returns the layer that represents new words, or None if there are none."""
    if not layer.new_words:
        return None
    return ContextVectors(
        layer.features,
        layer.new_words,
        layer.embedding_dim,
        versions,
        dtype=layer.dtype_policy,
        name="contexts",
    )


def new_vectors(layer: Any, contexts: Tensor | None) -> dict[str, Tensor]:
    """Returns the vectors (B, N, D) of new words by version; {} if there are none."""
    if (contexts is None) != (layer.contexts is None):
        raise ValueError(
            "`contexts` must be given if and only if `new_words` is not 0. Received: "
            f"contexts={contexts}, new_words={layer.new_words}"
        )
    return {} if layer.contexts is None else layer.contexts(contexts)


def hidden_layer(layer: Any) -> keras.layers.Dense:
    """Returns the Dense layer W of tanh(W tanh(U Φ) + b)."""
    width, policy = layer.embedding_dim, layer.dtype_policy
    return keras.layers.Dense(width, "tanh", dtype=policy, name="map")


def sentences(memory: Tensor, slots: Tensor) -> Tensor:
    """Returns the features (B, K, ·) in the slots `slots` (B, K) of `memory`."""
    records = ops.take_along_axis(memory, ops.expand_dims(slots, 2), axis=1)
    return records[:, :, 1:]  # (B, K, ·)
