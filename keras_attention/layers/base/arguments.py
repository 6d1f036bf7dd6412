"""Constructor arguments: held to their rules, found by name, written to a config."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import keras

from keras_attention.numerics import normalizers


def positive(name: str, value: int) -> int:
    """Returns a whole number that is at least 1, or raises a ValueError."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < 1:
        rule = "at least 1" if whole else "a whole number"
        raise ValueError(
            f"The argument `{name}` must be {rule}. Received: {name}={value!r}"
        )
    return int(value)


def above_one(name: str, value: float) -> float:
    """Returns a number that is above 1, or raises a ValueError."""
    if value <= 1:
        raise ValueError(f"`{name}` must be above 1. Received: {name}={value}")
    return value


def fraction(name: str, value: float) -> float:
    """Refuses what no dropout can be.

    Raises:
        ValueError: if it is not at least 0 and below 1.
    """
    if not isinstance(value, Real) or not 0 <= value < 1:
        raise ValueError(
            f"`{name}` must be at least 0 and below 1. Received: {name}={value!r}"
        )
    return value


def only_of_models(name: str, keywords: dict[str, Any]) -> dict[str, Any]:
    """Returns a model's further keywords, or raises where Keras would drop them."""
    unknown = sorted(set(keywords) - {"name", "trainable"})
    if unknown:
        raise ValueError(
            f"`{name}` has no such argument. Received: "
            + ", ".join(f"{key}={keywords[key]!r}" for key in unknown)
        )
    return keywords


def clone_initializer(initializer: Any) -> Any:
    """A copy for one more weight, since Keras' own ones draw the same numbers twice."""
    if isinstance(initializer, keras.initializers.Initializer):
        return initializer.clone()
    return initializer


def resolve_normalizer(identifier: Any) -> Any:
    """A normalizer's name, or the callable itself, from either or its config."""
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    normalizers.get(identifier)
    return identifier


def serialize_normalizer(normalizer: Any) -> Any:
    """What a config holds of a normalizer: its name, or where to find the callable."""
    if callable(normalizer):
        return keras.saving.serialize_keras_object(normalizer)
    return normalizer


def policy_config(layer: keras.layers.Layer) -> dict[str, Any]:
    """What a config holds of a layer's dtype: its policy, and those within it.

    `quantize` changes the policies of sublayers, of which the layer that is made from a
    config would else know nothing, and could not load their weights. Their paths begin
    at the layer, which may get another name.
    """
    policies = keras.dtype_policies
    policy, changed = layer.dtype_policy, {}
    if isinstance(policy, policies.DTypePolicyMap):
        policy, changed = policy.default_policy, dict(policy)
    for part in layer._flatten_layers(include_self=False):
        if part.path is not None and part.quantization_mode is not None:
            own = part.dtype_policy
            mapped = isinstance(own, policies.DTypePolicyMap)
            own = own[part.path] if mapped else own
            changed[part.path.removeprefix(f"{layer.path}/")] = own
    if changed:
        policy = policies.DTypePolicyMap(policy, changed)
    return policies.serialize(policy)


def policy_of(layer: keras.layers.Layer, name: str) -> Any:
    """The dtype policy of the part of this name, for a layer that is being built.

    Of a map it is what stands there for the part's path, from the layer on or, as Keras
    has it, from the outermost layer on.
    """
    policy = layer.dtype_policy
    if not isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        return policy
    return policy[name] if name in policy else policy[f"{layer.path}/{name}"]


def hand_down(layer: keras.layers.Layer, part: keras.layers.Layer) -> None:
    """Gives a part that has parts what the layer's map of policies holds for them."""
    policy, policies = layer.dtype_policy, keras.dtype_policies
    if part.built or not isinstance(policy, policies.DTypePolicyMap):
        return
    start = f"{part.name}/"
    inner = {k.removeprefix(start): v for k, v in policy.items() if k.startswith(start)}
    if inner:
        own = part.dtype_policy
        mapped = isinstance(own, policies.DTypePolicyMap)
        part.dtype_policy = policies.DTypePolicyMap(
            own.default_policy if mapped else own, inner
        )
