"""Scaled dot-product attention on TensorFlow, in the shapes of `reference.py`.

Long sequences are computed tile by tile, and windows block by block; see `tiles.py`. In
a window, the same in Keras operations, with a span of blocks at a time, was 1.1 to 1.2
times slower, and 2.3 to 2.5 times with gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from keras_attention.kernels.attention import reference, tiles
from keras_attention.numerics import mask_objects, masks, normalizers
from keras_attention.numerics.precision import is_half, mask_value, to_float32

dropout_attention = reference.dropout_attention

Tensor = Any
ROWS, COLUMNS = 256, 128  # queries and keys of a tile of a mask object


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
    if not _pays(query, key, value):
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
    joined = mask_objects.every(None, mask, is_causal=is_causal, window=window)
    visible = partial(mask_objects.as_array, joined, band.queries, band.keys)
    query, key, value = (tf.convert_to_tensor(x) for x in (query, key, value))
    output, gradients = (
        partial(form, band, mask) for form in (_block_output, _block_gradients)
    )
    return recomputed_tiles(output, gradients, visible, query * scale, key, value)


def masked_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: mask_objects.Mask, scale: float
) -> Tensor | None:
    """Computes attention by tiles, each with a range of keys that its rows need."""
    if not _pays(query, key, value):
        return None
    visible = partial(mask_objects.as_array, mask, query.shape[1], key.shape[1])
    mask = mask.aligned()
    tensors = (tf.convert_to_tensor(x) for x in (query * scale, key, value))
    output, gradients = partial(_ranged_output, mask), partial(_ranged_gradients, mask)
    return recomputed_tiles(output, gradients, visible, *tensors)


def _pays(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Returns whether tiles save time or memory. Eager loops run in Python."""
    pays = tiles.pays(query, key, value)
    if pays and tf.executing_eagerly():
        pays = math.prod(query.shape[:3]) * key.shape[1] >= tiles.EAGER
    return pays


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


def recomputed_tiles(
    output: Callable, gradients: Callable, visible: Callable, *tensors: Tensor
) -> Tensor:
    """Calls `recomputed` with a mask for the plain form, which stores all scores."""

    def plain(slope: Tensor, *tensors: Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            query, key, value, bias = (*tensors, None)[:4]
            out = reference.dot_product_attention(
                query, key, value, visible(), 1.0, False, bias
            )
        return tape.gradient(out, tensors, slope)

    return recomputed(output, gradients, plain, *tensors)


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

    def visible() -> Tensor | None:
        if start is None:
            return mask
        t = start + tf.range(tensors[0].shape[1])
        causal = t[:, None] >= tf.range(tensors[1].shape[1])
        return masks.merge(mask, causal[None, None])

    cut = partial(_cut, mask, start, count)
    output, gradients = partial(_output, cut), partial(_gradients, cut)
    return recomputed_tiles(output, gradients, visible, *tensors)


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
    repeated = partial(_repeated, query, count)
    bias, mask = (None if x is None else repeated(x) for x in (bias, mask))
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


def _repeated(query: Tensor, tiles: int, x: Tensor) -> Tensor:
    """Reshapes a mask or bias (B, H, T, S) to (B, H, N, C, S); N = C = 1 for T = 1."""
    queries, shape = x.shape[2], tf.shape(x)
    tiles = 1 if queries == 1 else tiles
    size = -(-queries // tiles)
    x = tf.pad(x, [[0, 0], [0, 0], [0, size * tiles - queries], [0, 0]])
    # An error, in XLA as well, if B is neither 1 nor that of the query
    batch = tf.where(shape[0] == 1, 1, tf.shape(query)[0])
    return tf.reshape(x, (batch, shape[1], tiles, size, x.shape[3] or shape[3]))


def _of_tile(x: Tensor, b: Tensor, h: Tensor, n: Tensor) -> Tensor:
    last = tf.minimum(tf.shape(x)[:3] - 1, 1)  # 0 for axes that are broadcast
    return x[b * last[0], h * last[1], n * last[2]]


def _split(i: Tensor, _: Any, heads: Any, count: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Returns b, h and n of i = (b · heads + h) · count + n."""
    return i // (heads * count), i // count % heads, i % count


class _Ranges:
    """The tiles of a call with a mask object, and their blocks of L keys."""

    def __init__(
        self, mask: mask_objects.Mask, query: Tensor, key: Tensor, value: Tensor
    ) -> None:
        self.keys = key.shape[1]
        count = -(-query.shape[1] // ROWS)
        k, v = self._padded(key, 1), self._padded(value, 1)
        self.tiles = _cut(None, None, count, query, k, v)
        self.wide = to_float32(query[:0]).dtype
        sizes, batch = (self.tiles.query.shape[1], count, self.keys), tf.shape(query)[0]
        self.first, self.last = (  # (B, N), or an error for another number of examples
            tf.broadcast_to(x, (batch, count))
            for x in tiles.ranges(mask, *sizes, COLUMNS)
        )
        repeated = partial(_repeated, query, count)
        self.mask = mask.map(
            lambda x: repeated(x if x.shape[3] == 1 else self._padded(x, 3))
        )

    def _padded(self, x: Tensor, axis: int) -> Tensor:
        missing = [-self.keys % COLUMNS if n == axis else 0 for n in range(4)]
        return tf.pad(x, [[0, n] for n in missing])

    def __getitem__(self, i: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the first block of tile i, and how many there are."""
        _, groups, shared, count = self.tiles.sizes
        b, _, n = _split(i, None, groups * shared, count)
        return self.first[b, n], self.last[b, n] - self.first[b, n]

    def block(self, i: Tensor, m: Tensor) -> tuple[Tensor, ...]:
        """Returns keys (E, L), values (L, V), scores (C, L) and which are visible."""
        _, groups, shared, count = self.tiles.sizes
        b, h, n = _split(i, None, groups * shared, count)

        def near(x: Tensor, axis: int) -> Tensor:
            if x.shape[axis] == 1:
                return x
            size = [COLUMNS if k == axis else x.shape[k] for k in range(2)]
            return tf.slice(x, (0, m * COLUMNS) if axis else (m * COLUMNS, 0), size)

        j = i // (shared * count)
        keys, values = near(self.tiles.key[j], 1), near(self.tiles.value[j], 0)
        scores = to_float32(tf.matmul(self.tiles.query[i], keys))
        mask = self.mask.map(lambda x: near(_of_tile(x, b, h, n), 1))
        t = n * scores.shape[0] + tf.range(scores.shape[0])[:, None]
        s = m * COLUMNS + tf.range(COLUMNS)[None]
        visible = tf.logical_and(mask.allows(t, s), s < self.keys)
        return keys, values, normalizers.hide(scores, visible), visible

    def attend(self, i: Tensor, has_output: bool = True) -> tuple[Tensor, Tensor]:
        """Returns the logarithm of the summed exponentials of tile i, and its output.

        They are (C, 1) and (C, V) in a wide dtype. The sum is one for no visible key.
        """
        first, count = self[i]
        size, width = self.tiles.query.shape[1], self.tiles.value.shape[2]

        def step(k: Tensor, most: Tensor, total: Tensor, out: Tensor) -> Any:
            _, values, scores, visible = self.block(i, first + k)
            new = tf.maximum(most, tf.reduce_max(scores, 1, keepdims=True))
            terms = tf.where(visible, tf.exp(scores - new), tf.zeros_like(scores))
            fade = tf.exp(most - new)
            total = total * fade + tf.reduce_sum(terms, 1, keepdims=True)
            if has_output:
                rows = tf.matmul(tf.cast(terms, values.dtype), values)
                out = out * fade + tf.cast(rows, self.wide)
            return k + 1, new, total, out

        most = tf.fill((size, 1), tf.constant(mask_value(self.wide), self.wide))
        zeros = (tf.zeros((size, n), self.wide) for n in (1, width))
        most, total, out = loop(step, count, most, *zeros)
        total = tf.where(total == 0, tf.ones_like(total), total)
        return most + tf.math.log(total), out / total


def _ranged_output(mask: mask_objects.Mask, *tensors: Tensor) -> Tensor:
    ranges, dtype = _Ranges(mask, *tensors), tensors[2].dtype
    batch, groups, shared, count = ranges.tiles.sizes
    total = batch * groups * shared * count

    def step(i: Tensor, out: Any) -> tuple[Tensor, Any]:
        return i + 1, out.write(i, tf.cast(ranges.attend(i)[1], dtype))

    out = tf.TensorArray(dtype, total, infer_shape=False)
    (out,) = loop(step, total, out)
    heads = _joined(out.stack(), ranges.tiles, tensors[0])
    return tf.ensure_shape(heads, (*tensors[0].shape[:3], tensors[2].shape[3]))


def _ranged_gradients(
    mask: mask_objects.Mask, out: Tensor, slope: Tensor, *tensors: Tensor
) -> list[Tensor]:
    """Recomputes each tile; returns the gradients of query, key and value."""
    ranges = _Ranges(mask, *tensors)
    parts, wide = ranges.tiles, ranges.wide
    batch, groups, shared, count = parts.sizes
    means = tf.reduce_sum(to_float32(out) * to_float32(slope), -1, keepdims=True)
    means, slopes = _rows(means, count), _rows(slope, count)
    dtype, sizes = tensors[0].dtype, (tensors[1].shape[3], tensors[2].shape[3])

    def group(j: Tensor, dq: Any, *sums: Any) -> tuple[Any, ...]:
        def tile(n: Tensor, dq: Any, *sums: Any) -> tuple[Any, ...]:
            i = j * shared * count + n
            (first, blocks), (total, _) = ranges[i], ranges.attend(i, False)

            def block(k: Tensor, rows: Tensor, *sums: Tensor) -> tuple[Tensor, ...]:
                m = first + k
                keys, values, scores, visible = ranges.block(i, m)
                weights = tf.where(visible, tf.exp(scores - total), 0.0)
                part = to_float32(tf.matmul(slopes[i], values, transpose_b=True))
                part = tf.cast(weights * (part - means[i]), dtype)
                rows += to_float32(tf.matmul(part, keys, transpose_b=True))
                pairs = (part, parts.query[i]), (tf.cast(weights, dtype), slopes[i])
                products = (tf.matmul(x, y, transpose_a=True) for x, y in pairs)
                added = (
                    tf.tensor_scatter_nd_add(x, m[None, None], to_float32(y)[None])
                    for x, y in zip(sums, products)
                )
                return k + 1, rows, *added

            rows = tf.zeros(parts.query.shape[1:], wide)
            rows, *new = loop(block, blocks, rows, *sums)
            return n + 1, dq.write(i, tf.cast(rows, dtype)), *new

        blocks = parts.value.shape[1] // COLUMNS
        zeros = [tf.zeros((blocks, COLUMNS, n), wide) for n in sizes]
        dq, *new = loop(tile, shared * count, dq, *zeros)
        return j + 1, dq, *(x.write(j, y) for x, y in zip(sums, new))

    total = batch * groups
    forms = (dtype, total * shared * count), (wide, total), (wide, total)
    arrays = [tf.TensorArray(x, n, infer_shape=False) for x, n in forms]
    dq, *sums = loop(group, total, *arrays)
    gradients = [_joined(dq.stack(), parts, tensors[0])]
    for array, x in zip(sums, tensors[1:]):
        each = tf.reshape(array.stack(), (batch, groups, -1, x.shape[3]))
        each = tf.transpose(each[:, :, : ranges.keys], (0, 2, 1, 3))
        gradients.append(tf.cast(each, x.dtype))
    return gradients


class _Blocks(NamedTuple):
    """The tensors of a call, split into blocks. Rows are the heads of a group."""

    query: Tensor  # (N, B G, H/G C, E)
    key: Tensor  # (B G, ·, E), with the keys of all blocks
    value: Tensor  # (B G, ·, V)
    mask: Tensor | None  # (B G, ·, 1)


def _block_output(
    band: tiles.Band, mask: Tensor | None, query: Tensor, key: Tensor, value: Tensor
) -> Tensor:
    blocks = _block_cut(band, mask, query, key, value)

    def step(n: Tensor, out: Any) -> tuple[Tensor, Any]:
        weights = _block_weights(band, blocks, n)
        values = _near(band, blocks.value, n)
        return n + 1, out.write(n, tf.matmul(tf.cast(weights, value.dtype), values))

    out = tf.TensorArray(value.dtype, band.blocks, infer_shape=False)
    (out,) = loop(step, band.blocks, out)
    heads = _heads(band, out.stack(), query, value.shape[3])
    return tf.ensure_shape(heads, (*query.shape[:3], value.shape[3]))


def _block_gradients(
    band: tiles.Band,
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
    blocks = _block_cut(band, mask, query, key, value)
    slopes = _block_rows(band, slope, key.shape[2])

    def step(
        n: Tensor, dq: Any, dk: Any, dv: Any, keys: Tensor, values: Tensor
    ) -> tuple[Any, ...]:
        weights = _block_weights(band, blocks, n)
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


def _block_weights(band: tiles.Band, blocks: _Blocks, n: Tensor) -> Tensor:
    """Returns the float32 weights of block n, (B G, H/G C, L)."""
    keys = _near(band, blocks.key, n)
    scores = to_float32(tf.matmul(blocks.query[n], keys, transpose_b=True))
    t = n * band.size + tf.range(blocks.query.shape[2])[:, None] % band.size
    s = (n - band.before) * band.size + tf.range(band.width)
    visible = band.sees(t, s)
    if blocks.mask is not None:
        keys = _near(band, blocks.mask, n)  # (B G, L, 1)
        visible = visible & tf.transpose(keys, (0, 2, 1))
    return normalizers.softmax(scores, visible)


def _near(band: tiles.Band, x: Tensor, n: Tensor) -> Tensor:
    """Returns the keys or values of block n, (B G, L, ·)."""
    # Not `x[:, start:stop]`, whose size XLA does not know
    keys = tf.slice(x, (0, n * band.size, 0), (tf.shape(x)[0], band.width, x.shape[2]))
    return tf.ensure_shape(keys, (x.shape[0], band.width, x.shape[2]))


def _block_cut(
    band: tiles.Band, mask: Tensor | None, query: Tensor, key: Tensor, value: Tensor
) -> _Blocks:
    groups = key.shape[2]
    k, v = (_fitted(band, x) for x in (key, value))
    if mask is not None:
        seen = tf.broadcast_to(mask[:, 0], (tf.shape(key)[0], 1, band.keys))
        seen = tf.repeat(seen, groups, axis=0)[..., None]  # (B G, 1, S, 1)
        mask = _fitted(band, tf.transpose(seen, (0, 2, 1, 3)))
    return _Blocks(_block_rows(band, query, groups), k, v, mask)


def _block_rows(band: tiles.Band, x: Tensor, groups: int) -> Tensor:
    """Reshapes (B, T, H, E) to (N, B G, H/G C, E), with zero padding."""
    shared, width = x.shape[2] // groups, x.shape[3]
    missing = band.blocks * band.size - band.queries
    x = tf.pad(x, [[0, 0], [0, missing], [0, 0], [0, 0]])
    x = tf.reshape(x, (-1, band.blocks, band.size, groups, shared, width))
    x = tf.transpose(x, (1, 0, 3, 4, 2, 5))
    return tf.reshape(x, (band.blocks, -1, shared * band.size, width))


def _heads(band: tiles.Band, x: Tensor, query: Tensor, width: int) -> Tensor:
    """Reshapes (N, B G, H/G C, ·) to (B, T, H, ·), the inverse of `_rows`."""
    batch, heads = tf.shape(query)[0], query.shape[2]
    x = tf.reshape(x, (band.blocks, batch, heads, band.size, width))
    x = tf.transpose(x, (1, 0, 3, 2, 4))
    x = tf.reshape(x, (batch, band.blocks * band.size, heads, width))
    return x[:, : band.queries]


def _fitted(band: tiles.Band, x: Tensor) -> Tensor:
    """Reshapes (B, S, G, ·) to (B G, ·, ·) with the keys of all blocks."""
    before, after = band.padding
    x = tf.transpose(x[:, : band.keys + min(after, 0)], (0, 2, 1, 3))
    x = tf.pad(x, [[0, 0], [0, 0], [before, max(after, 0)], [0, 0]])
    length = (band.before + band.blocks + band.after) * band.size
    return tf.reshape(x, (-1, length, x.shape[3]))
