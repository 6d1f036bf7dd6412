"""Kernels for torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import torch
import torch.nn.functional as F

from keras_attention.ops import masks
from keras_attention.ops.kernels import generic

Tensor = Any


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    bias: Tensor | None = None,
) -> Tensor:
    """torch's own fused attention, on strided views of the heads."""
    if any(isinstance(x, keras.KerasTensor) for x in (query, key, value)):
        return generic.dot_product_attention(
            query, key, value, mask, scale, is_causal, bias
        )
    q, k, v = (keras.ops.convert_to_tensor(x) for x in (query, key, value))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, ·, E)
    more = {"scale": scale, "enable_gqa": q.shape[1] != k.shape[1]}
    if mask is None and bias is None:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, **more)
        return out.transpose(1, 2)  # (B, T, H, V)
    if is_causal:
        mask = masks.merge(mask, masks.causal(q.shape[2], k.shape[2]))
    added = None if bias is None else bias.to(q.dtype)
    if mask is None:
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=added, **more)
        return out.transpose(1, 2)  # (B, T, H, V)
    # A row of nothing but masked scores has no softmax. It is opened, computed and
    # zeroed, so that neither it nor its gradient can hold a NaN.
    alive = mask.any(dim=-1, keepdim=True)
    q = torch.where(alive, q, torch.zeros_like(q))
    seen = mask | ~alive
    if added is not None:
        seen = torch.where(seen, added, float("-inf"))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, **more)
    return torch.where(alive, out, torch.zeros_like(out)).transpose(1, 2)


def word_counts(tokens: Tensor, weights: Tensor, size: int) -> Tensor:
    """Adds each word's weight at its place."""
    counts = weights.new_zeros((*tokens.shape[:-1], size))
    return counts.scatter_add(-1, tokens.long(), weights)  # (..., V)


def scan(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """A loop in Python over views of the inputs, stacked once behind it.

    Structures are taken apart in plain Python: a step is short, and `keras.tree` would
    take as long.
    """
    views = _mapped(lambda x: _Views(keras.ops.convert_to_tensor(x).unbind(0)), inputs)
    length = len(keras.tree.flatten(views)[0].each)
    outputs = []
    for t in range(length):
        state, output = step(state, _mapped(lambda x, t=t: x.each[t], views))
        outputs.append(output)
    return state, _mapped(lambda *y: torch.stack(y), *outputs)


class _Views:
    """All steps of one input: a leaf of a structure, as a tuple would not be."""

    def __init__(self, each: tuple[Tensor, ...]) -> None:
        self.each = each


def _mapped(function: Callable, *structures: Any) -> Any:
    """`keras.tree.map_structure` of dicts, lists and (named) tuples."""
    first = structures[0]
    if isinstance(first, dict):
        return {k: _mapped(function, *(s[k] for s in structures)) for k in first}
    if isinstance(first, (list, tuple)):
        items = [_mapped(function, *parts) for parts in zip(*structures)]
        named = hasattr(first, "_fields")
        return type(first)(*items) if named else type(first)(items)
    return function(*structures)


def is_traced(tensor: Tensor) -> bool:
    """Whether the tensor is symbolic or inside a compiled or exported function."""
    return (
        isinstance(tensor, keras.KerasTensor)
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or keras.ops.convert_to_tensor(tensor).is_meta
    )
