"""Saving and loading of layers and models with quantized sublayers.

`quantize("int8")` of a model gives integer weights to each sublayer that supports it. A
layer that creates its sublayers from a config must quantize them again, before it can
load integer weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras

QUANTIZED = "quantized"  # the key in the config
Entry = dict[str, Any]


def quantized_parts(owner: keras.layers.Layer) -> list[Entry]:
    """Returns one config entry for each quantized sublayer of a layer or a model.

    The index of a sublayer identifies it, because its name and its path may differ in
    another process.
    """
    return [
        {
            "index": index,
            "mode": part.quantization_mode,
            # Before version 3.13, Keras supports only the mode.
            "config": keras.saving.serialize_keras_object(
                getattr(part, "quantization_config", None)
            ),
        }
        for index, part in enumerate(_parts(owner))
        if part.quantization_mode is not None
    ]


def quantize_parts(owner: keras.layers.Layer, entries: Iterable[Entry]) -> None:
    """Quantizes the sublayers of a built layer or model that the entries name."""
    parts = _parts(owner)
    for entry in entries:
        part, config = parts[entry["index"]], entry["config"]
        if part.quantization_mode is None:  # an inner layer may have done it
            if isinstance(config, dict):
                config = keras.saving.deserialize_keras_object(config)
            part.quantize(entry["mode"], **({"config": config} if config else {}))
    for part in parts:
        part._post_build()  # torch forgets the earlier weights


def _parts(owner: keras.layers.Layer) -> list[keras.layers.Layer]:
    return list(owner._flatten_layers(include_self=False))
