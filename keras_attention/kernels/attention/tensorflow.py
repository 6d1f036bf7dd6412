"""Scaled dot-product attention on TensorFlow, in the shapes of `reference.py`.

Long sequences are computed tile by tile; see `tiles.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from keras_attention.kernels.attention import reference, tiles
from keras_attention.kernels.scan import tensorflow as loops
from keras_attention.numerics import masks, normalizers
from keras_attention.numerics.precision import is_half, to_float32

dropout_attention = reference.dropout_attention

Tensor = Any


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    bias: Tensor | None = None,
) -> Tensor:
    """Computes two products; long sequences are computed tile by tile."""
    pays = tiles.pays(query, key, value)
    if pays and tf.executing_eagerly():
        pays = math.prod(query.shape[:3]) * key.shape[1] >= tiles.EAGER
    if not pays:
        return reference.dot_product_attention(
            query, key, value, mask, scale, is_causal, bias
        )
    query, key, value = (tf.convert_to_tensor(x) for x in (query, key, value))
    bias = None if bias is None else tf.convert_to_tensor(bias)
    query, outputs = query * scale, []
    for segment in tiles.segments(query.shape[1], key.shape[1], is_causal):
        tensors = [
            query[:, segment.queries],
            *(x[:, segment.keys] for x in (key, value)),
            *([] if bias is None else [segment.pairs(bias)]),
        ]
        first = segment.queries.start if is_causal else None
        out = _segment(segment.pairs(mask), first, segment.tiles, *tensors)
        outputs.append(out)
    return tf.concat(outputs, 1) if len(outputs) > 1 else outputs[0]


def local_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    window: int,
) -> Tensor | None:
    """Computes attention in a sliding window by blocks."""
    band = tiles.plan(query, key, value, mask, is_causal, window)
    if band is None:
        return None
    q, k, v = (tf.convert_to_tensor(x) for x in (query, key, value))
    return reference.window_attention(loops, q, k, v, mask, scale, band)


def loop(step: Callable, times: Any, *state: Any) -> tuple[Any, ...]:
    """Runs step(counter, *state) `times` times and returns the last state."""
    return tf.while_loop(
        lambda i, *_: i < times,
        step,
        (tf.constant(0), *state),
        parallel_iterations=1,  # more would store several tiles at once
        maximum_iterations=times,
    )[1:]


def recomputed(
    output: Callable, gradients: Callable, plain: Callable, *tensors: Tensor
) -> Tensor:
    """Returns output(*tensors); only the tensors and the output are stored.

    The gradient is gradients(output, slope, *tensors). Second derivatives are those of
    plain(slope, *tensors), the same gradient by differentiable operations.
    """

    # The tape cannot record XLA's loops; `stop_gradient` keeps it from trying.
    @tf.custom_gradient
    def run(*tensors: Tensor) -> tuple[Tensor, Callable]:
        out = output(*map(tf.stop_gradient, tensors))

        @tf.custom_gradient
        def first(*sources: Tensor) -> tuple[Any, Callable]:
            def second(*slopes: Tensor) -> Any:
                with tf.GradientTape() as tape:
                    tape.watch(sources)
                    results = plain(*sources)
                return tape.gradient(results, sources, slopes)

            return gradients(out, *map(tf.stop_gradient, sources)), second

        def backward(slope: Tensor) -> list[Tensor]:
            pairs = zip(first(slope, *tensors), tensors)
            return [tf.ensure_shape(gradient, x.shape) for gradient, x in pairs]

        return out, backward

    return run(*tensors)


class _Tiles(NamedTuple):
    """The tensors of a segment, split into tiles.

    Tile i is the n-th of sample b and head h: i = (b H + h) N + n.
    """

    query: Tensor  # (B H N, C, E)
    key: Tensor  # (B G, E, S)
    value: Tensor  # (B G, S, V)
    bias: Tensor | None  # (B, H, N, C, S); axes of size 1 are broadcast
    mask: Tensor | None  # as `bias`
    start: int | None
    sizes: tuple[Any, int, int, int]  # B, G, H/G, N


def _segment(
    mask: Tensor | None, start: int | None, count: int, *tensors: Tensor
) -> Tensor:
    """Computes the output (B, T, H, V) from query, key, value and an optional bias.

    `start` is the first query if the mask is causal, and `count` is N.
    """

    def plain(slope: Tensor, *tensors: Tensor) -> Any:
        """Computes the gradients by storing all scores."""
        visible = mask
        if start is not None:
            t = start + tf.range(tensors[0].shape[1])
            causal = t[:, None] >= tf.range(tensors[1].shape[1])
            visible = masks.merge(mask, causal[None, None])
        query, key, value, bias = (*tensors, None)[:4]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            out = reference.dot_product_attention(
                query, key, value, visible, 1.0, False, bias
            )
        return tape.gradient(out, tensors, slope)

    cut = partial(_cut, mask, start, count)
    output, gradients = partial(_output, cut), partial(_gradients, cut)
    return recomputed(output, gradients, plain, *tensors)


def _output(cut: Callable[..., _Tiles], *tensors: Tensor) -> Tensor:
    tiles = cut(*tensors)
    batch, groups, shared, count = tiles.sizes
    total = batch * groups * shared * count

    def step(i: Tensor, out: Any) -> tuple[Tensor, Any]:
        j = i // (shared * count)
        weights, alive = _weights(tiles, i)
        rows = tf.matmul(tf.cast(weights, tensors[2].dtype), tiles.value[j])
        return i + 1, out.write(i, rows if alive is None else _zero_masked(alive, rows))

    out = tf.TensorArray(tensors[2].dtype, total, infer_shape=False)
    (out,) = loop(step, total, out)
    heads = _joined(out.stack(), tiles, tensors[0])
    return tf.ensure_shape(heads, (*tensors[0].shape[:3], tensors[2].shape[3]))


def _gradients(
    cut: Callable[..., _Tiles], out: Tensor, slope: Tensor, *tensors: Tensor
) -> list[Tensor]:
    """Recomputes each tile; returns the gradients with respect to `tensors`.

    The mean of the slopes of a query's weights is the product of the output and its
    slope. This saves a pass over each tile.
    """
    tiles = cut(*tensors)
    batch, groups, shared, count = tiles.sizes
    means = None  # (B H N, C, 1)
    if not is_half(out):  # half precision would round the output first
        means = _rows(tf.reduce_sum(out * slope, -1, keepdims=True), count)
    slopes = partial(_slopes, tiles, _rows(slope, count), means)
    query, key, value = tensors[:3]

    def group(j: Tensor, dq: Any, dk: Any, dv: Any) -> tuple[Any, ...]:
        def step(n: Tensor, dq: Any, keys: Tensor, values: Tensor) -> tuple[Any, ...]:
            i = j * shared * count + n
            weights, part, d_out = slopes(i)
            weights, part = (tf.cast(x, query.dtype) for x in (weights, part))
            dq = dq.write(i, tf.matmul(part, tiles.key[j], transpose_b=True))
            keys += to_float32(tf.matmul(part, tiles.query[i], transpose_a=True))
            values += to_float32(tf.matmul(weights, d_out, transpose_a=True))
            return n + 1, dq, keys, values

        zeros = [tf.zeros(x.shape[1::2], to_float32(x[:0]).dtype) for x in (key, value)]
        dq, keys, values = loop(step, shared * count, dq, *zeros)
        return j + 1, dq, dk.write(j, keys), dv.write(j, values)

    arrays = [
        tf.TensorArray(dtype, size, infer_shape=False)
        for dtype, size in (
            (query.dtype, batch * groups * shared * count),
            (to_float32(key[:0]).dtype, batch * groups),
            (to_float32(value[:0]).dtype, batch * groups),
        )
    ]
    dq, dk, dv = loop(group, batch * groups, *arrays)
    of_keys = []
    for array, x in ((dk, key), (dv, value)):
        gradients = tf.reshape(array.stack(), (batch, groups, *x.shape[1::2]))
        of_keys.append(tf.cast(tf.transpose(gradients, (0, 2, 1, 3)), x.dtype))
    of_bias = [_bias_gradient(tiles, slopes, bias) for bias in tensors[3:]]
    return [_joined(dq.stack(), tiles, query), *of_keys, *of_bias]


def _bias_gradient(tiles: _Tiles, slopes: Callable, bias: Tensor) -> Tensor:
    """Computes the gradient with respect to the bias in a loop that graphs can prune.

    The `inner` loop sums over the axes (b, h, n) along which the bias is broadcast.
    Only one row of tiles is stored at a time.
    """
    batch, groups, shared, count = tiles.sizes
    heads = groups * shared
    sizes = tf.shape(tiles.bias)
    outer = sizes[0], sizes[1], sizes[2]
    inner = batch // outer[0], heads // outer[1], count // outer[2]
    zeros = tf.zeros(sizes[3:], "float32")

    def row(m: Tensor, out: Any) -> tuple[Tensor, Any]:
        def step(i: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
            b, h, n = (x + y for x, y in zip(_split(m, *outer), _split(i, *inner)))
            part = to_float32(slopes((b * heads + h) * count + n)[1])
            part = part if bias.shape[2] != 1 else tf.reduce_sum(part, 0, True)
            part = part if bias.shape[3] != 1 else tf.reduce_sum(part, 1, True)
            return i + 1, total + tf.cast(part, "float32")

        (total,) = loop(step, inner[0] * inner[1] * inner[2], zeros)
        return m + 1, out.write(m, total)

    rows = outer[0] * outer[1] * outer[2]
    (out,) = loop(row, rows, tf.TensorArray("float32", rows, infer_shape=False))
    shape = (outer[0], outer[1], outer[2] * sizes[3], sizes[4])
    gradient = tf.reshape(out.stack(), shape)[:, :, : bias.shape[2]]
    return tf.cast(gradient, bias.dtype)


def _weights(tiles: _Tiles, i: Tensor) -> tuple[Tensor, Tensor | None]:
    """Returns the float32 weights of tile i, (C, S), and its valid queries, (C, 1).

    A query is valid if it may attend to a key. The weights of other queries are
    undefined. The second value is None if all queries are valid.
    """
    _, groups, shared, count = tiles.sizes
    b, h, n = _split(i, None, groups * shared, count)
    scores = to_float32(tf.matmul(tiles.query[i], tiles.key[i // (shared * count)]))
    if tiles.bias is not None:
        scores += tf.cast(_of_tile(tiles.bias, b, h, n), scores.dtype)
    seen = None if tiles.mask is None else _of_tile(tiles.mask, b, h, n)
    if tiles.start is not None:
        queries, keys = tiles.query.shape[1], tiles.key.shape[2]
        t = tiles.start + n * queries + tf.range(queries)
        seen = masks.merge(seen, t[:, None] >= tf.range(keys))
    if seen is not None:
        scores = normalizers.hide(scores, seen)
    alive = None if tiles.mask is None else tf.reduce_any(seen, -1, keepdims=True)
    return tf.nn.softmax(scores), alive


def _slopes(
    tiles: _Tiles, slope: Tensor, means: Tensor | None, i: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the weights and the score gradients of tile i, (C, S) in float32.

    The third value is the gradient of the output, with 0 for queries without a key. The
    gradients of all outputs are `slope`, (B H N, C, V), and `means` their products with
    the outputs.
    """
    weights, alive = _weights(tiles, i)
    j = i // (tiles.sizes[2] * tiles.sizes[3])
    d_out = slope[i]
    d_out = d_out if alive is None else _zero_masked(alive, d_out)
    part = to_float32(tf.matmul(d_out, tiles.value[j], transpose_b=True))
    if means is None:
        mean = tf.reduce_sum(weights * part, -1, keepdims=True)
    else:
        mean = means[i]
        mean = mean if alive is None else _zero_masked(alive, mean)
    return weights, weights * (part - mean), d_out


def _zero_masked(alive: Tensor, x: Tensor) -> Tensor:
    return tf.where(alive, x, tf.zeros_like(x))


def _cut(
    mask: Tensor | None,
    start: int | None,
    count: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
) -> _Tiles:
    groups = key.shape[2]
    k = tf.reshape(tf.transpose(key, (0, 2, 3, 1)), (-1, key.shape[3], key.shape[1]))
    v = tf.reshape(
        tf.transpose(value, (0, 2, 1, 3)), (-1, value.shape[1], value.shape[3])
    )
    bias, mask = (None if x is None else _repeated(x, count) for x in (bias, mask))
    sizes = tf.shape(query)[0], groups, query.shape[2] // groups, count
    return _Tiles(_rows(query, count), k, v, bias, mask, start, sizes)


def _rows(x: Tensor, tiles: int) -> Tensor:
    """Reshapes (B, T, H, E) to (B H N, C, E), with zero padding."""
    queries, width = x.shape[1], x.shape[3]
    size = -(-queries // tiles)
    x = tf.transpose(x, (0, 2, 1, 3))
    x = tf.pad(x, [[0, 0], [0, 0], [0, size * tiles - queries], [0, 0]])
    return tf.reshape(x, (-1, size, width))


def _joined(x: Tensor, tiles: _Tiles, query: Tensor) -> Tensor:
    """Reshapes (B H N, C, V) to (B, T, H, V), for queries (B, T, H, E)."""
    batch, groups, shared, count = tiles.sizes
    rows = count * tiles.query.shape[1]
    x = tf.reshape(x, (batch, groups * shared, rows, -1))
    return tf.transpose(x[:, :, : query.shape[1]], (0, 2, 1, 3))


def _repeated(x: Tensor, tiles: int) -> Tensor:
    """Reshapes a mask or bias (B, H, T, S) to (B, H, N, C, S); N = C = 1 for T = 1."""
    queries = x.shape[2]
    if queries == 1:
        return x[:, :, None]
    size = -(-queries // tiles)
    x = tf.pad(x, [[0, 0], [0, 0], [0, size * tiles - queries], [0, 0]])
    shape = tf.shape(x)
    return tf.reshape(x, (shape[0], shape[1], tiles, size, shape[3]))


def _of_tile(x: Tensor, b: Tensor, h: Tensor, n: Tensor) -> Tensor:
    shape = tf.shape(x)
    return x[b % shape[0], h % shape[1], n % shape[2]]


def _split(i: Tensor, _: Any, heads: Any, count: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Returns b, h and n of i = (b · heads + h) · count + n."""
    return i // (heads * count), i // count % heads, i % count
