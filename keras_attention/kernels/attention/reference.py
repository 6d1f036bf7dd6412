"""Scaled dot-product attention in Keras operations.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_attention.kernels.attention.tiles import Band
from keras_attention.numerics import masks, normalizers
from keras_attention.numerics.axes import grouped_matmul
from keras_attention.numerics.precision import to_float32

Tensor = Any

SPAN = 8  # blocks of a span in a sliding window, unless the window is longer


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


def window_attention(
    loops: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    band: Band,
) -> Tensor:
    """Computes attention in a sliding window, for a mask (B, 1, 1, S).

    A span of P queries is computed at a time, and again for the gradient. A span meets
    few keys before and after it, and each of its N blocks the L keys that `band` says.
    The heads of a span are computed one after another, so that their scores stay in the
    cache. `loops` is a module of `kernels/scan`. All sizes except the batch must be
    static.
    """
    size, width = band.size, value.shape[3]  # C, V
    heads, groups = query.shape[2], key.shape[2]
    blocks = max(min(SPAN, band.blocks), band.before)  # N
    span, count = blocks * size, math.ceil(band.blocks / blocks)  # P

    def near(x: Tensor) -> Tensor:
        """Returns the keys that each block of a span meets, (G, N, L, 1, ·)."""
        x = ops.reshape(x, (-1, size, *x.shape[1:]))
        shifts = range(band.before + 1 + band.after)
        x = ops.concatenate([x[i : i + blocks] for i in shifts], axis=1)
        return ops.expand_dims(ops.moveaxis(x, 2, 0), 3)

    def step(state: Any, tensors: list[Tensor]) -> tuple[Any, Tensor]:
        number, q, k, v, *visible_keys = tensors
        first = number % count * blocks + ops.arange(blocks, dtype="int32")
        t = size * first[:, None, None] + ops.arange(size, dtype="int32")[:, None]
        s = ops.arange(band.width, dtype="int32") - size * band.before
        visible = band.sees(t, size * first[:, None, None] + s)  # (N, C, L)
        if visible_keys:
            keys = near(visible_keys[0])[0, :, :, 0, 0]  # (N, L)
            visible = ops.logical_and(visible, keys[:, None])

        def group(state: Any, tensors: list[Tensor]) -> tuple[Any, Tensor]:
            out = dot_product_attention(*tensors, visible[:, None], scale, False)
            return state, out  # (N, C, H/G, V)

        q = ops.reshape(q, (blocks, size, groups, heads // groups, -1))
        _, out = loops.scan(group, (), [ops.moveaxis(q, 2, 0), near(k), near(v)])
        return state, ops.reshape(ops.moveaxis(out, 0, 2), (span, heads, width))

    before, after = size * band.before, size * band.after
    inputs = [
        _spans(query, span, count, 0, 0),
        *(_spans(x, span, count, before, after) for x in (key, value)),
    ]
    if mask is not None:
        keys = ops.transpose(mask, (0, 3, 1, 2))  # (B, S, 1, 1)
        keys = ops.broadcast_to(keys, (ops.shape(key)[0], band.keys, 1, 1))
        inputs.append(_spans(keys, span, count, before, after))
    numbers = ops.expand_dims(masks.positions(ops.shape(inputs[0])[0]), 1)
    _, out = loops.segments(step, (), [numbers, *inputs])  # (B ·, 1, P, H, V)
    out = ops.reshape(out, (-1, count * span, heads, width))
    return out[:, : band.queries]


def _spans(x: Tensor, span: int, count: int, before: int, after: int) -> Tensor:
    """Cuts (B, S, G, ·) into spans with the keys around them, (B ·, 1, ·, G, ·)."""
    x = x[:, : span * count + after]
    missing = span * count + after - x.shape[1]
    x = ops.pad(x, ((0, 0), (0, missing), (0, 0), (0, 0)))
    spans = ops.reshape(x[:, : span * count], (-1, count, span, *x.shape[2:]))
    last = ops.expand_dims(x[:, span * count :], 1)
    first = ops.zeros_like(spans[:, :1, :before])
    parts = (
        ops.concatenate([first, spans[:, :-1, span - before :]], axis=1),
        spans,
        ops.concatenate([spans[:, 1:, :after], last], axis=1),
    )
    x = ops.concatenate(parts, axis=2)
    return ops.reshape(x, (-1, 1, *x.shape[2:]))


def local_attention(*args: Any) -> Tensor | None:
    """Returns None: a mask of the window is as fast."""
    return None


def dropout_attention(*args: Any) -> Tensor | None:
    """Returns None: explicit weights are as fast."""
    return None


def lookup(query: Tensor, table: Tensor, count: Any) -> Tensor | None:
    """Returns None: the caller's chunked computation is as fast.

    On TensorFlow with XLA, a loop that computed powers of two instead of exp was only
    1.05 times as fast.
    """
    return None
