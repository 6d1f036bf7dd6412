"""How precisely to compute what half precision cannot hold."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

Tensor = Any


def wide(x: Tensor) -> Tensor:
    """Half precision in float32, for exponentials, sums of squares and the like."""
    dtype = keras.backend.standardize_dtype(x.dtype)
    return ops.cast(x, "float32") if dtype in ("float16", "bfloat16") else x
