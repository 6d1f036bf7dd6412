"""Models whose sublayers were quantized, through a config and back.

`model.quantize("int8")` gives each sublayer that has `quantize` integers as weights. A
model that makes its sublayers anew from a config, as ours do, has to quantize them
again before integers can be loaded into them.
"""

from __future__ import annotations

from typing import Any

import keras

KEY = "quantized"


def write(model: keras.Model, config: dict[str, Any]) -> dict[str, Any]:
    """A model's config, and which of its sublayers are quantized, if any are.

    Args:
        model: a built one.
        config: what its constructor takes.
    """
    found = {
        layer.path: {
            "mode": layer.quantization_mode,
            "config": keras.saving.serialize_keras_object(layer.quantization_config),
        }
        for layer in model._flatten_layers(include_self=False)
        if layer.quantization_mode is not None
    }
    return {**config, KEY: found} if found else config


def read(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A config without what `write` put into it, and that."""
    found = config.get(KEY, {})
    return {name: one for name, one in config.items() if name != KEY}, found


def apply(model: keras.Model, found: dict[str, Any]) -> Any:
    """Quantizes the sublayers that `write` found, and returns the model.

    Args:
        model: one that was made of the same config; its weights are still to come.
        found: what `read` returned.
    """
    for layer in model._flatten_layers(include_self=False):
        if layer.path in found:
            one = found[layer.path]
            config = keras.saving.deserialize_keras_object(one["config"])
            layer.quantize(one["mode"], config=config)
    return model
