"""Access to private names of Keras, and workarounds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import keras
import numpy as np
from keras import ops
from keras.src.backend.common.global_state import (
    get_global_attribute,
    set_global_attribute,
)
from keras.src.tree import register_tree_node_class

Tensor = Any
# The module of Keras' exporters, which has no public name.
EXPORTERS = keras.export.ExportArchive.__module__.rpartition(".")[0]


# Whether a call takes `training`, as `keras.layers.RNN` asks; there is no public name.
takes_training = attrgetter("_call_has_training_arg")


def register_structure(cls: Any) -> None:
    """Makes Keras walk the arrays of instances of a class with `tree_flatten`."""
    # On torch, Keras asks for other names.
    cls.torchtree_flatten, cls.torchtree_flatten_with_keys = cls.tree_flatten, None
    cls.torchtree_unflatten = lambda x, fixed: cls.tree_unflatten(fixed, x)
    register_tree_node_class(cls)  # there is no public name


def in_layer_call() -> bool:
    """Returns whether this code runs inside the call of a Keras layer."""
    return get_global_attribute("current_call_ctx") is not None  # no public name


def carried_mask(x: Any) -> Any:
    """Returns the mask that Keras attached to a tensor, or None."""
    return getattr(x, "_keras_mask", None)  # Keras passes the mask only to `call`


def mask_loser(x: Any) -> Any:
    """Returns the layer before a symbolic sequence that drops its mask, or None."""
    while (history := getattr(x, "_keras_history", None)) and carried_mask(x) is None:
        layer, shape = history.operation, x.shape[:2]  # there are no public names
        x = next(iter(layer._inbound_nodes[history.node_index].input_tensors), None)
        is_layer = isinstance(layer, keras.layers.Layer)
        if not is_layer or x is None or x.shape[:2] != shape:
            return None
        if carried_mask(x) is not None and not layer.supports_masking:
            return layer
    return None


def cast_with_mask(x: Any, dtype: str) -> Tensor:
    """Casts a tensor and keeps the mask that Keras attached to it."""
    y, mask = ops.cast(x, dtype), carried_mask(x)
    if mask is not None:
        y._keras_mask = mask
    return y


def stable_argsort(x: Tensor) -> Tensor:
    """Computes a stable `argsort`; NumPy needs an explicit option for it."""
    x = ops.convert_to_tensor(x)
    if isinstance(x, np.ndarray):
        return np.argsort(x, axis=-1, kind="stable").astype("int32")
    return ops.argsort(x, axis=-1)


@contextmanager
def without_initial_values() -> Iterator[None]:
    """On JAX, creates variables without initial values, which are assigned later.

    JAX compiles a program for each shape of a random initial value. Small models take 5
    to 15 seconds for that.
    """
    if keras.config.backend() != "jax":
        yield
        return
    # The end of any such context initializes the variables of this list.
    name = "uninitialized_variables"
    others = [*get_global_attribute(name, [])]
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        set_global_attribute(name, others)


def is_exporting() -> bool:
    """Returns whether a Keras export is running, according to the call stack."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(EXPORTERS):
            return True
        frame = frame.f_back
    return False


@contextmanager
def without_masks(*tensors: Any) -> Iterator[None]:
    """Temporarily removes the masks that Keras attached to tensors.

    Some Keras layers would use these masks in addition to their mask arguments. Others
    would remove the masks permanently.
    """
    distinct = {id(x): x for x in tensors}.values()  # key and value are often the same
    held = [(x, carried_mask(x)) for x in distinct]
    held = [(x, mask) for x, mask in held if mask is not None]
    for x, _ in held:
        del x._keras_mask
    try:
        yield
    finally:
        for x, mask in held:
            x._keras_mask = mask
