"""One step of a DNC's memory on TensorFlow, with its gradient written out.

A loop in a graph stacks each tensor that the gradient needs of each step, and takes it
off again; the fewer there are, the faster it is.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_attention.kernels.memory_step import reference
from keras_attention.kernels.memory_step.gradient import step_gradient
from keras_attention.kernels.memory_step.interface import MemoryOptions
from keras_attention.kernels.memory_step.reference import MemoryState

Tensor = Any


def access_memory(
    interface: Tensor,
    old: MemoryState,
    mask: Tensor | None = None,
    options: MemoryOptions = reference.GRAVES,
) -> tuple[Tensor, MemoryState]:
    """The words that are read and the memory after."""
    symbolic = isinstance(interface, keras.KerasTensor)
    if symbolic or not reference.has_written_gradient(options, old):
        return reference.access_memory(interface, old, mask, options)

    @tf.custom_gradient
    def step(interface: Tensor, *flat: Tensor) -> Any:
        before = MemoryState(*flat)
        read, new, saved = reference.step(interface, before, mask, options)

        def gradient(d_read: Tensor, *d_new: Tensor) -> list[Tensor]:
            d_interface, d_old = step_gradient(
                before, new, saved, d_read, MemoryState(*d_new), options
            )
            return [d_interface, *d_old]

        return [read, *new], gradient

    read, *new = step(interface, *old)
    return read, MemoryState(*new)
