"""Sets of dtypes, as names, as NumPy's dtypes and as those of a backend."""

from __future__ import annotations

from typing import Any

import numpy as np

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
