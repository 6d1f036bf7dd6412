"""How a public class becomes loadable, and what a config holds of a held layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import keras

T = TypeVar("T")


def export(cls: type[T]) -> type[T]:
    """Registers a class as `keras_attention>ClassName` in `.keras` files.

    The registered names are part of the file format: they never change.
    """
    register: Callable = keras.saving.register_keras_serializable("keras_attention")
    return register(cls)


def layer_config(layer: Any) -> dict[str, Any]:
    """A layer's config; whoever is made from it builds it, under its own name."""
    config = keras.saving.serialize_keras_object(layer)
    config.pop("build_config", None)
    return config


def as_config(value: Any) -> Any:
    """What a config holds of an argument: numbers and names as they are."""
    if value is None or isinstance(value, (bool, int, float, str, dict)):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(as_config(one) for one in value)
    if isinstance(value, keras.layers.Layer):
        return layer_config(value)
    return keras.saving.serialize_keras_object(value)


def config_of(layer: Any, *names: str) -> dict[str, Any]:
    """What a config holds of a layer's arguments, which are its attributes."""
    return {name: as_config(getattr(layer, name)) for name in names}
