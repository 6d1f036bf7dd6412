"""Attention: scores, mask, normalizer, values.

    weights = normalize(score(query, key), mask)
    output  = weights · value

:func:`attend` says so step by step, for any score and any normalizer;
:func:`dot_product_attention` is its most frequent case in one fused step.

Shapes: B batch, T queries, S keys, H heads, D width, E width of a head, V width of a
value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attention.ops import kernels, masks, normalizers, scores

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
    keep: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention with any score and any normalizer, explicitly.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        score: "dot", "scaled_dot", "cosine", "rbf", or a callable f(query, key) that
            returns (..., T, S).
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15", "hardmax",
            "linear", or a callable f(scores, mask).
        mask: booleans that broadcast to (..., T, S), True = may attend; or None.
        dropout: the fraction of weights to drop; the others are scaled up.
        seed: an integer or a `keras.random.SeedGenerator`, for the dropout.
        keep: (..., T, S), what multiplies the weights before they meet the values,
            such as a dropout that was drawn before a loop; or None.

    Returns:
        The output (..., T, V) and the weights (..., T, S), which are 0 where masked;
        a query that may attend to nothing gets weights 0 and output 0. What is masked
        must still be finite: 0 times NaN is NaN.

    Example:

    >>> import numpy as np
    >>> from keras_attention import ops
    >>> x = np.eye(3, dtype="float32")[None]
    >>> output, weights = ops.attend(x, x, x, score="dot")
    >>> tuple(output.shape), tuple(weights.shape)
    ((1, 3, 3), (1, 3, 3))
    """
    if mask is not None:
        mask = masks.check_boolean("mask", mask)
    similar = scores.get(score)(query, key)  # (..., T, S)
    weights = normalizers.get(normalizer)(similar, mask)  # (..., T, S)
    weights = ops.cast(weights, value.dtype)
    used = keras.random.dropout(weights, dropout, seed=seed) if dropout else weights
    used = used if keep is None else used * keep
    return ops.matmul(used, value), weights  # (..., T, V)


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    is_causal: bool = False,
) -> Tensor:
    """softmax(q kᵀ / √E) v for many heads, in the backend's fastest way.

    Equal to :func:`attend` with its default score and normalizer, but the weights
    are not returned and, where the backend has a fused kernel, never held.

    Args:
        query: (B, T, H, E).
        key: (B, S, H, E).
        value: (B, S, H, V).
        mask: booleans that broadcast to (B, H, T, S), True = may attend; or None.
        scale: what multiplies q kᵀ; by default 1/√E.
        is_causal: whether query t may see only keys 0 … t.

    Returns:
        (B, T, H, V), 0 for each query that may attend to nothing.

    Raises:
        ValueError: if a tensor has not rank 4, a mask does not fit, or queries and
            keys are not of one width.

    Example:

    >>> import numpy as np
    >>> from keras_attention import ops
    >>> x = np.ones((2, 5, 3, 4), "float32")
    >>> tuple(ops.dot_product_attention(x, x, x).shape)
    (2, 5, 3, 4)

    Reference:
        Vaswani et al., "Attention is all you need" (2017), equation 1.
    """
    _check_heads(query, key, value)
    (batch, queries, heads, width), keys = query.shape, key.shape[1]
    mask = masks.check("mask", mask, (batch, heads, queries, keys))
    scale = width**-0.5 if scale is None else scale
    return kernels.dot_product_attention(query, key, value, mask, scale, is_causal)


def _check_heads(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if len(tensor.shape) != 4:
            raise ValueError(
                f"`{name}` must have rank 4, (batch, length, heads, width). "
                f"Received: {name}.shape={tuple(tensor.shape)}"
            )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            "`query` and `key` must have the same width (last axis). "
            f"Received: query.shape={tuple(query.shape)}, key.shape={tuple(key.shape)}"
        )
