"""Whether numbers are known yet in Keras' operations."""

from __future__ import annotations

from typing import Any

import keras

Tensor = Any


def is_traced(tensor: Tensor) -> bool:
    """Whether the tensor is symbolic; nothing is compiled on these backends."""
    return isinstance(tensor, keras.KerasTensor)
