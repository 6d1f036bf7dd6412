"""Detection of traced or symbolic tensors on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_attention.kernels.tracing.reference import dtypes

Tensor = Any
COMPLEX, INTEGERS = dtypes(tf)
ERRORS: tuple[type[Exception], ...] = (tf.errors.OpError,)


def is_traced(tensor: Tensor) -> bool:
    """Returns whether the tensor belongs to a graph or is symbolic."""
    return isinstance(tensor, keras.KerasTensor) or (
        tf.is_tensor(tensor) and not hasattr(tensor, "numpy")
    )


def is_readable(tensor: Tensor) -> bool:
    """Returns whether the values are known and in the memory of the host."""
    if isinstance(tensor, np.ndarray):
        return True
    if not tf.is_tensor(tensor) or not hasattr(tensor, "numpy"):
        return False
    return "CPU" in tensor.device


def changes(variables: list[Any]) -> Callable[[], bool]:
    """Returns a function that says whether the values may have changed since.

    While the values of a variable are held as a tensor, TensorFlow writes new values to
    another place in memory. An array that is held keeps its place, too. After a sparse
    gradient, each read of a variable is a copy, whose values are then compared.
    """
    tensors = [tf.convert_to_tensor(variable.value) for variable in variables]
    if not all(map(is_readable, tensors)):
        return lambda: True
    held = [np.asarray(tensor) for tensor in tensors]

    def may_differ() -> bool:
        for variable, array, _ in zip(variables, held, tensors):
            now = np.asarray(tf.convert_to_tensor(variable.value))
            same_place = now.ctypes.data == array.ctypes.data
            if not same_place and not np.array_equal(now, array):
                return True
        return False

    return may_differ
