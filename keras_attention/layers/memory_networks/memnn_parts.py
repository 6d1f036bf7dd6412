"""What `FactFinder` and `WordResponder` share.

Shapes: B batch, M memory slots, D width, K hops, V words of the vocabulary; "·" stands
for the features of a sentence, or the fields of a record.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.memory_networks.sentence_encoder import (
    SentenceEncoder,
)

Tensor = Any


def block(layer: Any, name: str) -> SentenceEncoder:
    """One version of all features: a block of U that turns sentences into sums."""
    return SentenceEncoder(
        layer.features,
        layer.embedding_dim,
        "bag",
        dtype=layer.dtype_policy,
        name=name,
    )


def found_blocks(layer: Any, hops: int) -> list[SentenceEncoder]:
    """The versions of what has been found: one for each hop, or one for all."""
    versions = hops if layer.hop_versions else min(hops, 1)
    return [block(layer, f"found_{hop}") for hop in range(versions)]


def hidden_layer(layer: Any) -> keras.layers.Dense:
    """W of tanh(W tanh(U Φ) + b)."""
    return keras.layers.Dense(
        layer.embedding_dim,
        activation="tanh",
        dtype=layer.dtype_policy,
        name="map",
    )


def sentences(memory: Tensor, slots: Tensor) -> Tensor:
    """The features (B, K, ·) that stand in some slots (B, K) of the memory."""
    records = ops.take_along_axis(memory, slots[:, :, None], axis=1)
    return records[:, :, 1:]  # (B, K, ·)
