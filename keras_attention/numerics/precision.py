"""Casts and mask values for half precision."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

Tensor = Any
HALF = ("float16", "bfloat16")
LOWEST = {  # the lowest finite number of each dtype
    name: float(np.finfo("float32" if name == "bfloat16" else name).min)
    for name in ("float16", "bfloat16", "float32", "float64")
}


def to_float32(x: Tensor) -> Tensor:
    """Casts all but float64 to float32, for exponentials, sums of squares etc."""
    wide = keras.backend.standardize_dtype(x.dtype) in ("float32", "float64")
    return x if wide else ops.cast(x, "float32")


def is_half(x: Tensor) -> bool:
    """Returns whether a tensor is in half precision."""
    return keras.backend.standardize_dtype(x.dtype) in HALF


def mask_value(dtype: Any) -> float:
    """Returns half of the lowest finite number of `dtype`; differences stay finite.

    Args:
        dtype: a floating-point dtype. bfloat16 uses the value of float32, rounded,
            because NumPy lacks bfloat16.
    """
    return LOWEST[keras.backend.standardize_dtype(dtype)] / 2
