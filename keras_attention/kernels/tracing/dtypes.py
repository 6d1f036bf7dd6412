"""Sets of dtypes, as names, as NumPy's dtypes and as those of a backend."""

from __future__ import annotations

from typing import Any

import numpy as np

_COMPLEX = ("complex64", "complex128")
_WHOLE = (
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool"),
)


def complex_dtypes(backend: Any = None) -> set:
    """Returns the complex dtypes; `backend` is a module with dtypes, or None."""
    return _forms(_COMPLEX, backend)


def integer_dtypes(backend: Any = None) -> set:
    """Returns the dtypes of integers and booleans."""
    return _forms(_WHOLE, backend)


def _forms(names: tuple[str, ...], backend: Any) -> set:
    attributes = [] if backend is None else [getattr(backend, name) for name in names]
    return {*names, *map(np.dtype, names), *attributes}
