"""Detection of symbolic tensors on backends without tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

Tensor = Any

_COMPLEX = ("complex64", "complex128")
_WHOLE = (
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool"),
)


def dtypes(backend: Any = None) -> tuple[set, set]:
    """Returns the complex dtypes, and those of integers and booleans.

    `backend` is a module with dtypes, or None.
    """

    def forms(names: tuple[str, ...]) -> set:
        attributes = [] if backend is None else [getattr(backend, n) for n in names]
        return {*names, *map(np.dtype, names), *attributes}

    return forms(_COMPLEX), forms(_WHOLE)


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
