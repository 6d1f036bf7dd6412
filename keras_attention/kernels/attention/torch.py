"""Scaled dot-product attention on torch, in the shapes of `reference.py`."""

from __future__ import annotations

from typing import Any

import keras
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from keras_attention.kernels.attention import bands, bands_torch, reference, tiles
from keras_attention.kernels.tracing.torch import is_traced
from keras_attention.numerics import masks

dropout_attention = reference.dropout_attention

Tensor = Any


CHUNKED = 2**20  # smallest T · S for which causal attention with another mask is split
CHUNK = 512  # queries per chunk
VECTOR = 16  # keys below which torch's kernel for CPUs turns a NaN query into 0


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    bias: Tensor | None = None,
) -> Tensor:
    """Computes torch's fused attention, which does not store all scores."""
    if any(isinstance(x, keras.KerasTensor) for x in (query, key, value)):
        return reference.dot_product_attention(
            query, key, value, mask, scale, is_causal, bias
        )
    tensors = (query, key, value)
    if not all(isinstance(x, torch.Tensor) for x in tensors):
        tensors = tuple(keras.ops.convert_to_tensor(x) for x in tensors)
    q, k, v = (x.transpose(1, 2) for x in tensors)  # (B, H, ·, E)
    grouped = bool(q.shape[1] != k.shape[1])
    if grouped and torch.jit.is_tracing():  # ONNX has no such attention
        return reference.dot_product_attention(*tensors, mask, scale, is_causal, bias)
    options = {"scale": scale, "enable_gqa": grouped}
    plain = mask is None and bias is None
    if plain and k.device.type == "cpu" and not _is_traced() and k.shape[2] < VECTOR:
        plain, bias = False, None if is_causal else q.new_zeros(1, 1)
    if plain:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, **options)
        return out.transpose(1, 2)  # (B, T, H, V)
    if is_causal and _chunks_pay(q, k, bias):
        return _in_chunks(q, k, v, mask, bias, options).transpose(1, 2)
    if is_causal:
        mask = masks.merge(mask, masks.causal(q.shape[2], k.shape[2]))
    return _masked(q, k, v, mask, bias, options).transpose(1, 2)


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
    tensors = query, key, value
    if not all(isinstance(x, torch.Tensor) for x in tensors) or _is_traced():
        return None
    band = bands.plan(*tensors, mask, is_causal, window)
    if band is None:
        return None
    q, k, v = (x.transpose(1, 2) for x in tensors)  # (B, H, ·, E)
    options = {"scale": scale, "enable_gqa": q.shape[1] != k.shape[1]}

    def attend(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        return _masked(q, k, v, visible, None, options)

    return bands_torch.attention(q, k, v, mask, band, attend).transpose(1, 2)


def _is_traced() -> bool:
    """Returns whether the sizes of tensors may be symbolic."""
    return torch.jit.is_tracing() or torch.compiler.is_compiling()


def _masked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    options: dict[str, Any],
) -> Tensor:
    """Computes attention over heads (B, H, ·, E) with a mask or bias."""
    added = None if bias is None else bias.to(q.dtype)
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=added, **options)
    # The softmax of a fully masked row is undefined. Such rows are unmasked, computed
    # and set to 0, so that neither the output nor the gradient is NaN.
    alive = mask.any(dim=-1, keepdim=True)
    if torch.is_grad_enabled():
        q = torch.where(alive, q, torch.zeros_like(q))
    visible = mask | ~alive
    if added is not None:
        visible = torch.where(visible, added, float("-inf"))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, **options)
    if torch.is_grad_enabled():
        return torch.where(alive, out, torch.zeros_like(out))
    return out.masked_fill_(~alive, 0)


def _chunks_pay(q: Tensor, k: Tensor, bias: Tensor | None) -> bool:
    """Returns whether a causal mask merged with another mask would be too large."""
    learned = bias is not None and bias.requires_grad
    return not learned and not is_traced(q) and q.shape[2] * k.shape[2] >= CHUNKED


def _in_chunks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    options: dict[str, Any],
) -> Tensor:
    """Computes causal attention for a chunk of queries at a time.

    The masks of each chunk are rebuilt for the gradient.
    """

    def attend(q: Tensor, k: Tensor, v: Tensor, chunk: tiles.Segment) -> Tensor:
        t = torch.arange(chunk.start, chunk.stop, device=q.device)[:, None]
        ahead = t >= torch.arange(chunk.keys, device=q.device)
        visible = masks.merge(tiles.part(mask, chunk), ahead[None, None])
        return _masked(q, k, v, visible, tiles.part(bias, chunk), options)

    queries, keys, outputs = q.shape[2], k.shape[2], []
    for start in range(0, queries, CHUNK):
        stop = min(start + CHUNK, queries)
        chunk = tiles.Segment(start, stop, min(stop, keys), 1)
        parts = q[:, :, start:stop], k[:, :, : chunk.keys], v[:, :, : chunk.keys]
        if any(x.requires_grad for x in parts) and torch.is_grad_enabled():
            outputs.append(checkpoint(attend, *parts, chunk, use_reentrant=False))
        else:
            outputs.append(attend(*parts, chunk))
    return torch.cat(outputs, 2)
