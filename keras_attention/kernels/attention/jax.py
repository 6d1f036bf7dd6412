"""Scaled dot-product attention on JAX, in the shapes of `reference.py`.

On a CPU, long sequences are computed tile by tile, and windows block by block; see
`tiles.py`. Tiles, blocks and spans are checkpoints, so that gradients of any order
work. Each device computes its samples and heads; see `partitioning/jax.py`.

In a window, the same in Keras operations, with a span of blocks at a time, was 1.5 to
1.7 times slower for 8 heads, and 1.0 to 1.4 times for one (T = 8,192 to 16,384).

Dropout stores no number for each weight. Each query and each key draws a random word of
32 bits. The word of a pair is a hash of the exclusive or of both words, and the pair is
dropped if its word is below the rate times 2³². A tile computes the words of its pairs
when it needs them, and again for the gradient, which is much faster than `jax.random`
and needs no memory: a training step of a layer is 1.5 times as fast (B2 T512 D512 H8,
CPU time). The rate is exact to 2⁻³².
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import keras
from jax import lax
from jax import numpy as jnp
from keras import ops

from keras_attention.kernels.attention import jax_cudnn, reference, tiles
from keras_attention.kernels.keras import is_exporting
from keras_attention.kernels.partitioning.jax import Axes, has_devices, partitioned
from keras_attention.kernels.tracing.jax import platform
from keras_attention.numerics import mask_objects, masks, normalizers
from keras_attention.numerics.precision import HALF, to_float32

Tensor = Any

QUERY = "batch", "queries", "groups", "heads", None  # (B, T, G, H/G, E)
KEY = "batch", None, "groups", None  # (B, S, G, E)
PAIRS = "batch", "groups", "heads", "queries", None  # (B, G, H/G, T, S)
FACTORS = 0xED5AD4BB, 0xAC4C1B51, 0x31848BAB
SHIFTS = 17, 11, 15, 14
ROWS = 128  # queries of a tile of a mask object
SPAN = 16  # blocks of a span, unless the window is longer


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    bias: Tensor | None = None,
) -> Tensor:
    """Computes attention by cuDNN, in tiles or by matrix products.

    cuDNN is used on a GPU in half precision, without a bias; see `jax_cudnn.py`. Tiles
    are used for long sequences on a CPU.
    """
    is_half = keras.backend.standardize_dtype(query.dtype) in HALF
    on_gpu = is_half and bias is None and platform() == "gpu"
    if on_gpu and jax_cudnn.takes(query, key, value, mask, is_causal):
        return jax_cudnn.attend(query, key, value, mask, scale, is_causal)
    sizes = query.shape[1], key.shape[1]
    long = all(isinstance(n, int) for n in sizes) and math.prod(sizes) >= tiles.LEAST
    if long and tiles.pays(query, key, value) and platform() == "cpu":
        q, k, v = (ops.convert_to_tensor(x) for x in (query, key, value))
        return _in_tiles(q, k, v, mask, scale, is_causal, bias)
    return reference.dot_product_attention(
        query, key, value, mask, scale, is_causal, bias
    )


def local_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    window: int,
) -> Tensor | None:
    """Computes attention in a sliding window by blocks on a CPU, by cuDNN on a GPU."""
    if platform() == "gpu":
        if not jax_cudnn.takes(query, key, value, mask, is_causal, window):
            return None
        return jax_cudnn.attend(query, key, value, mask, scale, is_causal, window)
    band = tiles.plan(query, key, value, mask, is_causal, window)
    if band is None or platform() != "cpu":
        return None
    q, k, v = (ops.convert_to_tensor(x) for x in (query, key, value))
    return _by_parts(_attention_in_blocks, (band,), ("queries",), scale, q, k, v, mask)


def masked_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: mask_objects.Mask, scale: float
) -> Tensor | None:
    """Computes attention by tiles, each with a range of keys that its rows need."""
    if not tiles.pays(query, key, value) or platform() != "cpu":
        return None
    q, k, v = (ops.convert_to_tensor(x) for x in (query, key, value))
    arrays, form = jax.tree_util.tree_flatten(mask.aligned())
    kernel = _attention_in_ranges
    return _by_parts(kernel, (form,), ("queries",), scale, q, k, v, None, *arrays)


def dropout_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    bias: Tensor | None,
    rate: float,
    seed: keras.random.SeedGenerator,
) -> Tensor | None:
    """Computes attention with dropout of the weights, without storing the dropout."""
    symbolic = any(isinstance(x, keras.KerasTensor) for x in (query, key, value))
    if symbolic or not isinstance(query.shape[0], int) or is_exporting():
        return None
    q, k, v = (ops.convert_to_tensor(x) for x in (query, key, value))
    dropout = sample(q, k, rate, seed.next())
    if platform() == "cpu" and tiles.pays(q, k, v):
        return _in_tiles(q, k, v, mask, scale, is_causal, bias, dropout)
    form = partial(drop, dropout=dropout)
    return reference.dot_product_attention(q, k, v, mask, scale, is_causal, bias, form)


class Dropout(NamedTuple):
    """The random words of all queries and keys, and the rate."""

    queries: Any  # (B, H, T, 1) uint32
    keys: Any  # (B, H, 1, S) uint32
    rate: float


def sample(query: Tensor, key: Tensor, rate: float, seed: Tensor) -> Dropout:
    """Draws the words for queries (B, T, H, E) and keys (B, S, G, E)."""
    batch, queries, heads, _ = query.shape
    first, second = jax.random.split(seed)
    return Dropout(
        jax.random.bits(first, (batch, heads, queries, 1), "uint32"),
        jax.random.bits(second, (batch, heads, 1, key.shape[1]), "uint32"),
        rate,
    )


def drop(weights: Tensor, dropout: Dropout) -> Tensor:
    """Drops weights and divides the others by 1 − rate."""
    least = jnp.uint32(min(round(dropout.rate * 2**32), 2**32 - 1))
    is_kept = _hash(dropout.queries ^ dropout.keys) >= least
    return jnp.where(is_kept, weights / (1 - dropout.rate), jnp.zeros_like(weights))


def _hash(x: Tensor) -> Tensor:
    """Returns the hash "triple32" of 32-bit words; each bit depends on all bits."""
    for shift, factor in zip(SHIFTS, FACTORS):
        x = (x ^ (x >> shift)) * jnp.uint32(factor)
    return x ^ (x >> SHIFTS[-1])


def _in_tiles(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float | Tensor,
    is_causal: bool,
    bias: Tensor | None,
    dropout: Dropout | None = None,
) -> Tensor:
    """Computes attention in tiles; the weights are dropped if `dropout` is not None."""
    *words, rate = dropout or (None, None, None)
    options, pairs = (is_causal, rate), (mask, bias, *words)
    whole = ("queries",) if is_causal else ()
    kernel = _attention_in_tiles
    return _by_parts(kernel, options, whole, scale, query, key, value, *pairs)


def _by_parts(
    kernel: Callable,
    options: tuple,
    whole: tuple[str, ...],
    scale: float | Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *pairs: Tensor | None,
) -> Tensor:
    """Calls a kernel, on several devices with the samples and heads of each.

    The kernel takes the scale, the hashable options, queries (B, T, G, H/G, E), key,
    value and the tensors of pairs, which broadcast to (B, G, H/G, T, S). The named axes
    `whole` are not split.
    """
    if not isinstance(scale, (int, float)):  # a tensor
        query, scale = query * scale, 1.0
    options = float(scale), *options
    mask = None if mask is None else jnp.asarray(mask)  # perhaps a variable
    pairs = mask, *pairs
    batch, queries, heads, width = query.shape
    groups = key.shape[2]
    q = query.reshape(batch, queries, groups, heads // groups, width)
    pairs = tuple(None if x is None else _in_groups(x, groups) for x in pairs)
    if has_devices():
        axes: list[Axes | None] = [_named(QUERY, q, whole)]
        axes += [_named(KEY, x, whole) for x in (key, value)]
        axes += [None if x is None else _named(PAIRS, x, whole) for x in pairs]
        part = _kernel_of_part(kernel, options, tuple(axes))
        (out,) = part(q, key, value, *(x for x in pairs if x is not None))
    else:
        out = _compiled(kernel, options, q, key, value, *pairs)
    return out.reshape(batch, queries, heads, -1)


@partial(jax.jit, static_argnums=(0, 1))
def _compiled(kernel: Callable, options: tuple, *tensors: Tensor | None) -> Tensor:
    """Calls a kernel in `jax.jit`, so that a second such call compiles nothing."""
    return kernel(*options, *tensors)


def _named(names: Axes, x: Tensor, whole: tuple[str, ...]) -> Axes:
    """Removes the names of axes that are not split, or broadcast because of size 1."""
    sizes = zip(names, x.shape)
    return tuple(name if n > 1 and name not in whole else None for name, n in sizes)


@lru_cache(maxsize=256)
def _kernel_of_part(
    kernel: Callable, options: tuple, axes: tuple[Axes | None, ...]
) -> Callable:
    """Returns the partitioned kernel for tensors with these named axes."""

    def part(*tensors: Tensor) -> tuple[Tensor]:
        present = iter(tensors)
        return (
            kernel(*options, *(None if x is None else next(present) for x in axes)),
        )

    return partitioned(part, [x for x in axes if x is not None], [axes[0] or ()])


def _attention_in_tiles(
    scale: float,
    is_causal: bool,
    rate: float | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *pairs: Tensor | None,
) -> Tensor:
    """Computes `ops.dot_product_attention` in tiles; all sizes must be static.

    The last tensors are the mask, the bias and the words of `Dropout`.
    """
    # With 4 leading axes, (B, G, H/G, N); axes of size 1 are broadcast.
    q = jnp.moveaxis(query * scale, 1, 3)  # (B, G, H/G, T, E)
    k = key.transpose(0, 2, 3, 1)[:, :, None, None]  # (B, G, 1, 1, E, S)
    v = jnp.swapaxes(value, 1, 2)[:, :, None, None]  # (B, G, 1, 1, S, V)
    outputs = []
    for segment in tiles.segments(query.shape[1], key.shape[1], is_causal):
        rows = _cut(q[:, :, :, segment.queries], segment.tiles)
        parts = [
            None if x is None else _cut(x, segment.tiles)
            for x in map(segment.pairs, pairs)
        ]
        size = rows.shape[4]
        starts = segment.queries.start + size * jnp.arange(segment.tiles)
        visible = k[..., segment.keys], v[..., segment.keys, :]
        first = starts[None, None, None] if is_causal else None
        out = _each(4, partial(_tile, rate), rows, *visible, first, *parts)
        joined = out.reshape(*out.shape[:3], segment.tiles * size, out.shape[-1])
        outputs.append(joined[:, :, :, : segment.queries.stop - segment.queries.start])
    out = jnp.concatenate(outputs, axis=3) if len(outputs) > 1 else outputs[0]
    return jnp.moveaxis(out, 3, 1)  # (B, T, G, H/G, V)


def _in_groups(x: Tensor, groups: int) -> Tensor:
    """Reshapes (B, H, ...) to (B, G, H/G, ...), and (B, 1, ...) to (B, 1, 1, ...)."""
    first = 1 if x.shape[1] == 1 else groups
    return x.reshape(x.shape[0], first, -1, *x.shape[2:])


def _cut(x: Tensor, tiles: int) -> Tensor:
    """Reshapes (B, G, H/G, T, ·) to (B, G, H/G, N, C, ·) with zero padding."""
    queries = x.shape[3]
    if queries == 1:
        return x[:, :, :, None]
    size = -(-queries // tiles)
    missing = size * tiles - queries
    if missing:
        x = jnp.pad(x, [(0, missing if axis == 3 else 0) for axis in range(5)])
    return x.reshape(*x.shape[:3], tiles, size, x.shape[4])


def _each(axes: int, tile: Callable, *tensors: Tensor | None) -> Tensor:
    """Maps `tile` sequentially over the first `axes` axes."""
    if not axes:
        return tile(*tensors)
    length = max(len(x) for x in tensors if x is not None)
    varying = [None if x is None or not len(x) == length > 1 else x for x in tensors]
    fixed = [
        x if x is None or y is not None else x[0] for x, y in zip(tensors, varying)
    ]

    def turn(varying: list[Tensor | None]) -> Tensor:
        tensors = [x if y is None else y for x, y in zip(fixed, varying)]
        return _each(axes - 1, tile, *tensors)

    # A checkpoint saves its arguments for each tile, but not the variables it closes
    # over. Inside a loop, XLA cannot merge a recomputed tile with the original one.
    form = jax.checkpoint(turn, prevent_cse=length == 1) if axes == 1 else turn
    return form(varying)[None] if length == 1 else lax.map(form, varying)


def _tile(
    rate: float | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor | None,
    mask: Tensor | None,
    bias: Tensor | None,
    query_words: Tensor | None,
    key_words: Tensor | None,
) -> Tensor:
    """Computes (C, V) for queries (C, E), keys (E, S) and values (S, V)."""
    if start is not None:
        t = start + jnp.arange(query.shape[0])[:, None]
        mask = masks.merge(mask, t >= jnp.arange(key.shape[1]))
    scores = query @ key  # (C, S)
    scores = scores if bias is None else to_float32(scores) + to_float32(bias)
    weights = normalizers.softmax(scores, mask).astype(value.dtype)
    if rate is not None:
        weights = drop(weights, Dropout(query_words, key_words, rate))
    return weights @ value


def _attention_in_ranges(
    scale: float, form: Any, query: Tensor, key: Tensor, value: Tensor, *arrays: Any
) -> Tensor:
    """Computes attention for a mask object of this form, with arrays (B, G, H/G, T, S).

    A tile cuts as many keys as its range needs, rounded up to one of few static widths.
    """
    arrays, unflatten = arrays[1:], partial(jax.tree_util.tree_unflatten, form)
    queries, keys = query.shape[1], key.shape[1]
    count = -(-queries // ROWS)
    size = -(-queries // count)
    starts, stops = tiles.ranges(unflatten(arrays), size, count, keys, 1)  # (·, N)
    widths = [2 * ROWS << n for n in range(keys.bit_length())]
    widths = [*(width for width in widths if width < keys), keys]
    choice = jnp.searchsorted(jnp.asarray(widths), stops - starts)

    def tile(query: Tensor, key: Tensor, value: Tensor, *tensors: Tensor) -> Tensor:
        row, start, choice, *arrays = tensors

        def attend(width: int, query: Tensor, *tensors: Tensor) -> Tensor:
            column = jnp.minimum(start, keys - width)
            key, value, *arrays = (
                x if n == 1 else lax.dynamic_slice_in_dim(x, column, width, axis)
                for x, axis in zip(tensors, (0, 0, *[-1] * len(tensors)))
                for n in [x.shape[axis]]
            )
            t = row + jnp.arange(size)[:, None]
            visible = unflatten(arrays).allows(t, column + jnp.arange(width)[None])
            weights = normalizers.softmax(query @ key.T, visible)
            return weights.astype(value.dtype) @ value  # (C, V)

        # Without a checkpoint, each branch would store zeros for all other branches.
        branches = [
            jax.checkpoint(partial(attend, width), prevent_cse=False)
            for width in widths
        ]
        return lax.switch(choice, branches, query, key, value, *arrays)

    q = _cut(jnp.moveaxis(query * scale, 1, 3), count)  # (B, G, H/G, N, C, E)
    k, v = (jnp.swapaxes(x, 1, 2)[:, :, None, None] for x in (key, value))
    numbers = size * jnp.arange(count)[None], starts, choice
    rows = (x[:, None, None] for x in numbers)  # (·, 1, 1, N)
    out = _each(4, tile, q, k, v, *rows, *(_cut(x, count) for x in arrays))
    out = out.reshape(*out.shape[:3], count * size, out.shape[-1])[:, :, :, :queries]
    return jnp.moveaxis(out, 3, 1)  # (B, T, G, H/G, V)


def _attention_in_blocks(
    scale: float,
    band: tiles.Band,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
) -> Tensor:
    """Computes attention for a mask (B, 1, 1, 1, S); all sizes must be static.

    The blocks are grouped into spans of P queries, which are cut without a copy.
    """
    # of a span, which is at least as long as the window before it
    blocks = max(min(SPAN, band.blocks), band.before, 1)
    size = blocks * band.size  # P
    count = -(-band.blocks // blocks)
    batch, _, *heads = query.shape  # (B, T, G, H/G, E)
    q = _fitted(query, count * size).reshape(batch * count, size, *heads)
    tensors = [jnp.tile(jnp.arange(count) * blocks, batch), q]
    tensors += [_spans(x, band, size, count) for x in (key, value)]
    if mask is not None:
        seen = mask[:, 0, 0, 0, :, None, None]
        seen = jnp.broadcast_to(seen, (batch, band.keys, 1, 1))
        tensors.append(_spans(seen, band, size, count))
    span = jax.checkpoint(lambda x: _span(band, scale, *x), prevent_cse=False)
    out = lax.map(span, tensors)  # (B ·, P, G, H/G, V)
    return out.reshape(batch, count * size, *out.shape[2:])[:, : band.queries]


def _fitted(x: Tensor, length: int) -> Tensor:
    """Cuts axis 1 to a length, or pads it with zeros."""
    missing = length - x.shape[1]
    if missing <= 0:
        return x[:, :length]
    return jnp.pad(x, [(0, missing if axis == 1 else 0) for axis in range(x.ndim)])


def _spans(x: Tensor, band: tiles.Band, size: int, count: int) -> list[Tensor]:
    """Returns the keys or values (B, S, G, ·) before, in and after each span.

    The three tensors are (B ·, ·, G, ·).
    """
    before, after = band.before * band.size, band.after * band.size
    spans = _fitted(x, count * size).reshape(-1, count, size, *x.shape[2:])
    last = _fitted(x[:, count * size :], after)[:, None]
    first = jnp.zeros_like(spans[:, :1, :before])
    parts = (
        jnp.concatenate([first, spans[:, :-1, size - before :]], axis=1),
        spans,
        jnp.concatenate([spans[:, 1:, :after], last], axis=1),
    )
    return [x.reshape(x.shape[0] * count, *x.shape[2:]) for x in parts]


def _span(
    band: tiles.Band,
    scale: float,
    first: Tensor,
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    mask: list[Tensor] | None = None,
) -> Tensor:
    """Computes (P, G, H/G, V) for queries (P, G, H/G, E) of the span from `first` on.

    The rows of a block are the queries of all heads that share keys.
    """
    size, groups, shared, width = query.shape
    q = (query * scale).reshape(-1, band.size, groups, shared, width)
    q = q.transpose(2, 0, 3, 1, 4)  # (G, ·, H/G, C, E)
    q = q.reshape(groups, -1, shared * band.size, width)
    k, v = (jnp.swapaxes(jnp.concatenate(x), 0, 1) for x in (keys, values))
    numbers = first + jnp.arange(size // band.size)
    seen = None if mask is None else _local(jnp.concatenate(mask)[:, 0], band)

    def head(tensors: list[Tensor]) -> Tensor:
        q, k, v = tensors
        blocks = [numbers, q, _local(k, band), _local(v, band)]
        blocks += [] if seen is None else [seen]
        return lax.map(jax.checkpoint(block, prevent_cse=False), blocks)

    def block(tensors: list[Tensor]) -> Tensor:
        n, q, k, v, *seen = tensors
        t = n * band.size + jnp.arange(q.shape[0])[:, None] % band.size
        s = (n - band.before) * band.size + jnp.arange(band.width)
        visible = band.sees(t, s)
        if seen:
            visible = masks.merge(visible, seen[0][:, 0])
        weights = normalizers.softmax(q @ k.T, visible).astype(v.dtype)
        return weights @ v

    out = lax.map(head, [q, k, v])  # (G, ·, H/G C, V)
    out = out.reshape(groups, -1, shared, band.size, out.shape[-1])
    return out.transpose(1, 3, 0, 2, 4).reshape(size, groups, shared, -1)


def _local(x: Tensor, band: tiles.Band) -> Tensor:
    """Returns the L keys or values that each block of a span meets, (·, L, ·)."""
    blocks = x.reshape(-1, band.size, x.shape[-1])
    shifts = band.before + 1 + band.after
    count = len(blocks) - shifts + 1
    near = jnp.stack([blocks[i : i + count] for i in range(shifts)], axis=1)
    return near.reshape(count, band.width, x.shape[-1])
