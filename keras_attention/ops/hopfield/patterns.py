"""Validation of the inputs of Hopfield networks: states, patterns and β.

Shapes: T states, S stored patterns, D width; "..." for any leading axes.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.numerics.precision import is_half, to_float32
from keras_attention.ops import scores

Tensor = Any


def rows(name: str, x: Any) -> Tensor:
    """Converts states or patterns (..., D), perhaps nested lists, to floating point.

    Returns a float32 tensor, or a float64 tensor if the input is in float64 and the
    backend keeps float64. TensorFlow keeps it, and so does JAX with `jax_enable_x64`.
    """
    x = x.value if isinstance(x, keras.Variable) else x
    if not hasattr(x, "shape"):
        try:
            x = np.asarray(x)
        except ValueError as error:
            raise ValueError(
                f"`{name}` must have rows of one width. "
                f"Received: rows of widths {sorted({np.size(row) for row in x})}"
            ) from error
    if isinstance(x, np.ndarray) and x.dtype.kind in "cmMOSTU":
        raise ValueError(
            f"`{name}` must be real numbers. Received: {name} of dtype {x.dtype}"
        )
    if len(x.shape) < 2:
        raise ValueError(
            f"`{name}` must have rank 2 or more, (..., rows, width): one row "
            f"is {name}[None]. Received: {name}.shape={tuple(x.shape)}"
        )
    is_float = keras.backend.is_float_dtype(keras.backend.standardize_dtype(x.dtype))
    full = to_float32(x) if is_float else ops.cast(x, "float32")
    return full if kernels.is_traced(full) else ops.convert_to_tensor(full)


def states_and_patterns(states: Any, patterns: Any) -> tuple[Tensor, Tensor]:
    """Converts states (..., T, D) and patterns (..., S, D) of equal width by `rows`.

    Both are returned in the wider of their two dtypes.
    """
    ours, stored = rows("states", states), rows("patterns", patterns)
    if ours.shape[-1] != stored.shape[-1]:
        raise ValueError(
            "`states` and `patterns` must have the same width (last axis). "
            f"Received: states.shape={tuple(ours.shape)}, "
            f"patterns.shape={tuple(stored.shape)}"
        )
    names = {keras.backend.standardize_dtype(x.dtype) for x in (ours, stored)}
    if len(names) == 1:
        return ours, stored
    return ops.cast(ours, "float64"), ops.cast(stored, "float64")


def binary(states: Any, patterns: Any) -> tuple[Tensor, Tensor]:
    """Converts states and patterns by `states_and_patterns` and checks for −1 and 1.

    The values are only checked outside compiled functions.
    """
    ours, stored = states_and_patterns(states, patterns)
    for name, x in (("states", ours), ("patterns", stored)):
        values = concrete_values(x)
        if values is not None and not np.all(np.abs(values) == 1):
            wrong = values[np.abs(values) != 1]
            raise ValueError(
                f"`{name}` of a binary memory must hold nothing but -1 and 1. "
                f"Received: {wrong.size} other numbers, such as {wrong[0]}"
            )
    return ours, stored


def nearness(states: Tensor, patterns: Tensor, mask: Tensor | None = None) -> Tensor:
    """Computes −½‖ξ − xᵢ‖², (..., T, S), accurately even far from the origin.

    States and patterns are first centred on the mean of the patterns that the mask lets
    some state retrieve.
    """
    counts = ops.ones_like(patterns[..., :1])  # (..., S, 1)
    if mask is not None and len(mask.shape):
        axes = tuple(range(len(mask.shape)))
        some = ops.any(ops.expand_dims(mask, 0), axis=axes)  # (S,), or (1,) for all
        counts = counts * ops.cast(ops.expand_dims(some, -1), counts.dtype)
    total = ops.maximum(ops.sum(counts, axis=-2, keepdims=True), 1)
    middle = ops.sum(counts * patterns, axis=-2, keepdims=True) / total  # (..., 1, D)
    middle = ops.stop_gradient(middle)  # no distance depends on it
    return scores.rbf(states - middle, patterns - middle, 0.5)


def inverse_temperature(beta: Any, dtype: Any, per_row: bool = True) -> Any:
    """Converts β (...) to a float or tensor (...) that multiplies scores of a dtype.

    A tensor is (..., 1) with `per_row`, for one β per row of scores (..., S).
    """
    beta = beta.value if isinstance(beta, keras.Variable) else beta
    numbers = beta if hasattr(beta, "shape") else np.asarray(beta)
    values = concrete_values(numbers)
    if values is not None:
        real = values.dtype.kind not in "cmMOSTU"
        if not real or not np.all((values > 0) & (values < np.inf)):
            raise ValueError(
                f"`beta` must be positive and finite. Received: beta={beta!r}"
            )
    if isinstance(numbers, np.ndarray | np.generic) and numbers.ndim == 0:
        return float(numbers)
    beta = ops.cast(numbers, dtype)
    return ops.expand_dims(beta, -1) if per_row and len(beta.shape) else beta


def concrete_values(x: Any) -> np.ndarray | None:
    """Returns the values of x as an array, or None inside a compiled function."""
    if isinstance(x, np.ndarray | np.generic):
        return np.asarray(x)
    return None if kernels.is_traced(x) else np.asarray(ops.convert_to_numpy(x))


def result(x: Tensor, like: Any) -> Tensor:
    """Casts x to half precision if the input `like` is in half precision."""
    return ops.cast(x, like.dtype) if hasattr(like, "dtype") and is_half(like) else x
