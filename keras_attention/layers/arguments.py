"""Constructor arguments: held to their rules, found by name, written to a config."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.ops import normalizers


def positive(name: str, value: int) -> int:
    """Returns a size that is at least 1, or raises a ValueError."""
    if value < 1:
        raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}")
    return value


def clone_initializer(initializer: Any) -> Any:
    """A copy for one more weight, since Keras' own ones draw the same numbers twice."""
    if isinstance(initializer, keras.initializers.Initializer):
        return initializer.clone()
    return initializer


def resolve_normalizer(identifier: Any) -> Any:
    """A normalizer's name, or the callable itself, from either or its config."""
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    normalizers.get(identifier)
    return identifier


def serialize_normalizer(normalizer: Any) -> Any:
    """What a config holds of a normalizer: its name, or where to find the callable."""
    if callable(normalizer):
        return keras.saving.serialize_keras_object(normalizer)
    return normalizer
