"""Recognizes attention layers of Keras and of users by their calls."""

from __future__ import annotations

from inspect import signature
from typing import Any

import keras

from keras_attention.layers.base.serialization import Configured


def takes_tensors(layer: Any) -> bool:
    """Returns whether a layer has the call of `keras.layers.MultiHeadAttention`."""
    if not _may_be_attention(layer):
        return False
    return {"query", "value", "key"} <= set(signature(layer.call).parameters)


def takes_list(layer: Any) -> bool:
    """Returns whether a layer has the call of `keras.layers.Attention`."""
    if isinstance(layer, keras.layers.Attention):
        return True
    if not _may_be_attention(layer):
        return False
    return {"mask", "return_attention_scores"} <= set(signature(layer.call).parameters)


def _may_be_attention(layer: Any) -> bool:
    """Returns whether `layer` is a Keras layer from outside this package.

    All layers of this package are subclasses of `Configured`.
    """
    return isinstance(layer, keras.layers.Layer) and not isinstance(layer, Configured)


def has_dropout(layer: keras.layers.Layer) -> bool:
    """Returns whether a layer or one of its sublayers has dropout."""
    return any(
        getattr(one, "seed_generator", None) is not None
        and (getattr(one, "rate", 0) or getattr(one, "dropout", 0))
        for one in layer._flatten_layers()
    )
