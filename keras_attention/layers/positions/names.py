"""Positions by name."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.layers.positions.alibi_bias import AlibiBias
from keras_attention.layers.positions.position import Position
from keras_attention.layers.positions.relative_position_bias import RelativePositionBias
from keras_attention.layers.positions.rotary_embedding import RotaryEmbedding

NAMES: dict[str, type[Position]] = {
    "rotary": RotaryEmbedding,
    "alibi": AlibiBias,
    "relative": RelativePositionBias,
}


def get(identifier: Any, dtype: Any = None) -> Position | None:
    """Returns the position for a name, a config, a `Position` or None."""
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if identifier is None or isinstance(identifier, Position):
        return identifier
    if isinstance(identifier, str) and identifier in NAMES:
        return NAMES[identifier](dtype=dtype, name=identifier)
    raise ValueError(
        f"`position` must be one of {sorted(NAMES)} or a layer RotaryEmbedding, "
        "AlibiBias or RelativePositionBias (sine waves and learned embeddings are "
        f"added to the inputs instead). Received: position={identifier!r}"
    )
