"""What Keras knows under private names, and where Keras is to be worked around."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras import ops

Tensor = Any
# Where Keras' exporters are; their own place has no public name.
EXPORTERS = keras.export.ExportArchive.__module__.rpartition(".")[0]


def takes_training(layer: Any) -> bool:
    """Whether `layer.call` has an argument `training`."""
    return layer._call_has_training_arg  # as `keras.layers.RNN` asks; no public name


def carried_mask(x: Any) -> Any:
    """The mask that Keras has hung on a tensor, or None."""
    return getattr(x, "_keras_mask", None)  # Keras hands it to `call` alone


def stable_argsort(x: Tensor) -> Tensor:
    """Keras' `argsort`; NumPy must be told to leave what is equal in its order."""
    x = ops.convert_to_tensor(x)
    if isinstance(x, np.ndarray):
        return np.argsort(x, axis=-1, kind="stable").astype("int32")
    return ops.argsort(x, axis=-1)


def is_exporting() -> bool:
    """Whether Keras' export, which says so nowhere, is among the callers."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(EXPORTERS):
            return True
        frame = frame.f_back
    return False


@contextmanager
def without_masks(*tensors: Any) -> Iterator[None]:
    """Takes the masks that Keras has hung on tensors away, and gives them back.

    Some of Keras' layers would use them beside what they are told, or take them away
    for good.
    """
    distinct = {id(x): x for x in tensors}.values()  # keys are often the values
    held = [(x, carried_mask(x)) for x in distinct]
    held = [(x, mask) for x, mask in held if mask is not None]
    for x, _ in held:
        del x._keras_mask
    try:
        yield
    finally:
        for x, mask in held:
            x._keras_mask = mask
