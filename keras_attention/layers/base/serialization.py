"""Registers public classes for loading, and writes and reads their configs."""

from __future__ import annotations

import copy
import inspect
import itertools
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, TypeVar

import keras

from keras_attention.layers.base.checked import Checked

T = TypeVar("T")
Entry = dict[str, Any]
QUANTIZED = "quantized"  # the key of the quantized sublayers in a config
# Registers a class as `keras_attention>ClassName`, part of the file format.
export: Callable[[T], T] = keras.saving.register_keras_serializable("keras_attention")


class Configured(Checked):
    """Mixin, before Keras' class, that writes and reads the config of a layer.

    Each argument of the constructor must be an attribute of the same name. A class that
    stores an argument differently overrides `get_config`. The config also lists the
    quantized sublayers, which a layer made from it quantizes after its `build`.
    """

    _to_quantize: tuple[Entry, ...] = ()  # after `build`

    def get_config(self: Any) -> dict[str, Any]:
        base: Any = super()
        config = {**base.get_config(), **arguments_of(self)}
        entries = [dict(e) for e in self._to_quantize] or quantized_parts(self)
        return {**config, QUANTIZED: entries} if entries else config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        base: Any = super()
        entries = {k: v for k, v in config.items() if k != QUANTIZED}
        layer = base.from_config(from_entries(entries))
        if QUANTIZED in config:
            layer._to_quantize = tuple(config[QUANTIZED])
        return layer

    def _post_build(self: Any) -> None:
        if self._to_quantize:
            entries, self._to_quantize = self._to_quantize, ()
            quantize_parts(self, entries)
        base: Any = super()
        base._post_build()


def arguments_of(layer: Any) -> dict[str, Any]:
    """Returns the config entries of the arguments of a layer or a model."""
    names = argument_names(type(layer))
    entries = {name: as_config(getattr(layer, name)) for name in names}
    return {**_added_arguments(layer, names), **entries}


def argument_names(cls: type) -> list[str]:
    """Returns the arguments, except `dtype`, of a class or its base in this package."""
    ours = next(c for c in cls.__mro__ if is_ours(c))
    return [name for name in _parameters(ours) if name != "dtype"]


def _added_arguments(layer: Any, names: list[str]) -> dict[str, Any]:
    """Returns the config entries of the arguments that a user's subclass adds.

    A subclass that defines `get_config` adds its entries itself. Otherwise, the entries
    come from the plain values that Keras records, or from attributes of the same name.
    """
    cls = type(layer)
    added = list(itertools.takewhile(lambda c: not is_ours(c), cls.__mro__))
    if not added or any("get_config" in vars(c) for c in added):
        return {}
    recorded = getattr(layer, "_auto_config", None)
    plain = {} if recorded is None else recorded.config
    entries = {}
    for name in _parameters(cls):
        if name in names or name in ("dtype", "name", "trainable"):
            continue
        if name in plain:
            entries[name] = plain[name]
        elif hasattr(layer, name):
            entries[name] = as_config(getattr(layer, name))
        else:
            raise TypeError(
                f"{cls.__name__} must define `get_config`, or store its argument "
                f"`{name}` as an attribute of this name. Received: {layer!r}"
            )
    return entries


def is_ours(cls: type) -> bool:
    """Returns whether a class is defined in this package."""
    return cls.__module__.startswith("keras_attention.")


def _parameters(cls: Any) -> list[str]:
    """Returns the names of the constructor's arguments, except `*` and `**`."""
    parameters = inspect.signature(cls.__init__).parameters.values()
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.name != "self" and p.kind not in variable]


def as_config(value: Any) -> Any:
    """Returns the config entry of an argument; plain values stay unchanged."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {name: as_config(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        items = [as_config(entry) for entry in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, FunctionType):
        name = value.__name__
        if getattr(keras.activations, name, None) is value:
            return name
    config = keras.saving.serialize_keras_object(value)
    if isinstance(value, keras.layers.Layer):
        config.pop("build_config", None)  # the outer layer builds the layer
    return config


def from_entries(config: Any) -> Any:
    """Returns a config with new objects for all but `dtype`, which Keras reads."""
    config = copy.deepcopy(config)  # Keras' stack of cells modifies its config
    return {k: v if k == "dtype" else _from_entry(v) for k, v in config.items()}


def _from_entry(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_entry(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "class_name" in value and "config" in value:
        made: Any = keras.saving.deserialize_keras_object(value)
        is_layer = isinstance(made, keras.layers.Layer)
        if is_layer and value["config"].get("trainable") is False and made.trainable:
            made.trainable = False  # `Sequential.from_config` ignores this entry
        return made
    return {name: _from_entry(entry) for name, entry in value.items()}


def quantized_parts(owner: keras.layers.Layer) -> list[Entry]:
    """Returns one config entry for each quantized sublayer, named by its index.

    Its name and its path may differ in another process.
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
    """Quantizes the sublayers of a built layer or model that the entries name.

    Only then can it load the integer weights of a file.
    """
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
