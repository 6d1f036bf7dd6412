"""How precisely to compute what half precision cannot hold."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

Tensor = Any
HALF = ("float16", "bfloat16")
# Half of the lowest finite number of each dtype.
MASK_VALUES = {
    name: float(np.finfo("float32" if name == "bfloat16" else name).min) / 2
    for name in ("float16", "bfloat16", "float32", "float64")
}


def wide(x: Tensor) -> Tensor:
    """Half precision in float32, for exponentials, sums of squares and the like."""
    half = keras.backend.standardize_dtype(x.dtype) in HALF
    return ops.cast(x, "float32") if half else x


def is_half(x: Tensor) -> bool:
    """Whether numbers are in half precision."""
    return keras.backend.standardize_dtype(x.dtype) in HALF


def lowest(dtype: Any) -> float:
    """Half of the lowest finite number: hidden, and a difference with it is finite.

    Args:
        dtype: of floating point. Of bfloat16, which NumPy alone does not know, it is
            that of float32, rounded.
    """
    return MASK_VALUES[keras.backend.standardize_dtype(dtype)]
