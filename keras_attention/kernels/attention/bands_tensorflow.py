"""Attention in a sliding window on TensorFlow, block by block; see `bands.py`."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from keras_attention.kernels.attention.bands import Band
from keras_attention.kernels.attention.loops_tensorflow import (
    loop,
    recomputed_tiles,
)
from keras_attention.numerics import masks, normalizers
from keras_attention.numerics.precision import to_float32

Tensor = Any


class _Blocks(NamedTuple):
    """The tensors of a call, split into blocks. Rows are the heads of a group."""

    query: Tensor  # (N, B G, H/G C, E)
    key: Tensor  # (B G, ·, E), with the keys of all blocks
    value: Tensor  # (B G, ·, V)
    mask: Tensor | None  # (B G, 1, ·)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    band: Band,
) -> Tensor:
    """Computes attention for a mask (B, 1, 1, S).

    All sizes except the batch must be static.
    """

    def visible() -> Tensor | None:
        sizes = band.queries, band.keys
        near = masks.sliding_window(*sizes, band.window)[None, None]
        causal = masks.causal(*sizes)[None, None] if band.is_causal else None
        return masks.merge(mask, near, causal)

    output, gradients = partial(_output, band, mask), partial(_gradients, band, mask)
    tensors = query * scale, key, value
    return recomputed_tiles(output, gradients, visible, *tensors)


def _output(
    band: Band, mask: Tensor | None, query: Tensor, key: Tensor, value: Tensor
) -> Tensor:
    blocks = _cut(band, mask, query, key, value)

    def step(n: Tensor, out: Any) -> tuple[Tensor, Any]:
        weights = _weights(band, blocks, n)
        values = _near(band, blocks.value, n)
        return n + 1, out.write(n, tf.matmul(tf.cast(weights, value.dtype), values))

    out = tf.TensorArray(value.dtype, band.blocks, infer_shape=False)
    (out,) = loop(step, band.blocks, out)
    heads = _heads(band, out.stack(), query, value.shape[3])
    return tf.ensure_shape(heads, (*query.shape[:3], value.shape[3]))


def _gradients(
    band: Band,
    mask: Tensor | None,
    _: Tensor,
    slope: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
) -> list[Tensor]:
    """Recomputes each block; returns the gradients of query, key and value.

    The gradients of the L keys of a block are summed in a buffer. After each block, its
    first C keys are complete, and the buffer moves on by C keys.
    """
    blocks = _cut(band, mask, query, key, value)
    slopes = _rows(band, slope, key.shape[2])

    def step(
        n: Tensor, dq: Any, dk: Any, dv: Any, keys: Tensor, values: Tensor
    ) -> tuple[Any, ...]:
        weights = _weights(band, blocks, n)
        part = to_float32(
            tf.matmul(slopes[n], _near(band, blocks.value, n), transpose_b=True)
        )
        part = weights * (part - tf.reduce_sum(weights * part, -1, keepdims=True))
        weights, part = (tf.cast(x, query.dtype) for x in (weights, part))
        dq = dq.write(n, tf.matmul(part, _near(band, blocks.key, n)))
        keys += to_float32(tf.matmul(part, blocks.query[n], transpose_a=True))
        values += to_float32(tf.matmul(weights, slopes[n], transpose_a=True))
        dk = dk.write(n, keys[:, : band.size])
        dv = dv.write(n, values[:, : band.size])
        keys, values = (
            tf.pad(x[:, band.size :], [[0, 0], [0, band.size], [0, 0]])
            for x in (keys, values)
        )
        return n + 1, dq, dk, dv, keys, values

    wide = to_float32(query[:0]).dtype
    arrays = [
        tf.TensorArray(dtype, band.blocks, infer_shape=False)
        for dtype in (query.dtype, wide, wide)
    ]
    group = tf.shape(blocks.key)[0]
    zeros = [tf.zeros((group, band.width, x.shape[3]), wide) for x in (key, value)]
    dq, *sums, keys, values = loop(step, band.blocks, *arrays, *zeros)
    gradients = [_heads(band, dq.stack(), query, query.shape[3])]
    for array, last, x in zip(sums, (keys, values), (key, value)):
        groups, width = x.shape[2:]
        done = tf.transpose(array.stack(), (1, 0, 2, 3))  # (B G, N, C, ·)
        done = tf.reshape(done, (group, band.blocks * band.size, width))
        done = tf.concat([done, last[:, : band.width - band.size]], 1)
        before, after = band.padding
        done = done[:, before : before + min(band.keys, band.keys + after)]
        done = tf.pad(done, [[0, 0], [0, max(-after, 0)], [0, 0]])
        done = tf.reshape(done, (-1, groups, band.keys, width))
        gradients.append(tf.cast(tf.transpose(done, (0, 2, 1, 3)), x.dtype))
    return gradients


def _weights(band: Band, blocks: _Blocks, n: Tensor) -> Tensor:
    """Returns the float32 weights of block n, (B G, H/G C, L)."""
    keys = _near(band, blocks.key, n)
    scores = to_float32(tf.matmul(blocks.query[n], keys, transpose_b=True))
    t = n * band.size + tf.range(blocks.query.shape[2])[:, None] % band.size
    s = (n - band.before) * band.size + tf.range(band.width)
    visible = band.sees(t, s)
    if blocks.mask is not None:
        start = n * band.size
        visible = visible & blocks.mask[..., start : start + band.width]
    return normalizers.softmax(scores, visible)


def _near(band: Band, x: Tensor, n: Tensor) -> Tensor:
    """Returns the keys or values of block n, (B G, L, ·)."""
    start = n * band.size
    keys = x[:, start : start + band.width]
    return tf.ensure_shape(keys, (x.shape[0], band.width, x.shape[2]))


def _cut(
    band: Band, mask: Tensor | None, query: Tensor, key: Tensor, value: Tensor
) -> _Blocks:
    groups = key.shape[2]
    k, v = (_fitted(band, x) for x in (key, value))
    if mask is not None:
        seen = tf.broadcast_to(mask[:, 0], (tf.shape(key)[0], 1, band.keys))
        seen = tf.repeat(seen, groups, axis=0)[..., None]  # (B G, 1, S, 1)
        mask = _fitted(band, tf.transpose(seen, (0, 2, 1, 3)))[:, None, :, 0]
    return _Blocks(_rows(band, query, groups), k, v, mask)


def _rows(band: Band, x: Tensor, groups: int) -> Tensor:
    """Reshapes (B, T, H, E) to (N, B G, H/G C, E), with zero padding."""
    shared, width = x.shape[2] // groups, x.shape[3]
    missing = band.blocks * band.size - band.queries
    x = tf.pad(x, [[0, 0], [0, missing], [0, 0], [0, 0]])
    x = tf.reshape(x, (-1, band.blocks, band.size, groups, shared, width))
    x = tf.transpose(x, (1, 0, 3, 4, 2, 5))
    return tf.reshape(x, (band.blocks, -1, shared * band.size, width))


def _heads(band: Band, x: Tensor, query: Tensor, width: int) -> Tensor:
    """Reshapes (N, B G, H/G C, ·) to (B, T, H, ·), the inverse of `_rows`."""
    batch, heads = tf.shape(query)[0], query.shape[2]
    x = tf.reshape(x, (band.blocks, batch, heads, band.size, width))
    x = tf.transpose(x, (1, 0, 3, 2, 4))
    x = tf.reshape(x, (batch, band.blocks * band.size, heads, width))
    return x[:, : band.queries]


def _fitted(band: Band, x: Tensor) -> Tensor:
    """Reshapes (B, S, G, ·) to (B G, ·, ·) with the keys of all blocks."""
    before, after = band.padding
    x = tf.transpose(x[:, : band.keys + min(after, 0)], (0, 2, 1, 3))
    x = tf.pad(x, [[0, 0], [0, 0], [before, max(after, 0)], [0, 0]])
    length = (band.before + band.blocks + band.after) * band.size
    return tf.reshape(x, (-1, length, x.shape[3]))
