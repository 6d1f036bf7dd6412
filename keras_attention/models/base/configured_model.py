"""The base class of functional models: arguments and config."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.layers.base.arguments import check_model_keywords
from keras_attention.layers.base.quantization import (
    QUANTIZED,
    quantize_parts,
    quantized_parts,
)
from keras_attention.layers.base.serialization import (
    argument_names,
    arguments_of,
    as_config,
    from_entries,
)


class ConfiguredModel(keras.Model):
    """Base class of functional models that saves the arguments of the constructor.

    Args:
        inputs: the symbolic inputs of the graph.
        outputs: the symbolic outputs of the graph.
        arguments: `locals()` of the constructor. Its entries that are arguments of the
            constructor become attributes and entries of the config. If the graph
            contains only copies of a layer, the config of the layer is stored instead.

    The config of each layer is taken before training, because `quantize` changes it.
    """

    def __init__(self, inputs: Any, outputs: Any, arguments: dict[str, Any]) -> None:
        own, dtype = arguments["__class__"], arguments["dtype"]
        more = check_model_keywords(own.__name__, arguments["kwargs"])
        super().__init__(inputs=inputs, outputs=outputs, **more)
        if dtype is not None:
            self.dtype_policy = keras.dtype_policies.get(dtype)
        parts = {id(layer) for layer in self._flatten_layers()}
        self._layer_configs = {}
        for name in argument_names(type(self)):
            if not isinstance(getattr(type(self), name, None), property):
                value = arguments[name]
                if id(value) in parts:
                    self._layer_configs[name] = as_config(value)
                elif isinstance(value, (keras.layers.Layer, dict, list)):
                    value = as_config(value)
                setattr(self, name, value)

    def get_config(self) -> dict[str, Any]:
        arguments = {**arguments_of(self), **as_config(self._layer_configs)}
        config = {**super().get_config(), **arguments}
        found = quantized_parts(self)
        return {**config, QUANTIZED: found} if found else config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        arguments = {k: v for k, v in config.items() if k != QUANTIZED}
        model = cls(**from_entries(arguments))
        quantize_parts(model, config.get(QUANTIZED, []))
        return model
