"""Scaled dot-product attention on torch, in the shapes of `reference.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import keras
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad

from keras_attention.kernels.attention import reference, tiles
from keras_attention.kernels.tracing.torch import is_traced
from keras_attention.numerics import masks
from keras_attention.numerics.mask_objects import Mask, every

dropout_attention = reference.dropout_attention

Tensor = Any


CHUNKED = 2**20  # smallest T · S for which causal attention with another mask is split
CHUNK = 512  # queries per chunk
ROWS, COLUMNS = 256, 128  # queries and keys of a tile of a mask object
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
        out = _masked(q, k, v, None, None, {**options, "is_causal": is_causal})
        return out.transpose(1, 2)  # (B, T, H, V)
    if is_causal and _blocks_pay(q, k, bias):
        ranges = [(0, n + 1) for n in range(math.ceil(q.shape[2] / CHUNK))]
        joined, sizes = every(None, mask, is_causal=True), (CHUNK, CHUNK)
        return _in_blocks(q, k, v, joined, bias, ranges, sizes, options)
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
    band = tiles.plan(*tensors, mask, is_causal, window)
    if band is None:
        return None
    q, k, v = (x.transpose(1, 2) for x in tensors)  # (B, H, ·, E)
    options = {"scale": scale, "enable_gqa": q.shape[1] != k.shape[1]}
    ranges = [(n - band.before, n + band.after + 1) for n in range(band.blocks)]
    joined = every(None, mask, is_causal=is_causal, window=window)
    return _in_blocks(q, k, v, joined, None, ranges, (band.size, band.size), options)


def masked_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, scale: float
) -> Tensor | None:
    """Computes attention by tiles, each with a range of keys that its rows need."""
    tensors = query, key, value
    if not all(isinstance(x, torch.Tensor) and not x.is_meta for x in tensors):
        return None
    if not tiles.pays(*tensors) or _is_traced() or _is_transformed():
        return None
    keys, count, mask = key.shape[1], math.ceil(query.shape[1] / ROWS), mask.aligned()
    first, last = tiles.ranges(mask, ROWS, count, keys, COLUMNS)
    # A tile that sees no key meets a block of masked keys, for its gradient.
    first = first.clip(max=(keys - 1) // COLUMNS)
    # A `Replayer` cannot trace the values, so calls of this size are not replayed.
    ranges = torch.stack([first, torch.maximum(last, first + 1)], -1).tolist()
    batch = len(query) if len(ranges) > 1 else 1  # parts with ranges of their own
    options = {"scale": scale, "enable_gqa": query.shape[2] != key.shape[2]}
    heads = [x.transpose(1, 2).chunk(batch) for x in tensors]  # (·, H, ·, E)
    outputs = []
    for n, blocks in enumerate(ranges):
        q, k, v = (x[n] for x in heads)
        part = mask.map(lambda x, n=n: x[n : n + 1] if len(x) == batch > 1 else x)
        out = _in_blocks(q, k, v, part, None, blocks, (ROWS, COLUMNS), options)
        outputs.append(out)
    return torch.cat(outputs)


def lookup(query: Tensor, table: Tensor, count: Any) -> Tensor | None:
    """Computes softmax attention over the rows of a table by the fused kernel.

    It stores only some scores at a time, and is 1.7 times as fast as the chunks of the
    caller (64 queries, 100,000 rows, D64).
    """
    if not isinstance(table, torch.Tensor) or table.dtype != query.dtype:
        return None
    if query.is_cuda and (query.dtype != torch.float32 or query.shape[-1] % 4):
        return None  # torch would use kernels that store all scores
    rows = table[: int(count)][None, None]
    return _masked(query[None, None], rows, rows, None, None, {"scale": 1.0})[0, 0]


def _is_traced() -> bool:
    """Returns whether the sizes of tensors may be symbolic."""
    return torch.jit.is_tracing() or torch.compiler.is_compiling()


def _is_transformed() -> bool:
    """Returns whether `torch.func` or forward-mode gradients are active."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def _recorded(gradients: tuple, slopes: tuple) -> tuple | None:
    """Returns the gradients of a fused kernel with their graph, if it is recorded."""
    if not torch.is_grad_enabled() or slopes[0] is None:
        return None
    node: Any = torch._C._current_autograd_node()
    names = "query", "key", "value", "attn_mask", "attn_bias"
    saved = [getattr(node, f"_saved_{name}", None) for name in names]
    # Of views: the gradient of a query must not flow through a key computed from it.
    sources = [x.view_as(x) for x in saved if x is not None]
    options = {"is_causal": node._saved_is_causal, "scale": node._saved_scale}
    out = _explicit(*sources, **options, enable_gqa=True)
    return _gradients(out, slopes[0], sources, [x is not None for x in gradients])


def _explicit(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, **options: Any
) -> Tensor:
    """Computes attention by torch's explicit kernel, with gradients of any order.

    `torch.nn.attention.sdpa_kernel` would change the kernels of all threads.
    """
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        zeros = torch.zeros_like(attn_mask, dtype=q.dtype)
        attn_mask = zeros.masked_fill(~attn_mask, float("-inf"))
    kernel = torch.ops.aten._scaled_dot_product_attention_math
    return kernel(q, k, v, attn_mask, **options)[0]


def _gradients(out: Tensor, slope: Tensor, sources: list, needed: Any) -> tuple:
    """Returns the gradients with respect to some sources, and None for the others."""
    wanted = [x for x, is_needed in zip(sources, needed) if is_needed]
    is_recorded = torch.is_grad_enabled()
    results = iter(torch.autograd.grad(out, wanted, slope, create_graph=is_recorded))
    return tuple(next(results) if is_needed else None for is_needed in needed)


def _masked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    options: dict[str, Any],
) -> Tensor:
    """Computes attention over heads (B, H, ·, E), with gradients of any order.

    Fused kernels only have a first gradient. `_recorded` replaces it if it is recorded.
    """
    added, alive = None if bias is None else bias.to(q.dtype), None
    if mask is not None:
        # The softmax of a fully masked row is undefined. Such rows are unmasked,
        # computed and set to 0, so that neither the output nor the gradient is NaN.
        alive = mask.any(dim=-1, keepdim=True)
        if torch.is_grad_enabled():
            q = torch.where(alive, q, torch.zeros_like(q))
        visible = mask | ~alive
        added = visible if added is None else torch.where(visible, added, float("-inf"))
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        out = _explicit(q, k, v, added, **options)
    else:
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=added, **options)
        node: Any = None if torch.compiler.is_compiling() else out.grad_fn
        if hasattr(type(node), "_saved_query"):  # the explicit kernel has several nodes
            node.register_hook(_recorded)
    if alive is None:
        return out
    if torch.is_grad_enabled():
        return torch.where(alive, out, torch.zeros_like(out))
    return out.masked_fill_(~alive, 0)


def _blocks_pay(q: Tensor, k: Tensor, bias: Tensor | None) -> bool:
    """Returns whether a causal mask merged with another mask would be too large."""
    learned = bias is not None and bias.requires_grad
    return not learned and not is_traced(q) and q.shape[2] * k.shape[2] >= CHUNKED


def _in_blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    bias: Tensor | None,
    ranges: Sequence[Sequence[int]],
    sizes: tuple[int, int],
    options: dict[str, Any],
) -> Tensor:
    """Computes attention (B, T, H, V) for a block of queries at a time.

    A block has `sizes` queries and keys. `ranges` has the first block of keys of each
    block of queries and the one after the last, which may lie outside of the sequence.
    The masks of each block are rebuilt for the gradient.
    """
    # The gradient of a split joins the gradients of its parts. The gradients of slices
    # would be as large as the whole tensor, one for each block.
    height, width = sizes
    length, queries = k.shape[2], q.split(height, 2)
    keys, values = (x.split(width, 2) for x in (k, v))
    graph = torch.is_grad_enabled() and not _is_transformed()

    def block(start: int, stop: int, q: Tensor, *tensors: Tensor) -> Tensor:
        half = len(tensors) // 2
        k, v = torch.cat(tensors[:half], 2), torch.cat(tensors[half:], 2)
        rows = slice(start, start + q.shape[2])
        near = slice(stop - k.shape[2], stop)
        t = torch.arange(rows.start, rows.stop, device=q.device)[:, None]
        s = torch.arange(near.start, near.stop, device=q.device)[None]
        part = mask.map(lambda x: tiles.part(x, rows, near))
        bias_part = tiles.part(bias, rows, near)
        return _masked(q, k, v, part.allows(t, s), bias_part, options)

    outputs = []
    for n, (rows, (first, last)) in enumerate(zip(queries, ranges)):
        first, last = max(first, 0), max(last, 0)
        near = *keys[first:last], *values[first:last]
        if not near:  # all keys are too far behind
            outputs.append(rows.new_zeros(*rows.shape[:3], v.shape[3]))
            continue
        form = partial(block, n * height, min(last * width, length))
        out = _Recomputed.apply(form, rows, *near) if graph else form(rows, *near)
        outputs.append(out)
    return torch.cat(outputs, 2).transpose(1, 2)


class _Recomputed(torch.autograd.Function):
    """Calls a block, and again for its gradient, which is recorded if necessary.

    Autocast is as in the first call, also where the gradient is computed outside of it.
    """

    @staticmethod
    def forward(ctx: Any, block: Any, *tensors: Tensor) -> Tensor:
        ctx.block, device = block, tensors[0].device.type
        device = device if torch.amp.is_autocast_available(device) else "cpu"
        dtype, casts = torch.get_autocast_dtype(device), torch.is_autocast_enabled
        ctx.casts = torch.autocast(device, dtype, casts(device))
        ctx.save_for_backward(*tensors)
        return block(*tensors)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple:
        with torch.enable_grad(), ctx.casts:
            sources = [x.view_as(x) for x in ctx.saved_tensors]  # as in `_recorded`
            out = ctx.block(*sources)
        return None, *_gradients(out, slope, sources, ctx.needs_input_grad[1:])
