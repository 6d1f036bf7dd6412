"""Saving and loading of models with quantized sublayers.

`model.quantize("int8")` gives integer weights to each sublayer that supports it. A
model that creates its sublayers from a config must quantize them again before it can
load integer weights.
"""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.layers.base.serialization import from_entries

KEY = "quantized"


def write(model: keras.Model, config: dict[str, Any]) -> dict[str, Any]:
    """Returns a model's config, with the quantized sublayers if there are any.

    Args:
        model: a built model.
        config: the arguments of the model's constructor.
    """
    found = {
        layer.path: {
            "mode": layer.quantization_mode,
            # Before version 3.13, Keras supports only the mode.
            "config": keras.saving.serialize_keras_object(
                getattr(layer, "quantization_config", None)
            ),
        }
        for layer in model._flatten_layers(include_self=False)
        if layer.quantization_mode is not None
    }
    return {**config, KEY: found} if found else config


def rebuild(cls: type, config: dict[str, Any]) -> keras.Model:
    """Rebuilds a model, with its quantization, from the config written by `write`.

    Args:
        cls: the class of the model.
        config: the config returned by `write`.
    """
    found = config.get(KEY, {})
    model = cls(**from_entries({k: v for k, v in config.items() if k != KEY}))
    for layer in model._flatten_layers(include_self=False):
        if layer.path in found:
            one = found[layer.path]
            config = keras.saving.deserialize_keras_object(one["config"])
            more = {} if config is None else {"config": config}
            layer.quantize(one["mode"], **more)
    return model
