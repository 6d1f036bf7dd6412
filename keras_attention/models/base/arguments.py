"""Constructor arguments of models: validation, attributes and config."""

from __future__ import annotations

from inspect import signature
from typing import Any

import keras

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import as_config


def check_sizes(**sizes: int) -> None:
    """Raises a ValueError unless all sizes are integers of at least 1."""
    for name, size in sizes.items():
        positive(name, size)


def set_arguments(model: keras.Model, dtype: Any, **arguments: Any) -> None:
    """Stores the constructor arguments as attributes of the model, for its config.

    Args:
        model: a model after its graph is built.
        dtype: its dtype policy; None for the global policy of Keras.
        **arguments: all other arguments.
    """
    if dtype is not None:
        model.dtype_policy = keras.dtype_policies.get(dtype)
    for name, value in arguments.items():
        setattr(model, name, value)


def config_of(model: keras.Model) -> dict[str, Any]:
    """Returns the config of a model, from the attributes of its arguments."""
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
    """Deserializes the named layers in a config."""
    found = {
        name: keras.saving.deserialize_keras_object(config[name])
        for name in names
        if isinstance(config.get(name), dict)
    }
    return {**config, **found}
