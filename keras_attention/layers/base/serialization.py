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
