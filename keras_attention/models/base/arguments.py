"""A model's constructor arguments: checked, kept as attributes, written to a config."""

from __future__ import annotations

from inspect import signature
from typing import Any

import keras

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import as_config


def check_sizes(**sizes: int) -> None:
    """Raises a ValueError unless all are whole numbers of at least 1."""
    for name, size in sizes.items():
        positive(name, size)


def set_arguments(model: keras.Model, dtype: Any, **arguments: Any) -> None:
    """Gives a model its constructor's arguments as attributes, for its config.

    Args:
        model: one that has its graph.
        dtype: its policy, or None for that of Keras.
        **arguments: all others.
    """
    if dtype is not None:
        model.dtype_policy = keras.dtype_policies.get(dtype)
    for name, value in arguments.items():
        setattr(model, name, value)


def config_of(model: keras.Model) -> dict[str, Any]:
    """A model's config: its constructor's arguments, which are its attributes."""
    config = {
        "name": model.name,
        "trainable": model.trainable,
        "dtype": keras.dtype_policies.serialize(model.dtype_policy),
    }
    for name in signature(type(model).__init__).parameters:
        if name not in ("self", "dtype", "kwargs"):
            config[name] = as_config(getattr(model, name))
    return config


def with_layers(config: dict[str, Any], *names: str) -> dict[str, Any]:
    """A config with the layers of these names, where it holds their configs."""
    found = {
        name: keras.saving.deserialize_keras_object(config[name])
        for name in names
        if isinstance(config.get(name), dict)
    }
    return {**config, **found}
