"""Registers public classes for loading, and serializes sublayers in configs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import keras

T = TypeVar("T")


def export(cls: type[T]) -> type[T]:
    """Registers a class as `keras_attention>ClassName` in `.keras` files.

    The registered names are part of the file format and never change.
    """
    register: Callable = keras.saving.register_keras_serializable("keras_attention")
    return register(cls)


def layer_config(layer: Any) -> dict[str, Any]:
    """Returns a layer's config without shapes; the outer layer builds the layer."""
    config = keras.saving.serialize_keras_object(layer)
    config.pop("build_config", None)
    return config


def as_config(value: Any) -> Any:
    """Returns the config entry of an argument; numbers and names stay unchanged."""
    if value is None or isinstance(value, (bool, int, float, str, dict)):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(as_config(one) for one in value)
    if isinstance(value, keras.layers.Layer):
        return layer_config(value)
    return keras.saving.serialize_keras_object(value)


def config_of(layer: Any, *names: str) -> dict[str, Any]:
    """Returns the config of a layer's arguments, read from its attributes."""
    return {name: as_config(getattr(layer, name)) for name in names}
