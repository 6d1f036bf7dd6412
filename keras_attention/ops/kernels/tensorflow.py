"""Kernels for TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_attention.ops.kernels.generic import dot_product_attention

Tensor = Any

__all__ = ["dot_product_attention", "is_traced"]


def is_traced(tensor: Tensor) -> bool:
    """Whether the tensor belongs to a graph or is symbolic."""
    return isinstance(tensor, keras.KerasTensor) or (
        tf.is_tensor(tensor) and not hasattr(tensor, "numpy")
    )
