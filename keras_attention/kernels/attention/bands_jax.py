"""Attention in a sliding window on JAX, block by block; see `bands.py`.

Each block and each span is a checkpoint, so that gradients of any order work.
"""

from __future__ import annotations

from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from keras_attention.kernels.attention.bands import Band
from keras_attention.numerics import masks, normalizers

Tensor = Any

SPAN = 16  # blocks of a span, unless the window is longer


def attention(
    scale: float,
    band: Band,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
) -> Tensor:
    """Computes attention for a mask (B, 1, 1, S); all sizes must be static.

    The blocks are grouped into spans of P queries, which are cut without a copy.
    """
    # of a span, which is at least as long as the window before it
    blocks = max(min(SPAN, band.blocks), band.before, 1)
    size = blocks * band.size  # P
    count = -(-band.blocks // blocks)
    batch, _, heads, _ = query.shape
    q = _fitted(query, count * size).reshape(batch * count, size, heads, -1)
    tensors = [jnp.tile(jnp.arange(count) * blocks, batch), q]
    tensors += [_spans(x, band, size, count) for x in (key, value)]
    if mask is not None:
        seen = jnp.broadcast_to(mask[:, 0, 0, :, None, None], (batch, band.keys, 1, 1))
        tensors.append(_spans(seen, band, size, count))
    span = jax.checkpoint(lambda x: _span(band, scale, *x), prevent_cse=False)
    out = lax.map(span, tensors)  # (B ·, P, H, V)
    return out.reshape(batch, count * size, heads, -1)[:, : band.queries]


def _fitted(x: Tensor, length: int) -> Tensor:
    """Cuts axis 1 to a length, or pads it with zeros."""
    missing = length - x.shape[1]
    if missing <= 0:
        return x[:, :length]
    return jnp.pad(x, [(0, missing if axis == 1 else 0) for axis in range(x.ndim)])


def _spans(x: Tensor, band: Band, size: int, count: int) -> list[Tensor]:
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
    band: Band,
    scale: float,
    first: Tensor,
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    mask: list[Tensor] | None = None,
) -> Tensor:
    """Computes (P, H, V) for the queries (P, H, E) of a span that begins at `first`.

    The rows of a block are the queries of all heads that share keys.
    """
    (size, heads, width), groups = query.shape, keys[0].shape[1]
    q = (query * scale).reshape(-1, band.size, groups, heads // groups, width)
    q = q.transpose(2, 0, 3, 1, 4)  # (G, ·, H/G, C, E)
    q = q.reshape(groups, -1, heads // groups * band.size, width)
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
    out = out.reshape(groups, -1, heads // groups, band.size, out.shape[-1])
    return out.transpose(1, 3, 0, 2, 4).reshape(size, heads, -1)


def _local(x: Tensor, band: Band) -> Tensor:
    """Returns the L keys or values that each block of a span meets, (·, L, ·)."""
    blocks = x.reshape(-1, band.size, x.shape[-1])
    shifts = band.before + 1 + band.after
    count = len(blocks) - shifts + 1
    near = jnp.stack([blocks[i : i + count] for i in range(shifts)], axis=1)
    return near.reshape(count, band.width, x.shape[-1])
