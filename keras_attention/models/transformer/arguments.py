"""The constructor arguments of a Transformer: their rules, and what a config holds."""

from __future__ import annotations

from inspect import signature
from typing import Any

import keras

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import layer_config
from keras_attention.models.base import quantization

# Those that may hold layers.
OF_LAYERS = ("position", "block", "attention", "cross_attention")


def check_sizes(**sizes: int) -> None:
    """Raises a ValueError unless all are whole numbers of at least 1."""
    for name, size in sizes.items():
        positive(name, size)


def set_arguments(model: keras.Model, dtype: Any, **arguments: Any) -> None:
    """Gives a model its constructor's arguments as attributes, for its config.

    Args:
        model: one that has its graph.
        dtype: its policy, or None for that of Keras.
        **arguments: all others. Layers among them become configs: the model has copies
            of its own.
    """
    if dtype is not None:
        model.dtype_policy = keras.dtype_policies.get(dtype)
    for name, value in arguments.items():
        setattr(model, name, _serialize(value))


def config_of(model: keras.Model) -> dict[str, Any]:
    """A model's config: its constructor's arguments, and what of it is quantized."""
    config = {
        "name": model.name,
        "trainable": model.trainable,
        "dtype": keras.dtype_policies.serialize(model.dtype_policy),
    }
    for name in signature(type(model).__init__).parameters:
        if name not in ("self", "dtype", "kwargs"):
            config[name] = _serialize(getattr(model, name))
    return quantization.write(model, config)


def deserialize(config: dict[str, Any]) -> dict[str, Any]:
    """A model's config with the layers that some of its arguments may hold."""
    found = {
        name: keras.saving.deserialize_keras_object(config[name])
        for name in OF_LAYERS
        if isinstance(config.get(name), dict)
    }
    return {**config, **found}


def _serialize(value: Any) -> Any:
    """An argument, which may be or hold layers, for a config."""
    if isinstance(value, dict):
        return {name: _serialize(one) for name, one in value.items()}
    if isinstance(value, keras.layers.Layer):
        return layer_config(value)
    return keras.saving.serialize_keras_object(value) if callable(value) else value
