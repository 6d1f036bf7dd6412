"""The parts that `FactFinder` and `WordResponder` share.

Shapes: B batch, M memory slots, D width, K hops, V words of the vocabulary. "·" is the
number of features of a sentence or of fields of a record.
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
