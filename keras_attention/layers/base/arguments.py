"""Checks constructor arguments, resolves names, and writes configs."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable
from numbers import Integral, Real
from typing import Any

import keras
import numpy as np

from keras_attention.numerics import normalizers


def natural(name: str, value: Any) -> int:
    """Returns `value` as an integer of at least 0, or raises a ValueError."""
    return positive(name, value, 0)


def positive(name: str, value: Any, least: int = 1) -> int:
    """Returns `value` as an integer of at least `least`, or raises a ValueError."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < least:
        rule = f"at least {least}" if whole else "a whole number"
        raise ValueError(
            f"The argument `{name}` must be {rule}. Received: {name}={value!r}"
        )
    return int(value)


def integers(name: str, value: Any) -> tuple[int, ...] | None:
    """Returns one or several integers as a tuple, or raises a ValueError."""
    if value is None:
        return None
    items = (value,) if isinstance(value, Integral) else value
    listed = isinstance(items, (list, tuple))
    if not listed or not all(isinstance(n, Integral) for n in items):
        raise ValueError(
            f"Invalid `{name}`: it must be an integer or a list or tuple of integers. "
            f"Received: {name}={value!r}"
        )
    return tuple(int(n) for n in items)


def number(
    name: str, value: float, least: float = -math.inf, above: float | None = None
) -> float:
    """Returns `value` if it is a number in this range, or raises a ValueError."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or math.isnan(value):
        raise ValueError(f"`{name}` must be a number. Received: {name}={value!r}")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}. Received: {name}={value}")
    if above is not None and value <= above:
        raise ValueError(f"`{name}` must be above {above}. Received: {name}={value}")
    return value.item() if isinstance(value, np.generic) else value


def one_of(name: str, value: Any, choices: Collection) -> Any:
    """Returns `value` if it is one of the choices, or raises a ValueError."""
    if not isinstance(value, Hashable) or value not in choices:
        raise ValueError(
            f"`{name}` must be one of {list(choices)}. Received: {name}={value!r}"
        )
    return value


def check_shape(
    name: str, shape: Any, *forms: str, what: str = "shape", known_width: bool = False
) -> tuple:
    """Returns a shape; raises a ValueError for another rank than that of the forms.

    A form is the text of a shape, such as "(batch, length, width)".
    """
    shape = tuple(shape)
    has_rank = len(shape) in [form.count(",") + 1 for form in forms]
    if not has_rank or (known_width and shape[-1] is None):
        raise ValueError(
            f"`{name}` must have {what} {' or '.join(forms)}. "
            f"Received: {name}.shape={shape}"
        )
    return shape


def fraction(name: str, value: float) -> float:
    """Returns a rate in [0, 1), or raises a ValueError."""
    if not isinstance(value, Real) or not 0 <= value < 1:
        raise ValueError(
            f"`{name}` must be at least 0 and below 1. Received: {name}={value!r}"
        )
    return value


def check_model_keywords(name: str, keywords: dict[str, Any]) -> dict[str, Any]:
    """Returns the extra keywords of a model; raises a ValueError for unknown ones."""
    unknown = sorted(set(keywords) - {"name", "trainable"})
    if unknown:
        raise ValueError(
            f"`{name}` has no such argument. Received: "
            + ", ".join(f"{key}={keywords[key]!r}" for key in unknown)
        )
    return keywords


def clone_initializer(initializer: Any) -> Any:
    """Clones an initializer; a reused one would give two weights the same values."""
    if isinstance(initializer, keras.initializers.Initializer):
        return initializer.clone()
    return initializer


def resolve_normalizer(identifier: Any) -> Any:
    """Returns the name or the callable of a normalizer; deserializes a config."""
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    normalizers.get(identifier)
    return identifier


def policy_of(layer: keras.layers.Layer, name: str) -> Any:
    """Returns the dtype policy for the sublayer `name` of a layer that is being built.

    A `DTypePolicyMap` is searched for the path of the sublayer. The path may start at
    this layer or, as in Keras, at the outermost layer.
    """
    policy = layer.dtype_policy
    if not isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        return policy
    return policy[name] if name in policy else policy[f"{layer.path}/{name}"]


def pass_on_policies(layer: keras.layers.Layer, part: keras.layers.Layer) -> None:
    """Passes the entries of a layer's `DTypePolicyMap` on to a nested sublayer."""
    policy, policies = layer.dtype_policy, keras.dtype_policies
    if part.built or not isinstance(policy, policies.DTypePolicyMap):
        return
    start = f"{part.name}/"
    inner = {k.removeprefix(start): v for k, v in policy.items() if k.startswith(start)}
    if inner:
        default = part.dtype_policy
        if isinstance(default, policies.DTypePolicyMap):
            default = default.default_policy
        part.dtype_policy = policies.DTypePolicyMap(default, inner)
