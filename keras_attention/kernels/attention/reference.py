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
    """Computes `weighted_heads` with the softmax; see `ops.dot_product_attention`."""
    if is_causal:
        mask = masks.merge(mask, masks.causal(ops.shape(query)[1], ops.shape(key)[1]))
    softmax = normalizers.softmax
    return weighted_heads(
        query, key, value, mask, bias, softmax, scale, dropout=dropout
    )[0]


def weighted_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    normalize: Callable,
    scale: float,
    soft_cap: float | None = None,
    dropout: Callable | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes multi-head attention step by step, by two batched products.

    `normalize` is a function f(scores, mask), and `dropout` a function of the weights
    that multiply the values.

    Returns:
        The output (B, T, H, V) and the weights (B, H, T, S) before dropout.
    """
    q = ops.transpose(ops.multiply(query, scale), (0, 2, 1, 3))  # (B, H, T, E)
    k = ops.transpose(key, (0, 2, 3, 1))  # (B, G, E, S)
    v = ops.transpose(value, (0, 2, 1, 3))  # (B, G, S, V)
    matmul = ops.matmul if q.shape[1] == k.shape[1] else grouped_matmul
    scores = matmul(q, k)  # (B, H, T, S)
    if soft_cap is not None:
        scores = soft_cap * ops.tanh(to_float32(scores) / soft_cap)
    if bias is not None:
        scores = to_float32(scores)
        scores = scores + ops.cast(bias, scores.dtype)
    weights = ops.cast(normalize(scores, mask), v.dtype)  # (B, H, T, S)
    used = weights if dropout is None else dropout(weights)
    return ops.transpose(matmul(used, v), (0, 2, 1, 3)), weights


def local_attention(*args: Any) -> Tensor | None:
    """Returns None: the array of the mask is as fast."""
    return None


masked_attention = local_attention


def dropout_attention(*args: Any) -> Tensor | None:
    """Returns None: explicit weights are as fast."""
    return None


def lookup(query: Tensor, table: Tensor, count: Any) -> Tensor | None:
    """Returns None: the caller's chunked computation is as fast.

    On TensorFlow with XLA, a loop that computed powers of two instead of exp was only
    1.05 times as fast.
    """
    return None
