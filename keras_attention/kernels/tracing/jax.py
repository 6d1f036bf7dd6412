"""Detection of traced or symbolic tensors on JAX."""

from __future__ import annotations

from typing import Any

import jax
import keras

Tensor = Any


def is_traced(tensor: Tensor) -> bool:
    """Returns whether the tensor is a tracer or symbolic."""
    return isinstance(tensor, (jax.core.Tracer, keras.KerasTensor))
