"""Scaled dot-product attention in Keras operations.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_attention.numerics import masks, normalizers
from keras_attention.numerics.axes import grouped_matmul
from keras_attention.numerics.precision import to_float32

Tensor = Any


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    bias: Tensor | None = None,
    dropout: Callable | None = None,
) -> Tensor:
    """Computes two batched products; see `ops.dot_product_attention`.

    `dropout` is a function of the weights (B, H, T, S).
    """
    q = ops.transpose(ops.multiply(query, scale), (0, 2, 1, 3))  # (B, H, T, E)
    k = ops.transpose(key, (0, 2, 3, 1))  # (B, G, E, S)
    v = ops.transpose(value, (0, 2, 1, 3))  # (B, G, S, V)
    if is_causal:
        mask = masks.merge(mask, masks.causal(ops.shape(q)[2], ops.shape(v)[2]))
    matmul = ops.matmul if q.shape[1] == k.shape[1] else grouped_matmul
    scores = matmul(q, k)  # (B, H, T, S)
    if bias is not None:
        scores = to_float32(scores)
        scores = scores + ops.cast(bias, scores.dtype)
    weights = ops.cast(normalizers.softmax(scores, mask), v.dtype)
    weights = weights if dropout is None else dropout(weights)
    return ops.transpose(matmul(weights, v), (0, 2, 1, 3))  # (B, T, H, V)


def local_attention(*args: Any) -> Tensor | None:
    """Returns None: a mask of the window is as fast."""
    return None


def dropout_attention(*args: Any) -> Tensor | None:
    """Returns None: explicit weights are as fast."""
    return None
