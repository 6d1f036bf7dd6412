"""Calls the methods of Keras' layer that a subclass may override.

An override of `_compute_attention` may have the signature of an older Keras.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, NoReturn

Tensor = Any

# The options of `_compute_attention` that an override may lack.
OPTIONS = ("return_attention_scores", "use_causal_mask", "bias", "dropout_mask")


def options_of(method: Callable) -> frozenset[str]:
    """Returns the options that a `_compute_attention` takes."""
    found = signature(method).parameters
    takes_all = any(option.kind is option.VAR_KEYWORD for option in found.values())
    return frozenset(OPTIONS) if takes_all else frozenset(OPTIONS) & {*found}


def compute_attention(
    layer: Any, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """Calls `_compute_attention` of a layer with the options that it takes.

    Args:
        layer: a `HeadsAttention`.
        query: (B, T, H, E).
        key: (B, S, G, E).
        value: (B, S, G, V).
        *rest: the mask, and whether the layer is in training mode.
        **options: options among `OPTIONS`.

    Raises:
        ValueError: if an override does not take an option that changes the output.
    """
    if len(layer._hook_options) < len(OPTIONS):
        for name in {*options} - layer._hook_options:
            wanted = options.pop(name)
            if name == "return_attention_scores" or wanted is None or wanted is False:
                continue
            method = layer._compute_attention
            raise ValueError(
                f"`_compute_attention` of {type(layer).__name__} must take the "
                f"argument `{name}`, which this call of layer {layer.name!r} needs. "
                f"Received: _compute_attention{signature(method)}"
            )
    return layer._compute_attention(query, key, value, *rest, **options)


def refuse_mask_hook(layer: Any) -> NoReturn:
    """Raises a ValueError for a layer that overrides `_compute_attention_mask`."""
    raise ValueError(
        f"Layer {layer.name!r} cannot attend to a prepared memory, or step by step: "
        "its `_compute_attention_mask` is overridden, and needs all positions of a "
        "call. Call the layer, or pass `attention_mask`. "
        f"Received: {type(layer).__name__}"
    )
