"""Detection of traced or symbolic tensors on JAX."""

from __future__ import annotations

from typing import Any

import jax
import keras
import numpy as np

from keras_attention.kernels.tracing.dtypes import complex_dtypes, integer_dtypes

Tensor = Any
COMPLEX, INTEGERS = complex_dtypes(), integer_dtypes()
ERRORS: tuple[type[Exception], ...] = ()


def is_traced(tensor: Tensor) -> bool:
    """Returns whether the tensor is a tracer or symbolic."""
    return isinstance(tensor, (jax.core.Tracer, keras.KerasTensor))


def is_readable(tensor: Tensor) -> bool:
    """Returns whether the values are known and in the memory of the host."""
    if isinstance(tensor, jax.Array) and not isinstance(tensor, jax.core.Tracer):
        return all(device.platform == "cpu" for device in tensor.devices())
    return isinstance(tensor, np.ndarray)
