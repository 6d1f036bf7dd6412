"""Detection of traced or symbolic tensors on TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_attention.kernels.tracing.dtypes import complex_dtypes, integer_dtypes

Tensor = Any
COMPLEX, INTEGERS = complex_dtypes(tf), integer_dtypes(tf)
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
