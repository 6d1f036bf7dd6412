"""Attention: scores, mask, normalizer, values.

    weights = normalize(score(query, key), mask)
    output  = weights · value

:func:`attend` computes this step by step, for any score and any normalizer. For several
heads and the scaled dot product, see :mod:`keras_attention.ops.heads`.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, D width, E
width of a head, V width of a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.numerics import mask_objects, masks, normalizers
from keras_attention.numerics.precision import mask_value
from keras_attention.ops import scores

Tensor = Any


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: str | Callable = "scaled_dot",
    normalizer: str | Callable = "softmax",
    mask: Tensor | None = None,
    dropout: float = 0.0,
    seed: Any = None,
    dropout_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes attention with any score and any normalizer, and returns the weights.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        score: "dot", "scaled_dot", "cosine", "rbf", or a callable f(query, key) that
            returns (..., T, S).
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15", "hardmax",
            "linear", or a callable f(scores, mask).
        mask: booleans that broadcast to (..., T, S), True = may attend; a mask object
            of :mod:`keras_attention.masks`, for queries of rank 3; or None.
        dropout: the fraction of the weights to drop; the remaining weights are scaled
            up.
        seed: an integer or a `keras.random.SeedGenerator`, for the dropout.
        dropout_mask: (..., T, S), factors that multiply the weights before the weights
            multiply the values, such as a dropout mask sampled before a loop; or None.

    Returns:
        The output (..., T, V) and the weights (..., T, S). Masked keys get weight 0. A
        query that may attend to no key gets weights 0 and output 0. Masked values must
        still be finite, because 0 times NaN is NaN.

    Example:

    >>> import numpy as np
    >>> from keras_attention import ops
    >>> x = np.eye(3, dtype="float32")[None]
    >>> output, weights = ops.attend(x, x, x, score="dot")
    >>> tuple(output.shape), tuple(weights.shape)
    ((1, 3, 3), (1, 3, 3))
    """
    if isinstance(mask, mask_objects.Mask):
        if len(query.shape) != 3:
            raise ValueError(
                "`mask` must be a boolean array unless queries have shape (batch, "
                f"length, width). Received: query.shape={tuple(query.shape)}, {mask=}"
            )
        (batch, queries), keys = query.shape[:2], key.shape[-2]
        mask_objects.check("mask", mask, batch, queries, keys)
        mask = mask.array(ops.shape(query)[1], ops.shape(key)[-2])
    elif mask is not None:
        mask = masks.check_boolean("mask", mask)
    chosen = scores.get(score), normalizers.get(normalizer)
    if not dropout:
        return weighted_values(query, key, value, *chosen, mask, dropout_mask)
    _, weights = weighted_values(query, key, value, *chosen, mask)
    used = keras.random.dropout(weights, dropout, seed=seed)
    used = used if dropout_mask is None else used * dropout_mask
    return ops.matmul(used, value), weights


def weighted_values(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: Callable,
    normalize: Callable,
    mask: Tensor | None,
    dropout_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The equations of :func:`attend`, for checked arguments."""
    similarity = score(query, key)  # (..., T, S)
    weights = ops.cast(normalize(similarity, mask), value.dtype)  # (..., T, S)
    used = weights if dropout_mask is None else weights * dropout_mask
    return ops.matmul(used, value), weights  # (..., T, V)


def full_bias(bias: Any, query: Tensor, key: Tensor) -> Tensor | None:
    """Expands a bias to four axes and makes it finite.

    Args:
        bias: numbers that broadcast to (B, H, T, S), or None.
        query: (B, T, H, E).
        key: (B, S, G, E).

    Raises:
        ValueError: if the bias does not fit.
    """
    if bias is None:
        return None
    bias = bias if hasattr(bias, "shape") else ops.convert_to_tensor(bias)
    (batch, queries, heads, _), keys = query.shape, key.shape[1]
    full = (batch, heads, queries, keys)
    sizes = zip(reversed(bias.shape), reversed(full))
    fits = all(a in (1, None, b) or b is None for a, b in sizes)
    if len(bias.shape) > 4 or not fits:
        raise ValueError(
            "`bias` must broadcast to (batch, heads, queries, keys), here "
            f"{full}. Received: bias.shape={tuple(bias.shape)}"
        )
    if not keras.backend.is_float_dtype(bias.dtype):
        bias = ops.cast(bias, query.dtype)
    for _ in range(4 - len(bias.shape)):
        bias = ops.expand_dims(bias, 0)
    # −∞ would turn a whole row into NaN, and half precision reads −1e9 as −∞. The bound
    # is still above the value of masked scores, so masked keys get no weight.
    least = max(mask_value(bias.dtype), mask_value(query.dtype)) / 2
    return ops.where(bias < least, least, bias)  # NaN stays, and float64 on torch


def check_heads(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raises a ValueError if queries, keys and values do not fit together."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if len(tensor.shape) != 4:
            raise ValueError(
                f"`{name}` must have rank 4, (batch, length, heads, width). "
                f"Received: {name}.shape={tuple(tensor.shape)}"
            )
        if tensor.dtype in kernels.INTEGERS:
            raise ValueError(
                f"`{name}` must hold floats. Received: {name}.dtype={tensor.dtype}"
            )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            "`query` and `key` must have the same width (last axis). "
            f"Received: query.shape={tuple(query.shape)}, key.shape={tuple(key.shape)}"
        )
    if key.shape[2] != value.shape[2] or query.shape[2] % key.shape[2]:
        raise ValueError(
            "`key` and `value` must have the same number of heads (axis 2), which must "
            "divide that of `query`. "
            f"Received: query.shape={tuple(query.shape)}, "
            f"key.shape={tuple(key.shape)}, value.shape={tuple(value.shape)}"
        )
