"""Masks that say which query may attend to which key.

Masks are boolean, True = may attend. They contain no scores or weights.
`keras_attention.numerics.normalizers` applies them to scores; fused kernels apply them
by the same rule.

Shapes: B batch, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import keras
from keras import ops

Tensor = Any


def padding(tokens: Tensor, padding_token: int = 0) -> Tensor:
    """Marks the tokens that are not padding.

    Args:
        tokens: integers of any shape (...).
        padding_token: the integer that marks padding.

    Returns:
        Booleans of the same shape, True for tokens that are not padding.
    """
    return ops.not_equal(tokens, padding_token)


def positions(length: int | Tensor, start: int | Tensor = 0) -> Tensor:
    """Returns the positions start, start + 1, ….

    Args:
        length: T, the number of positions.
        start: the first position: an integer, a scalar, or (B, 1), one per row.

    Returns:
        int32 (T,), or (B, T).
    """
    if isinstance(length, Integral):
        # With a start, because JAX's exporter to ONNX needs both limits.
        counted = ops.arange(0, length, dtype="int32")
    else:  # not all exporters support a range of dynamic size
        counted = ops.cumsum(ops.ones((length,), "int32")) - 1
    if isinstance(start, int) and not start:
        return counted
    return counted + ops.cast(start, "int32")


def causal(queries: int | Tensor, keys: int | Tensor) -> Tensor:
    """Builds a causal mask: query t may attend to keys 0 … t.

    Args:
        queries: T, the number of queries.
        keys: S, the number of keys.

    Returns:
        Booleans (T, S).
    """
    t = positions(queries)
    s = t if keys is queries else positions(keys)
    return ops.expand_dims(s, 0) <= ops.expand_dims(t, 1)  # (T, S)


def sliding_window(queries: int | Tensor, keys: int | Tensor, window: int) -> Tensor:
    """Builds a mask that allows keys less than `window` steps away, on both sides.

    Merged with :func:`causal`, it allows the `window` most recent keys.

    Args:
        queries: T, the number of queries.
        keys: S, the number of keys.
        window: a positive number of steps; 1 allows only the query's own position.

    Returns:
        Booleans (T, S).
    """
    if window < 1:
        raise ValueError(f"`window` must be at least 1. Received: window={window}")
    return near(positions(queries), positions(keys), window)  # (T, S)


def near(query_position: Tensor, key_position: Tensor, window: int) -> Tensor:
    """Builds the mask of `sliding_window`, (..., T, S), from explicit positions.

    Args:
        query_position: integers (..., T).
        key_position: integers (..., S).
        window: a positive number of steps.
    """
    steps = ops.expand_dims(query_position, -1) - ops.expand_dims(key_position, -2)
    return ops.abs(steps) < window  # (..., T, S)


def merge(*masks: Tensor | None) -> Tensor | None:
    """Merges masks: a pair is allowed only if every mask allows it.

    Args:
        *masks: booleans whose shapes broadcast against each other, or None for
            "everything is allowed".

    Returns:
        The conjunction of the masks, or None if all of them are None.
    """
    merged = None
    for mask in masks:
        if mask is not None:
            merged = mask if merged is None else ops.logical_and(merged, mask)
    return merged


def check(name: str, mask: Tensor | None, shape: Sequence[int | None]) -> Tensor | None:
    """Checks the dtype and the shape of a user's mask.

    Args:
        name: the argument's name, for error messages.
        mask: the user's mask, or None.
        shape: the shape that the mask must broadcast to; None for an unknown size.

    Returns:
        The mask as a boolean tensor.

    Raises:
        ValueError: if the mask is not boolean, or its rank or a size does not fit.
    """
    if mask is None:
        return None
    known = hasattr(mask, "dtype")
    if not known or keras.backend.standardize_dtype(mask.dtype) != "bool":
        mask = check_boolean(name, mask)
    received = tuple(mask.shape)
    if len(received) != len(shape):
        raise ValueError(
            f"`{name}` must have rank {len(shape)}, shape {_show(shape)}. "
            f"Received: shape={_show(received)}{_hint(name)}"
        )
    for size, wanted in zip(received, shape):
        if size is not None and wanted is not None and size not in (1, wanted):
            raise ValueError(
                f"`{name}` must have shape {_show(shape)}, or 1 where a size is to "
                f"be repeated. Received: shape={_show(received)}{_hint(name)}"
            )
    return mask if isinstance(mask, keras.KerasTensor) else ops.convert_to_tensor(mask)


def check_boolean(name: str, mask: Tensor) -> Tensor:
    """Rejects numeric masks, because 0 and −∞ would be read as False and True.

    Args:
        name: the argument's name, for error messages.
        mask: the user's mask.

    Returns:
        The mask, converted to a tensor if it has no dtype.

    Raises:
        ValueError: if the mask is not boolean.
    """
    if not hasattr(mask, "dtype"):
        mask = ops.convert_to_tensor(mask)
    dtype = keras.backend.standardize_dtype(mask.dtype)
    if dtype != "bool":
        raise ValueError(
            f"`{name}` must be boolean, True where attention is allowed. "
            f"Received: dtype={dtype}"
        )
    return mask


def _hint(name: str) -> str:
    """Suggests a probable fix for an error message."""
    if name != "attention_mask":
        return ""
    return ". A mask of padding, (batch, keys), goes to `value_mask`"


def _show(shape: Sequence[int | None]) -> str:
    return "(" + ", ".join("?" if n is None else str(n) for n in shape) + ")"
