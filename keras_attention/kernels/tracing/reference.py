"""Detection of symbolic tensors on backends without tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_attention.kernels.tracing.dtypes import dtypes

Tensor = Any
COMPLEX, INTEGERS = dtypes()
ERRORS: tuple[type[Exception], ...] = ()


def is_traced(tensor: Tensor) -> bool:
    """Returns whether the tensor is symbolic; these backends compile nothing."""
    return isinstance(tensor, keras.KerasTensor)


def is_readable(tensor: Tensor) -> bool:
    """Returns whether the values are known and in the memory of the host."""
    return isinstance(tensor, np.ndarray)


def changes(variables: list[Any]) -> Callable[[], bool]:
    """Returns a function that always says that the values may have changed."""
    return lambda: True
