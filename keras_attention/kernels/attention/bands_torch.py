"""Attention in a sliding window on torch, block by block; see `bands.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from keras_attention.kernels.attention.bands import Band

Tensor = Any


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Any, band: Band, attend: Callable
) -> Tensor:
    """Computes attention over heads for a mask (B, 1, 1, S).

    The gradient of a split joins the gradients of its parts. The gradients of slices
    would be as large as the whole tensor, one for each block.

    Args:
        query: (B, H, T, E).
        key: (B, G, S, E).
        value: (B, G, S, V).
        mask: booleans (B, 1, 1, S), or None.
        band: the blocks.
        attend: a function f(query, key, value, mask) for heads.

    Returns:
        (B, H, T, V).
    """
    queries, keys, values = (x.split(band.size, 2) for x in (query, key, value))
    graph = torch.is_grad_enabled()
    graph = graph and any(x.requires_grad for x in (query, key, value))

    def one(q: Tensor, start: int, stop: int, *near: Tensor) -> Tensor:
        half = len(near) // 2
        k, v = torch.cat(near[:half], 2), torch.cat(near[half:], 2)
        visible = _in_band(band, start, q.shape[2], stop, k.shape[2], q.device)
        if mask is not None:
            visible = visible & mask[..., stop - k.shape[2] : stop]
        return attend(q, k, v, visible)

    found = []
    for n, q in enumerate(queries):
        first, last = max(n - band.before, 0), n + band.after + 1
        near = *keys[first:last], *values[first:last]
        if not near:  # all keys are too far behind
            shape = (*q.shape[:3], value.shape[3])
            found.append(q.new_zeros(shape))
            continue
        start, stop = n * band.size, min(last * band.size, band.keys)
        if graph:
            out = checkpoint(one, q, start, stop, *near, use_reentrant=False)
        else:
            out = one(q, start, stop, *near)
        found.append(out)
    return torch.cat(found, 2)


def _in_band(
    band: Band, start: int, queries: int, stop: int, keys: int, device: Any
) -> Tensor:
    """Returns which of the `keys` keys before `stop` are in the window, (1, 1, ·, ·).

    The `queries` queries begin at `start`.
    """
    t = torch.arange(start, start + queries, device=device)[:, None]
    s = torch.arange(stop - keys, stop, device=device)
    near = (t - s).abs() < band.window
    return (near & (s <= t) if band.is_causal else near)[None, None]
