"""Attention in a sliding window on JAX, block by block; see `bands.py`.

Each block and each head is a checkpoint, so that gradients of any order work.
"""

from __future__ import annotations

from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from keras_attention.kernels.attention.bands import Band
from keras_attention.numerics import masks, normalizers

Tensor = Any


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    band: Band,
) -> Tensor:
    """Computes attention for a mask (B, 1, 1, S); all sizes must be static."""
    (batch, _, heads, _), groups = query.shape, key.shape[2]
    # The rows of a block are the queries of all heads that share keys.
    q = jnp.pad(query * scale, _padding(0, band.count * band.size - band.queries))
    q = q.reshape(batch, band.count, band.size, groups, heads // groups, -1)
    q = q.transpose(0, 3, 1, 4, 2, 5)  # (B, G, N, H/G, C, E)
    q = q.reshape(batch * groups, band.count, -1, query.shape[3])
    k, v = (_fitted(x, band) for x in (key, value))  # (B G, ·, E)
    seen = None
    if mask is not None:
        seen = jnp.broadcast_to(mask[:, 0, 0, :, None, None], (batch, band.keys, 1, 1))
        seen = _fitted(jnp.repeat(seen, groups, axis=2), band)  # (B G, ·, 1)
    given = [x for x in (q, k, v, seen) if x is not None]
    out = lax.map(jax.checkpoint(lambda x: _head(band, *x), prevent_cse=False), given)
    out = out.reshape(batch, groups, band.count, heads // groups, band.size, -1)
    out = out.transpose(0, 2, 4, 1, 3, 5)  # (B, N, C, G, H/G, V)
    out = out.reshape(batch, band.count * band.size, heads, -1)
    return out[:, : band.queries]


def _padding(before: int, after: int) -> tuple[tuple[int, int], ...]:
    return (0, 0), (before, after), (0, 0), (0, 0)


def _fitted(x: Tensor, band: Band) -> Tensor:
    """Reshapes (B, S, G, ·) to (B G, ·, ·) with the keys of all blocks."""
    before, after = band.padding
    x = jnp.pad(x[:, : band.keys + min(after, 0)], _padding(before, max(after, 0)))
    return jnp.swapaxes(x, 1, 2).reshape(-1, x.shape[1], x.shape[3])


def _head(
    band: Band, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Computes (N, ·, V) for queries (N, ·, E) and the keys of a group."""

    def local(x: Tensor) -> Tensor:
        blocks = x.reshape(-1, band.size, x.shape[-1])
        shifts = range(band.before + 1 + band.after)
        near = jnp.stack([blocks[i : i + band.count] for i in shifts], axis=1)
        return near.reshape(band.count, band.width, x.shape[-1])

    def block(given: list[Tensor]) -> Tensor:
        n, q, k, v, *seen = given
        visible = in_band(band, n, q.shape[0])
        if seen:
            visible = masks.merge(visible, seen[0][:, 0])
        weights = normalizers.softmax(q @ k.T, visible).astype(v.dtype)
        return weights @ v

    given = [jnp.arange(band.count), query, *(local(x) for x in (key, value))]
    given += [] if mask is None else [local(mask)]
    return lax.map(jax.checkpoint(block, prevent_cse=False), given)


def in_band(band: Band, n: Tensor, rows: int) -> Tensor:
    """Returns which keys of block n exist and are in the window, (·, L)."""
    t = n * band.size + jnp.arange(rows)[:, None] % band.size
    s = (n - band.before) * band.size + jnp.arange(band.width)
    near = (s >= 0) & (s < band.keys) & (abs(t - s) < band.window)
    return near & (s <= t) if band.is_causal else near
