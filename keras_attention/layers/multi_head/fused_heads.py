"""Attention with heads in the fused kernels, which do not return the weights.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention import kernels
from keras_attention.numerics import masks
from keras_attention.ops.sinks import sink_attention

Tensor = Any


def attend(
    layer: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    bias: Tensor | None,
    window: int | None,
) -> Tensor:
    """Returns the output of the heads (B, T, H, V) from a fused kernel.

    Args:
        layer: a `HeadsAttention` with a softmax, softmax1 or sinks.
        query: (B, T, H, E).
        key: (B, S, G, E).
        value: (B, S, G, V).
        mask: booleans that broadcast to (B, H, T, S), or None.
        is_causal: whether query t may attend only to keys 0 … t.
        bias: a tensor that broadcasts to (B, H, T, S), or None; excludes a window.
        window: the sliding window, if the mask does not include it; or None.
    """
    if layer.normalizer == "softmax1" or layer._sinks is not None:
        if window is not None:
            near = layer._compute_sliding_window_mask(query, value)
            mask = masks.merge(mask, ops.expand_dims(near, 1))
        return sink_attention(query, key, value, layer._sinks, mask, is_causal, bias)
    scale = layer._inverse_sqrt_key_dim
    if window is not None:
        return kernels.local_attention(
            query, key, value, mask, scale, is_causal, window
        )
    return kernels.dot_product_attention(
        query, key, value, mask, scale, is_causal, bias
    )


def drop(
    layer: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    bias: Tensor | None,
) -> Tensor | None:
    """Returns the output with dropout of the weights, or None if no kernel fits.

    The arguments are those of `attend`; a mask may also be (B, T, S).
    """
    if layer._is_subclass:  # it may have replaced the layer `_dropout_layer`
        return None
    if layer.normalizer != "softmax" or layer._sinks is not None or layer.dropout == 1:
        return None
    if mask is not None and len(mask.shape) == 3:
        mask = ops.expand_dims(mask, 1)  # (B, 1, T, S)
    options = mask, layer._inverse_sqrt_key_dim, is_causal, bias
    seed = layer._dropout_layer.seed_generator
    return kernels.dropout_attention(query, key, value, *options, layer.dropout, seed)
