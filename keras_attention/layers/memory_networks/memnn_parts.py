"""The parts that `FactFinder` and `WordResponder` share.

Shapes: B batch, M memory slots, D width, K hops, V words of the vocabulary. "·" is the
number of features of a sentence or of fields of a record.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.memory_networks.context_vectors import ContextVectors
from keras_attention.layers.memory_networks.sentence_encoder import (
    SentenceEncoder,
)

Tensor = Any


def block(layer: Any, name: str) -> SentenceEncoder:
    """Returns one block of U. A block embeds a sentence as a sum over its features."""
    return SentenceEncoder(
        layer.features,
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
    """Returns the blocks of U for matching features: of the question and found facts.

    Args:
        layer: the layer; without `exact_match`, it has no such blocks.
        versions: the number of blocks.
        size: the number of features of a block; None for the layer's `features`.
    """
    return [
        SentenceEncoder(
            size or layer.features,
            layer.embedding_dim,
            "bag",
            dtype=layer.dtype_policy,
            name=f"match_{version}",
        )
        for version in range(versions if layer.exact_match else 0)
    ]


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
    """Returns the vectors (B, N, D) of new words by version; {} if there are none.

    Raises:
        ValueError: if `contexts` is missing, or given to a layer without new words.
    """
    if (contexts is None) != (layer.contexts is None):
        raise ValueError(
            "`contexts` must be given if and only if `new_words` is not 0. Received: "
            f"contexts={contexts}, new_words={layer.new_words}"
        )
    return {} if layer.contexts is None else layer.contexts(contexts)


def hidden_layer(layer: Any) -> keras.layers.Dense:
    """Returns the Dense layer W of tanh(W tanh(U Φ) + b)."""
    return keras.layers.Dense(
        layer.embedding_dim,
        activation="tanh",
        dtype=layer.dtype_policy,
        name="map",
    )


def sentences(memory: Tensor, slots: Tensor) -> Tensor:
    """Returns the features (B, K, ·) in the slots `slots` (B, K) of `memory`."""
    records = ops.take_along_axis(memory, ops.expand_dims(slots, 2), axis=1)
    return records[:, :, 1:]  # (B, K, ·)
