"""Attention of a recorded step over the used part of a cache.

A cache has room for all positions, and a mask hides the empty ones. On a CPU, attention
with few queries mostly waits for keys and values. The keys after the last one that the
mask shows to any query have weight 0, so they are not read.

Shapes: B batch, H heads, G heads of keys and values, T queries, S keys, E width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

Tensor = Any
ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
BLOCK = 16  # the number of keys that are read is a multiple of it
MIN_KEYS = 2 * BLOCK


def use_visible(graph: Any, values: dict[Any, Any]) -> None:
    """Replaces attention with masks by attention to the visible keys.

    Args:
        graph: a `torch.fx.Graph`, modified in place.
        values: the values of the nodes.
    """
    for node in graph.nodes:
        if node.op != "call_function" or node.target is not ATTENTION:
            continue
        mask = node.kwargs.get("attn_mask")
        if mask is None or len(node.args) != 3:
            continue
        keys, mask = values[node.args[1]], values[mask]
        whole = mask.dtype == torch.float32 and mask.shape[-1] == keys.shape[2]
        if whole and keys.shape[2] >= MIN_KEYS:
            node.target = attention


def attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
    """Computes ATen's attention without the keys after the last visible one.

    Args:
        query: (B, H, T, E).
        key: (B, G, S, E).
        value: (B, G, S, E).
        **options: the keyword arguments of the operation. Its `attn_mask` is float32,
            −∞ for hidden keys, and broadcasts to (B, H, T, S).
    """
    mask = options["attn_mask"]
    one = mask[:, 0] if mask.stride(1) == 0 else mask
    visible = (one.numpy() != -np.inf).reshape(-1, mask.shape[-1]).any(0)  # (S,)
    count = len(visible) - int(visible[::-1].argmax()) if visible.any() else 1
    count = min(-(-count // BLOCK) * BLOCK, key.shape[2])
    options["attn_mask"] = mask[..., :count]
    return ATTENTION(query, key[:, :, :count], value[:, :, :count], **options)
