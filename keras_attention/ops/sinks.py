"""Attention sinks on the fused path, as one more key with a value of zeros.

    weightᵢ = exp(zᵢ) / (exp(b) + Σⱼ exp(zⱼ))

is the softmax over the scores and one more score b; the weight of b is discarded. The
result equals attention with one more key of zeros that has the bias b and a value of
zeros, so the softmax kernels can compute it.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_attention.ops.attention import dot_product_attention, full_bias

Tensor = Any


def sink_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sink: Tensor | None = None,
    mask: Tensor | None = None,
    is_causal: bool = False,
    bias: Tensor | None = None,
) -> Tensor:
    """Computes attention with `normalizers.sink_softmax` by a fused kernel if possible.

    `sink` (H,) is the score of the sink in each head; 0 by default, which equals
    `normalizers.softmax1`. The other arguments are those of `dot_product_attention`.

    Returns:
        (B, T, H, V), 0 for each query that may attend to no key.

    Raises:
        ValueError: as `dot_product_attention` does.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import sinks
    >>> x = np.zeros((1, 3, 1, 2), "float32")
    >>> value = np.ones((1, 3, 1, 1), "float32")
    >>> np.asarray(sinks.sink_attention(x, x, value))[0, :, 0, 0].tolist()
    [0.75, 0.75, 0.75]

    Reference:
        Miller, "Attention is off by one" (2023); OpenAI, "gpt-oss-120b & gpt-oss-20b
        model card" (2025), section 2.
    """
    keys = ops.shape(key)[1]
    # The new key comes first, so that every query sees it under a causal mask. One more
    # query in front keeps the other queries aligned with their keys.
    if mask is not None:
        mask = _with_first(mask, keys, ops.ones_like)
        if is_causal and mask.shape[2] != 1:
            mask = ops.concatenate([ops.ones_like(mask[:, :, :1]), mask], axis=2)
    if bias is not None or sink is not None:
        bias = _biased(full_bias(bias, query, key), sink, keys)
        if is_causal and bias.shape[2] != 1:
            bias = ops.pad(bias, ((0, 0), (0, 0), (1, 0), (0, 0)))
    query = _padded(query) if is_causal else query
    key, value = _padded(key), _padded(value)
    out = dot_product_attention(query, key, value, mask, None, is_causal, bias)
    return out[:, 1:] if is_causal else out


def _padded(x: Tensor) -> Tensor:
    """Prepends zeros to heads: (B, S, G, E) becomes (B, S + 1, G, E)."""
    return ops.pad(x, ((0, 0), (1, 0), (0, 0), (0, 0)))


def _with_first(x: Tensor, keys: Any, first: Callable) -> Tensor:
    """Prepends a key with the values `first` to x, which broadcasts to (B, H, T, S).

    `first` is a function that makes them from a key's entries (·, ·, ·, 1).
    """
    if x.shape[-1] == 1:
        x = ops.broadcast_to(x, (*ops.shape(x)[:-1], keys))
    # Not `pad`: TensorFlow's exporter to ONNX supports no padding of booleans.
    return ops.concatenate([first(x[..., :1]), x], axis=-1)


def _biased(bias: Tensor | None, sink: Tensor | None, keys: Any) -> Tensor:
    """Prepends the sink to a bias, as the first key: (·, ·, ·, S + 1)."""
    if bias is None:
        bias = ops.zeros((1, 1, 1, 1), "float32")
    bias = ops.cast(bias, "float32")
    if sink is None:
        return _with_first(bias, keys, ops.zeros_like)
    each = ops.cast(sink, "float32")[:, None, None]  # (H, 1, 1)
    bias = bias + ops.zeros_like(each)  # (·, H, ·, ·)
    return _with_first(bias, keys, lambda key: ops.zeros_like(key) + each)
