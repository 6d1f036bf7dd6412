"""Helpers that create the weights of scores.

Shapes: B batch, T queries, S keys, Dq and Dk widths, U units.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import clone_initializer


def dense(
    layer: Any, units: int, name: str, bias: bool = False, activation: Any = None
) -> keras.layers.Dense:
    """Returns a Dense layer with the kernel initializer of `layer`."""
    return keras.layers.Dense(
        units,
        activation,
        use_bias=bias,
        kernel_initializer=clone_initializer(layer.kernel_initializer),
        dtype=layer.dtype_policy,
        name=name,
    )


def scale_vector(layer: Any) -> Any:
    """Creates v, a vector of width U, initialized like a kernel (U, 1)."""
    initializer = clone_initializer(layer.kernel_initializer)
    return layer.add_weight(
        name="scale",
        shape=(layer.units,),
        initializer=lambda shape, dtype: ops.reshape(
            initializer((*shape, 1), dtype=dtype), shape
        ),
    )
