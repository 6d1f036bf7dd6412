"""Detection of symbolic tensors on backends without tracing."""

from __future__ import annotations

from typing import Any

import keras

Tensor = Any


def is_traced(tensor: Tensor) -> bool:
    """Returns whether the tensor is symbolic; these backends compile nothing."""
    return isinstance(tensor, keras.KerasTensor)
