"""One step of a DNC's memory on TensorFlow; see `access.py`.

A loop in a graph stacks each tensor that the gradient needs of each step, and takes it
off again; the fewer there are, the faster it is.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_attention.kernels.memory_step import reference as plain

Tensor = Any


def access_memory(
    interface: Tensor,
    old: plain.Memory,
    there: Tensor | None = None,
    form: plain.Form = plain.PLAIN,
) -> tuple[Tensor, plain.Memory] | None:
    """The words that are read and the memory after; None for symbols."""
    if any(isinstance(x, keras.KerasTensor) for x in (interface, *old)):
        return None

    @tf.custom_gradient
    def step(interface: Tensor, *old: Tensor) -> Any:
        before = plain.Memory(*old)
        read, new, held = plain.forward(interface, before, there, form)

        def gradient(d_read: Tensor, *d_new: Tensor) -> list[Tensor]:
            d = plain.Memory(*d_new)
            slope, earlier = plain.backward(before, new, held, d_read, d, form)
            return [slope, *earlier]

        return [read, *new], gradient

    read, *new = step(interface, *old)
    return read, plain.Memory(*new)
