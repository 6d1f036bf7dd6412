"""Validation of the arguments of `AssociativeMemory`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from keras_attention.models.hopfield.steps import as_numpy
from keras_attention.ops.hopfield.patterns import rows

Tensor = Any


def one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    """Returns the value if it is a known name; raises a ValueError otherwise."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(
            f"`{name}` must be one of {list(known)}. Received: {name}={value!r}"
        )
    return value


def above_zero(name: str, value: Any) -> float:
    """Returns the value if it is positive and finite; else raises a ValueError."""
    if not (_is_number(value) and 0 < value < math.inf):
        raise ValueError(
            f"`{name}` must be a positive and finite number. Received: {name}={value!r}"
        )
    return float(value)


def at_least_zero(name: str, value: Any) -> float:
    """Returns a non-negative number; raises a ValueError otherwise."""
    if not (_is_number(value) and value >= 0):
        raise ValueError(
            f"`{name}` must be a number of at least 0. Received: {name}={value!r}"
        )
    return float(value)


def finite(name: str, x: Any, dtype: str) -> np.ndarray:
    """Returns values (..., D), or raises a ValueError that names a non-finite row."""
    array = as_numpy(x)
    wrong = np.argwhere(~np.isfinite(array).all(-1))
    if len(wrong):
        place = ", ".join(map(str, wrong[0]))
        raise ValueError(
            f"`{name}` must be finite in {dtype}. Received: "
            f"{len(wrong)} that are not, such as {name}[{place}]"
        )
    return array


def neurons(name: str, array: np.ndarray, kind: str) -> None:
    """Rejects values other than −1 and 1, except in a modern memory."""
    other = array[:0] if kind == "modern" else array[np.abs(array) != 1]
    if other.size:
        raise ValueError(
            f"`{name}` must be -1 and 1 in a memory of kind {kind!r}. "
            f"Received: {other.size} other numbers, such as {other[0]}"
        )


def table(patterns: Any, width: int | None) -> Tensor:
    """Converts new patterns (S, D) with `rows`; checks the width of the stored ones."""
    new = rows("patterns", patterns)
    if len(new.shape) != 2 or 0 in new.shape:
        raise ValueError(
            "`patterns` must be (patterns, width), neither of them 0. "
            f"Received: patterns.shape={tuple(new.shape)}"
        )
    if width is not None and new.shape[-1] != width:
        raise ValueError(
            f"`patterns` must be as wide as those that are stored, {width}. "
            f"Received: patterns.shape={tuple(new.shape)}"
        )
    return new


def places(indices: Any, count: int) -> np.ndarray:
    """Returns the selected pattern indices, integers (n,)."""
    if hasattr(indices, "shape"):
        indices = as_numpy(indices)
    elif isinstance(indices, Iterable):
        indices = list(indices)
    array = np.asarray(indices)
    wanted = array.ravel()
    whole = wanted.dtype.kind in "iu" or not wanted.size
    if not whole or np.any((wanted < 0) | (wanted >= count)):
        received = f"indices of shape {array.shape} and dtype {array.dtype}"
        if wanted.size == 1:
            received = f"indices={indices}"
        raise ValueError(
            "`indices` must be whole numbers from 0 to below the number of "
            f"patterns, {count}; not a boolean mask (give `np.flatnonzero(mask)`) and "
            f"not a pattern. Received: {received}"
        )
    return wanted.astype(int)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
