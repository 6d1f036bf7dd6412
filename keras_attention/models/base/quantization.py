"""Models whose sublayers were quantized, through a config and back.

`model.quantize("int8")` gives each sublayer that has `quantize` integers as weights. A
model that makes its sublayers anew from a config, as ours do, has to quantize them
again before integers can be loaded into them.
"""

from __future__ import annotations

from collections.abc import Callable
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
            # Keras before 3.13 knows the mode alone.
            "config": keras.saving.serialize_keras_object(
                getattr(layer, "quantization_config", None)
            ),
        }
        for layer in model._flatten_layers(include_self=False)
        if layer.quantization_mode is not None
    }
    return {**config, KEY: found} if found else config


def rebuild(
    cls: type, config: dict[str, Any], deserialize: Callable[[dict], dict]
) -> keras.Model:
    """A model from what `write` returned: quantized as that one was.

    Args:
        cls: its class.
        config: what `write` returned.
        deserialize: from a config to what the constructor takes.
    """
    found = config.get(KEY, {})
    model = cls(**deserialize({k: v for k, v in config.items() if k != KEY}))
    for layer in model._flatten_layers(include_self=False):
        if layer.path in found:
            one = found[layer.path]
            config = keras.saving.deserialize_keras_object(one["config"])
            more = {} if config is None else {"config": config}
            layer.quantize(one["mode"], **more)
    return model
