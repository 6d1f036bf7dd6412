"""Detection of traced or symbolic tensors on JAX, and of the platform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np
from jax import default_backend

from keras_attention.kernels import keras as keras_names
from keras_attention.kernels.tracing.reference import COMPLEX, ERRORS, INTEGERS

__all__ = ["COMPLEX", "ERRORS", "INTEGERS", "changes", "is_readable", "is_traced"]

Tensor = Any


def register_structure(cls: type) -> None:
    """Makes Keras and JAX walk the arrays of instances of a class."""
    keras_names.register_structure(cls)
    jax.tree_util.register_pytree_node_class(cls)


def is_traced(tensor: Tensor) -> bool:
    """Returns whether the tensor is a tracer or symbolic."""
    return isinstance(tensor, (jax.core.Tracer, keras.KerasTensor))


def is_readable(tensor: Tensor) -> bool:
    """Returns whether the values are known and in the memory of the host."""
    if isinstance(tensor, jax.Array) and not isinstance(tensor, jax.core.Tracer):
        return all(device.platform == "cpu" for device in tensor.devices())
    return isinstance(tensor, np.ndarray)


def changes(variables: list[Any]) -> Callable[[], bool]:
    """Returns a function that says whether the variables have other arrays since.

    An array of JAX does not change.
    """
    held = [variable.value for variable in variables]
    return lambda: any(
        variable.value is not value for variable, value in zip(variables, held)
    )


def platform() -> str:
    """Returns the platform for which a call is computed or traced: "cpu", "gpu", "tpu".

    It is that of `keras.device` or `jax.default_device`, else JAX's default.
    """
    device = jax.config.jax_default_device
    if device is None:
        return default_backend()
    return device if isinstance(device, str) else device.platform
