"""Multi-head attention: the one equation of the layers with heads.

    scores  = q kᵀ / √E, capped, with a bias
    weights = normalize(scores, mask)
    output  = weights · v

:func:`attend_heads` computes it by a fused kernel that never stores the weights if one
fits, else step by step, by `weighted_heads`.

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
from keras_attention.numerics import mask_objects, masks, normalizers
from keras_attention.ops.attention import check_heads, full_bias

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
        mask: booleans that broadcast to (B, H, T, S), True = may attend; a mask object
            of :mod:`keras_attention.masks`; or None.
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
        ValueError: as :func:`dot_product_attention` does, for an unknown normalizer,
            or for a sink with another normalizer than softmax.

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
    if isinstance(mask, mask_objects.Mask):
        mask_objects.check("mask", mask, batch, queries, keys)
    else:
        mask = masks.check("mask", mask, (batch, heads, queries, keys))
    bias = full_bias(bias, query, key)
    if isinstance(normalizer, str):
        normalizers.get(normalizer)
    if sink is not None and normalizer != "softmax":
        raise ValueError(
            '`sink` needs normalizer="softmax", in which it takes part. Received: '
            f"normalizer={normalizer!r}"
        )
    if sliding_window is not None:
        mask_objects.whole("sliding_window", sliding_window, 1)
    return attend_projected(
        query,
        key,
        value,
        mask,
        scale,
        normalizer,
        bias,
        dropout=dropout,
        seed=seed,
        dropout_mask=dropout_mask,
        soft_cap=soft_cap,
        sink=sink,
        is_causal=is_causal,
        sliding_window=sliding_window,
        return_weights=return_weights,
    )


def attend_projected(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    normalizer: str | Callable = "softmax",
    bias: Tensor | None = None,
    *,
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
    """Computes :func:`attend_heads` without its checks, for arguments of a layer.

    An array of a mask and a bias have four axes, `dropout` may be a function of the
    weights, and `fused` says whether a fused kernel may be used.
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    fused = fused and not return_weights and dropout_mask is None and soft_cap is None
    has_sink = sink is not None or normalizer == "softmax1"
    if has_sink:  # the kernel needs an extra key, which is slower for a single query
        fused = fused and query.shape[1] != 1 and scale == query.shape[-1] ** -0.5
    elif normalizer != "softmax":
        fused = False
    output = None
    if isinstance(mask, mask_objects.Mask):
        mask = mask_objects.every(mask, is_causal=is_causal, window=sliding_window)
        simple, is_causal, sliding_window = mask_objects.simple(mask), False, None
        if simple is not None:
            mask, is_causal, sliding_window = simple
        elif fused and not dropout and not has_sink and bias is None:
            output = kernels.masked_attention(query, key, value, mask, scale)
            if output is not None:
                return output, None
        mask = mask_objects.as_array(mask, ops.shape(query)[1], ops.shape(key)[1])
    if sliding_window is not None:
        if fused and not dropout and not has_sink and bias is None:
            output = kernels.local_attention(
                query, key, value, mask, scale, is_causal, sliding_window
            )
        if output is not None:
            return output, None
        near = masks.sliding_window(
            ops.shape(query)[1], ops.shape(key)[1], sliding_window
        )
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
    drop: Callable | None = None
    if dropout_mask is not None:
        drop = partial(ops.multiply, dropout_mask)
    elif callable(dropout):
        drop = dropout
    elif dropout:
        drop = partial(keras.random.dropout, rate=dropout, seed=seed)
    return weighted_heads(
        query, key, value, mask, bias, normalize, scale, soft_cap, drop
    )


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    bias: Tensor | None = None,
    sliding_window: int | None = None,
) -> Tensor:
    """Computes multi-head softmax(q kᵀ / √E) v with the fastest kernel of the backend.

    Returns the output of :func:`attend` with the default score and normalizer, without
    the weights. A fused kernel never stores the weights. On a CPU with large, static T
    and S, the queries are processed in chunks, and the weights are recomputed for the
    gradient, so memory grows with T + S rather than T · S. Second derivatives store the
    weights.

    Args:
        query: (B, T, H, E).
        key: (B, S, G, E), where G divides H: H/G consecutive query heads share one head
            of keys and values.
        value: (B, S, G, V).
        mask: booleans that broadcast to (B, H, T, S), True = may attend; a mask object
            of :mod:`keras_attention.masks`; or None.
        scale: the factor of q kᵀ; 1/√E by default.
        is_causal: whether query t may attend only to keys 0 … t.
        bias: numbers added to the scores, which broadcast to (B, H, T, S); or None.
            Values below a quarter of the lowest number of the dtype, including −∞, are
            raised to this quarter. A key with such a bias gets weight 0, unless all
            keys of its row have such a bias. Use `mask` to exclude keys.
        sliding_window: w; query t attends only to keys s with |t − s| < w, before and
            after t unless `is_causal`. Without a bias, and with no mask or a mask
            (B, 1, 1, S), time and memory then grow linearly with T. None for no window.

    Returns:
        (B, T, H, V), 0 for each query that may attend to no key.

    Raises:
        ValueError: if a tensor does not have rank 4 or holds integers, a mask or a bias
            does not fit, queries and keys differ in width, the number of key heads does
            not divide the number of query heads, or the window is no whole number of at
            least 1.

    Example:

    >>> import numpy as np
    >>> from keras_attention import ops
    >>> x = np.ones((2, 5, 3, 4), "float32")
    >>> tuple(ops.dot_product_attention(x, x, x).shape)
    (2, 5, 3, 4)

    Reference:
        Vaswani et al., "Attention is all you need" (2017), equation 1.
    """
    output, _ = attend_heads(
        query,
        key,
        value,
        mask,
        scale,
        bias=bias,
        is_causal=is_causal,
        sliding_window=sliding_window,
        return_weights=False,
    )
    return output


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

        weightᵢ = exp(zᵢ) / (exp(b) + Σⱼ exp(zⱼ))

    This is the softmax over the scores and one more score b, without the weight of b.
    The result equals attention with one more key of zeros that has the bias b and a
    value of zeros, so the softmax kernels can compute it.

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


def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    device_mesh: Any,
    axis: str = "sequence",
    mask: Tensor | None = None,
    scale: float | None = None,
    is_causal: bool = False,
) -> Tensor:
    """Computes softmax(q kᵀ / √E) v for a sequence that is split over devices.

    Each of n devices holds T/n queries and S/n keys and values. The keys and values go
    round the devices, and each device adds up the softmax of its queries, so the result
    is exact. The memory of a device grows with (T + S)/n, also for the gradient, which
    goes round once more. With `is_causal`, all devices still compute all scores.

    Only JAX splits tensors. The batch and the heads can be split over other axes of the
    mesh.

    Args:
        query: (B, T, H, E).
        key: (B, S, G, E), where G divides H: H/G consecutive query heads share one head
            of keys and values.
        value: (B, S, G, V).
        device_mesh: a `keras.distribution.DeviceMesh` or a `jax.sharding.Mesh`.
        axis: the axis of the mesh over which the sequence is split. Its size must
            divide T and S.
        mask: booleans that broadcast to (B, S), True for keys that may be attended to;
            or None.
        scale: the factor of q kᵀ; 1/√E by default.
        is_causal: whether query t may attend only to keys 0 … t.

    Returns:
        (B, T, H, V), split as the queries; 0 for each query that may attend to no key.

    Raises:
        RuntimeError: if the backend is not JAX, or JAX has no `jax.shard_map`.
        ValueError: if the mesh is no mesh or lacks the axis, the size of the axis does
            not divide a length, or a tensor does not fit, as in
            :func:`dot_product_attention`.

    Reference:
        Liu, Zaharia & Abbeel, "Ring attention with blockwise Transformers for
        near-infinite context" (2023).
    """
    sizes = kernels.axis_sizes(device_mesh, axis, "`ring_attention`")
    check_heads(query, key, value)
    if query.shape[1] % sizes[axis] or key.shape[1] % sizes[axis]:
        raise ValueError(
            f"The {sizes[axis]} devices of the axis {axis!r} must divide the lengths "
            "of `query` and `key` (axis 1). Received: "
            f"query.shape={tuple(query.shape)}, key.shape={tuple(key.shape)}"
        )
    if query.shape[0] != key.shape[0] or key.shape[:2] != value.shape[:2]:
        raise ValueError(
            "`query`, `key` and `value` must have the same batch size, and `key` and "
            f"`value` the same length. Received: query.shape={tuple(query.shape)}, "
            f"key.shape={tuple(key.shape)}, value.shape={tuple(value.shape)}"
        )
    mask = masks.check("mask", mask, (key.shape[0], key.shape[1]))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return kernels.ring_attention(
        query, key, value, mask, scale, is_causal, device_mesh, axis
    )
