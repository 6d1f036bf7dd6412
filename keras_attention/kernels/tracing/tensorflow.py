"""Detection of traced or symbolic tensors on TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

Tensor = Any


def is_traced(tensor: Tensor) -> bool:
    """Returns whether the tensor belongs to a graph or is symbolic."""
    return isinstance(tensor, keras.KerasTensor) or (
        tf.is_tensor(tensor) and not hasattr(tensor, "numpy")
    )
