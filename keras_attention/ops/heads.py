"""Multi-head attention: the one equation of the layers with heads.

    scores  = q kᵀ / √E, capped, with a bias
    weights = normalize(scores, mask)
    output  = weights · v

:func:`attend_projected` computes it by a fused kernel that never stores the weights if
one fits, else step by step, by `weighted_heads`.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.kernels.attention.reference import weighted_heads
from keras_attention.numerics import masks, normalizers
from keras_attention.ops.attention import check_heads, full_bias
from keras_attention.ops.sinks import sink_attention

Tensor = Any


def attend_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    normalizer: str | Callable = "softmax",
    bias: Tensor | None = None,
    *,
    dropout: float = 0.0,
    seed: Any = None,
    dropout_mask: Tensor | None = None,
    soft_cap: float | None = None,
    sink: Tensor | None = None,
    is_causal: bool = False,
    sliding_window: int | None = None,
    return_weights: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Computes multi-head attention with any normalizer.

    Args:
        query: (B, T, H, E).
        key: (B, S, G, E), where G divides H.
        value: (B, S, G, V).
        mask: booleans that broadcast to (B, H, T, S), True = may attend; or None.
        scale: the factor of q kᵀ; 1/√E by default.
        normalizer: the name of a normalizer, or a callable f(scores, mask).
        bias: numbers added to the scores, which broadcast to (B, H, T, S); or None.
            Values below a quarter of the lowest number of the dtype, including −∞, are
            raised to this quarter. A key with such a bias gets weight 0, unless all
            keys of its row have such a bias. Use `mask` to exclude keys.
        dropout: the fraction of the weights to drop; the remaining weights are scaled
            up.
        seed: a `keras.random.SeedGenerator`, for the dropout.
        dropout_mask: (B, H, T, S), factors that multiply the weights before the weights
            multiply the values; or None.
        soft_cap: c, the cap: a score z becomes c tanh(z / c) before the bias is added;
            or None.
        sink: (H,), the score of each head's attention sink, with the softmax; or None.
        is_causal: whether query t may attend only to keys 0 … t.
        sliding_window: w; query t attends only to keys s with |t − s| < w, before and
            after t unless `is_causal`. None for no window.
        return_weights: whether to return the weights. Without them, a fused kernel is
            used if possible.

    Returns:
        The output (B, T, H, V) and the weights (B, H, T, S) before dropout, which may
        be None with `return_weights=False`. Both are 0 for each query that may attend
        to no key.

    Raises:
        ValueError: as :func:`dot_product_attention` does, or for a sink with another
            normalizer than softmax.

    Example:

    >>> import numpy as np
    >>> from keras_attention import ops
    >>> q, k = np.ones((2, 5, 4, 3), "float32"), np.ones((2, 7, 2, 3), "float32")
    >>> output, weights = ops.attend_heads(q, k, k)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 4, 3), (2, 4, 5, 7))

    Reference:
        Vaswani et al., "Attention is all you need" (2017), equation 1; shared heads:
        Shazeer, "Fast Transformer decoding" (2019), Ainslie et al., "GQA" (2023); the
        soft cap: Gemma Team, "Gemma 2" (2024), section 2.
    """
    check_heads(query, key, value)
    (batch, queries, heads, _), keys = query.shape, key.shape[1]
    mask = masks.check("mask", mask, (batch, heads, queries, keys))
    bias = full_bias(bias, query, key)
    if isinstance(normalizer, str):
        normalizers.get(normalizer)
    if sink is not None and normalizer != "softmax":
        raise ValueError(
            '`sink` needs normalizer="softmax", in which it takes part. Received: '
            f"normalizer={normalizer!r}"
        )
    return attend_projected(
        query,
        key,
        value,
        mask,
        scale,
        normalizer,
        bias,
        dropout,
        seed,
        dropout_mask,
        soft_cap,
        sink,
        is_causal,
        sliding_window,
        return_weights,
    )


def attend_projected(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    normalizer: str | Callable = "softmax",
    bias: Tensor | None = None,
    dropout: float | Callable = 0.0,
    seed: Any = None,
    dropout_mask: Tensor | None = None,
    soft_cap: float | None = None,
    sink: Tensor | None = None,
    is_causal: bool = False,
    sliding_window: int | None = None,
    return_weights: bool = False,
    fused: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Computes :func:`attend_heads` for checked arguments.

    A mask and a bias have four axes. `dropout` can be a function of the weights, and
    `fused` says whether a fused kernel may be used.
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    window = sliding_window
    fused = fused and not return_weights and dropout_mask is None and soft_cap is None
    has_sink = sink is not None or normalizer == "softmax1"
    if has_sink:  # the kernel needs an extra key, which is slower for a single query
        fused = fused and query.shape[1] != 1 and scale == query.shape[-1] ** -0.5
    elif normalizer != "softmax":
        fused = False
    output = None
    if window is not None:
        if fused and not dropout and not has_sink and bias is None:
            output = kernels.local_attention(
                query, key, value, mask, scale, is_causal, window
            )
        if output is not None:
            return output, None
        near = masks.sliding_window(ops.shape(query)[1], ops.shape(key)[1], window)
        mask = masks.merge(mask, near[None, None])
    if fused and dropout:
        if not has_sink and isinstance(seed, keras.random.SeedGenerator):
            output = kernels.dropout_attention(
                query, key, value, mask, scale, is_causal, bias, dropout, seed
            )
    elif fused and has_sink:
        output = sink_attention(query, key, value, sink, mask, is_causal, bias)
    elif fused:
        output = kernels.dot_product_attention(
            query, key, value, mask, scale, is_causal, bias
        )
    if output is not None:
        return output, None
    if is_causal:
        causal = masks.causal(ops.shape(query)[1], ops.shape(key)[1])
        mask = masks.merge(mask, causal[None, None])
    normalize = normalizers.get(normalizer)
    if sink is not None:
        sink = ops.cast(sink, "float32")[:, None, None]  # (H, 1, 1)
        normalize = partial(normalizers.sink_softmax, sink=sink)
    drop = None
    if dropout_mask is not None:
        drop = lambda weights: weights * dropout_mask  # noqa: E731
    elif callable(dropout):
        drop = dropout
    elif dropout:
        drop = lambda weights: keras.random.dropout(weights, dropout, seed=seed)  # noqa: E731
    return weighted_heads(
        query, key, value, mask, bias, normalize, scale, soft_cap, drop
    )


def hide_queries(
    query_mask: Tensor, heads: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Sets the outputs (B, T, H, V) and weights (B, H, T, S) of masked queries to 0."""
    is_valid = ops.expand_dims(query_mask, (2, 3))  # (B, T, 1, 1)
    heads = ops.where(is_valid, heads, ops.zeros_like(heads))
    if weights is not None:
        is_valid = ops.expand_dims(query_mask, (1, 3))  # (B, 1, T, 1)
        weights = ops.where(is_valid, weights, ops.zeros_like(weights))
    return heads, weights
