"""Checks that a layer can be used as another layer wants to use it."""

from __future__ import annotations

from typing import Any

import keras

Tensor = Any


def check_usable(layer: keras.layers.Layer, method: str, tensor: Tensor) -> None:
    """Raises a RuntimeError if the layer is not built or the tensor is symbolic."""
    if not layer.built:
        raise RuntimeError(
            f"`{method}` needs a layer that is built: call or build layer "
            f"{layer.name!r} first, or its weights would have no owner."
        )
    if isinstance(tensor, keras.KerasTensor):
        raise RuntimeError(
            f"`{method}` is for use inside a layer's `call`; on symbolic tensors "
            f"the weights of layer {layer.name!r} would be left out of the model. "
            "Call the layer instead."
        )


def check_learns_by_output(attention: Any, name: str = "attention") -> None:
    """Raises a ValueError if an attention layer learns only by its returned weights.

    Models that do not use these weights call this function.

    Args:
        attention: an attention layer, as returned by `as_attention`.
        name: the name of the argument, for the error message.
    """
    if attention.learns_by_weights:
        raise ValueError(
            f"`{name}` must learn by its output. Layer {attention.name!r} learns by "
            "the weights that it returns, if they reach a `CarryChoices`. Here they do "
            f"not, so it would never learn. Received: {name}={attention!r}"
        )
