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
    """Computes attention over heads (B, H, T, V) for a mask (B, 1, 1, S).

    `attend` is a function f(query, key, value, mask) for the heads of a block.
    """
    # The gradient of a split joins the gradients of its parts. The gradients of slices
    # would be as large as the whole tensor, one for each block.
    queries, keys, values = (x.split(band.size, 2) for x in (query, key, value))
    graph = torch.is_grad_enabled()
    graph = graph and any(x.requires_grad for x in (query, key, value))

    def block(q: Tensor, start: int, stop: int, *near: Tensor) -> Tensor:
        half = len(near) // 2
        k, v = torch.cat(near[:half], 2), torch.cat(near[half:], 2)
        t = torch.arange(start, start + q.shape[2], device=q.device)[:, None]
        s = torch.arange(stop - k.shape[2], stop, device=q.device)
        visible = (t - s).abs() < band.window
        visible = (visible & (s <= t) if band.is_causal else visible)[None, None]
        if mask is not None:
            visible = visible & mask[..., stop - k.shape[2] : stop]
        return attend(q, k, v, visible)

    outputs = []
    for n, q in enumerate(queries):
        first, last = max(n - band.before, 0), n + band.after + 1
        near = *keys[first:last], *values[first:last]
        if not near:  # all keys are too far behind
            outputs.append(q.new_zeros(*q.shape[:3], value.shape[3]))
            continue
        start, stop = n * band.size, min(last * band.size, band.keys)
        if graph:
            out = checkpoint(block, q, start, stop, *near, use_reentrant=False)
        else:
            out = block(q, start, stop, *near)
        outputs.append(out)
    return torch.cat(outputs, 2)
