"""Calls the methods of Keras' layer that a subclass may override.

A subclass may override the methods that `keras.layers.MultiHeadAttention` has in Keras
3.12 to 3.15. Each override is used as in Keras, or refused when the subclass is defined
(`INSTEAD`). An override of `_compute_attention` may have the signature of an older
Keras. Steps over a memory or a cache refuse overrides that they would leave out.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from itertools import chain, takewhile
from typing import Any

import keras
from keras import ops

from keras_attention.layers.multi_head.heads import as_boolean

Tensor = Any

# The options of `_compute_attention` that an override may lack.
OPTIONS = (
    "return_attention_scores",
    "use_causal_mask",
    "bias",
    "dropout_mask",
    "sliding_window",
)


# The methods whose overrides change how a layer computes.
HOOKS = (
    "call",
    "attend_from_state",
    "_compute_attention",
    "_compute_attention_mask",
    "_compute_causal_mask",
    "_compute_sliding_window_mask",
    "_masked_softmax",
)

# The methods of Keras' layer that a subclass must not override, and what to do instead.
_ARGUMENT = "pass the argument of this name to `super().__init__`"
_DENSE = "set the attribute `_{}` in `build`"
INSTEAD = {
    "_build_attention": "override `_compute_attention` for other scores or weights, "
    "`_masked_softmax` for another softmax, or `build` for further sublayers",
    **dict.fromkeys(("num_heads", "key_dim", "value_dim", "dropout"), _ARGUMENT),
    **dict.fromkeys(("use_bias", "output_shape", "attention_axes"), _ARGUMENT),
    **{
        name: _DENSE.format(name)
        for name in ("query_dense", "key_dense", "value_dense", "output_dense")
    },
}


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


def check_subclass(cls: type) -> None:
    """Checks the overrides of a subclass when it is defined.

    Raises:
        TypeError: if the subclass overrides a method of Keras' layer that a call does
            not use.
    """
    if is_ours(cls):
        return
    own = takewhile(lambda one: not is_ours(one), cls.__mro__)  # and its mixins
    for name in chain.from_iterable(map(vars, own)):
        instead = INSTEAD.get(name)
        if name in vars(keras.layers.MultiHeadAttention) and not _exists(cls, name):
            instead = "override `_compute_attention` or `call`"
        if instead is not None:
            raise TypeError(
                f"A subclass must not override `{name}`, which a call of this layer "
                f"does not use: {instead}. Received: class {cls.__name__}"
            )


def overridden(cls: type) -> frozenset[str]:
    """Returns the names among `HOOKS` that a subclass outside this package defines."""
    return frozenset(name for name in HOOKS if not is_ours(_definer(cls, name)))


def parts_of(layer: Any) -> tuple:
    """Returns what `_build_attention` has set, for comparison."""
    softmax = layer._softmax
    axes = getattr(softmax, "axis", None)
    equations = layer._dot_product_equation, layer._combine_equation
    return (*equations, type(softmax), None if axes is None else str(axes))


def checked_mask(layer: Any, mask: Tensor | None) -> Tensor | None:
    """Returns the mask of a subclass as booleans, after a check of its attributes.

    Raises:
        ValueError: if the subclass has replaced the equations or the softmax, which the
            layer does not use; or if the mask has values other than 0 and 1.
    """
    if parts_of(layer) != layer._parts:
        raise ValueError(
            "`_dot_product_equation`, `_combine_equation` and `_softmax` must stay as "
            "`_build_attention` sets them: override `_compute_attention` for other "
            "equations, and `_masked_softmax` for another softmax. Received: "
            f"{parts_of(layer)} in place of {layer._parts} in layer {layer.name!r} of "
            f"class {type(layer).__name__}"
        )
    mask = as_boolean("attention_mask", mask)
    if mask is not None and len(mask.shape) == 2:
        mask = ops.expand_dims(mask, 0)  # (1, T, S)
    return mask


def check_steps(layer: Any, is_causal: bool = False) -> None:
    """Checks that steps over a memory or a cache leave no override out.

    Args:
        layer: a `HeadsAttention`.
        is_causal: whether the steps apply the causal mask.

    Raises:
        ValueError: if the layer overrides `call` or a mask that the steps need.
    """
    names = {"call", "_compute_attention_mask"}
    if is_causal:
        names.add("_compute_causal_mask")
    if layer.sliding_window is not None:
        names.add("_compute_sliding_window_mask")
    left_out = names & layer._overridden
    if not left_out or "attend_from_state" in layer._overridden:
        return
    raise ValueError(
        f"Layer {layer.name!r} cannot attend to a prepared memory, or step by step: "
        f"its `{min(left_out)}` is overridden, and needs all positions of a call. "
        "Call the layer, and pass other masks as `attention_mask`, or define "
        f"`attend_from_state`. Received: {type(layer).__name__}"
    )


def is_ours(cls: type) -> bool:
    """Returns whether a class is defined in this package."""
    return cls.__module__.startswith("keras_attention.")


def _definer(cls: type, name: str) -> type:
    return next(c for c in cls.__mro__ if name in vars(c))


def _exists(cls: type, name: str) -> bool:
    """Returns whether a base class in this package, or of Keras, has a method."""
    return any(hasattr(base, name) for base in cls.__bases__)
