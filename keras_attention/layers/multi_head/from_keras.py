"""Converts the arguments and weights of Keras' attention layers."""

from __future__ import annotations

from typing import Any

import keras

GROUPED = {
    "head_dim": "key_dim",
    "num_query_heads": "num_heads",
    "num_key_value_heads": "num_key_value_heads",
}


def arguments_of(layer: Any) -> dict[str, Any]:
    """Returns the arguments that make our `MultiHeadAttention` equal to `layer`.

    Args:
        layer: a `keras.layers.MultiHeadAttention` or
            `keras.layers.GroupQueryAttention`.

    Raises:
        ValueError: for any other layer, including subclasses.
    """
    kinds = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)
    if type(layer) not in kinds:
        subclass = ", a subclass, whose changes would be lost" * isinstance(
            layer, kinds
        )
        raise ValueError(
            "`layer` must be a keras.layers.MultiHeadAttention or "
            "keras.layers.GroupQueryAttention. "
            f"Received: layer={layer!r}{subclass}"
        )
    config = layer.get_config()
    if isinstance(layer, keras.layers.MultiHeadAttention):
        return config
    return {GROUPED.get(name, name): given for name, given in config.items()}


def take_weights(made: Any, layer: Any) -> None:
    """Builds our layer for the shapes of a Keras layer, and copies the weights.

    Args:
        made: our layer, created with the result of `arguments_of`.
        layer: the layer of Keras. If it is not built, the function does nothing.

    Raises:
        ValueError: if a projection has weights other than kernel and bias, as after
            `enable_lora` or `quantize`.
    """
    if not layer.built:
        return
    shapes = layer.get_build_config()
    made.build(**shapes["shapes_dict"])
    given, wanted = layer.get_weights(), [tuple(w.shape) for w in made.weights]
    if [w.shape for w in given] != wanted:
        raise ValueError(
            "`layer` must hold a kernel and a bias for each projection: take it over "
            "before `enable_lora` or `quantize`. "
            f"Received: weights of shapes {[w.shape for w in given]}, not {wanted}"
        )
    made.set_weights(given)
