"""Attention on JAX, tile by tile; see `tiles.py`.

Each tile is a checkpoint, so that gradients of any order work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from keras_attention.kernels.attention import dropout_jax, tiles
from keras_attention.numerics import masks, normalizers
from keras_attention.numerics.precision import to_float32

Tensor = Any


def attention(
    scale: float,
    is_causal: bool,
    rate: float | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *pairs: Tensor | None,
) -> Tensor:
    """Computes `ops.dot_product_attention` in tiles; all sizes must be static.

    The last tensors are the mask, the bias and the words of `dropout_jax.Dropout`.
    """
    groups = key.shape[2]
    # With 4 leading axes, (B, G, H/G, N); axes of size 1 are broadcast.
    q = in_groups(jnp.swapaxes(query * scale, 1, 2), groups)
    k = key.transpose(0, 2, 3, 1)[:, :, None, None]  # (B, G, 1, 1, E, S)
    v = jnp.swapaxes(value, 1, 2)[:, :, None, None]  # (B, G, 1, 1, S, V)
    outputs = []
    for segment in tiles.segments(query.shape[1], key.shape[1], is_causal):
        rows = _in_tiles(q[:, :, :, segment.start : segment.stop], segment.tiles)
        parts = [
            None if x is None else _in_tiles(in_groups(x, groups), segment.tiles)
            for x in (tiles.part(x, segment) for x in pairs)
        ]
        size = rows.shape[4]
        starts = segment.start + size * jnp.arange(segment.tiles)
        visible = k[..., : segment.keys], v[..., : segment.keys, :]
        first = starts[None, None, None] if is_causal else None
        out = _each(4, partial(_tile, rate), rows, *visible, first, *parts)
        joined = out.reshape(*out.shape[:3], segment.tiles * size, out.shape[-1])
        outputs.append(joined[:, :, :, : segment.stop - segment.start])
    out = jnp.concatenate(outputs, axis=3) if len(outputs) > 1 else outputs[0]
    batch, _, _, queries, width = out.shape
    return jnp.swapaxes(out.reshape(batch, -1, queries, width), 1, 2)  # (B, T, H, V)


def in_groups(x: Tensor, groups: int) -> Tensor:
    """Reshapes (B, H, ...) to (B, G, H/G, ...), and (B, 1, ...) to (B, 1, 1, ...)."""
    first = 1 if x.shape[1] == 1 else groups
    return x.reshape(x.shape[0], first, -1, *x.shape[2:])


def _in_tiles(x: Tensor, tiles: int) -> Tensor:
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
    length = max(x.shape[0] for x in tensors if x is not None)
    turns = [x is not None and x.shape[0] == length > 1 for x in tensors]
    same = [x if x is None or turn else x[0] for turn, x in zip(turns, tensors)]

    def one(now: list[Tensor]) -> Tensor:
        left = iter(now)
        tensors = [next(left) if turn else x for turn, x in zip(turns, same)]
        return _each(axes - 1, tile, *tensors)

    # A checkpoint saves its arguments for each tile, but not the variables it closes
    # over. Inside a loop, XLA cannot merge a recomputed tile with the original one.
    form = jax.checkpoint(one, prevent_cse=length == 1) if axes == 1 else one
    if length == 1:
        return form([])[None]
    return lax.map(form, [x for turn, x in zip(turns, tensors) if turn])


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
        dropout = dropout_jax.Dropout(query_words, key_words, rate)
        weights = dropout_jax.drop(weights, dropout)
    return weights @ value
