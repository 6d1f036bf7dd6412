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
) -> Tensor:
    """torch's own fused attention, on strided views of the heads."""
    if any(isinstance(x, keras.KerasTensor) for x in (query, key, value)):
        return generic.dot_product_attention(query, key, value, mask, scale, is_causal)
    q, k, v = (keras.ops.convert_to_tensor(x) for x in (query, key, value))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, ·, E)
    if mask is not None and is_causal:
        mask = masks.merge(mask, masks.causal(q.shape[2], k.shape[2]))
        is_causal = False
    if mask is None:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, scale=scale)
        return out.transpose(1, 2)  # (B, T, H, V)
    # A row of nothing but masked scores has no softmax. It is opened, computed and
    # zeroed, so that neither it nor its gradient can hold a NaN.
    alive = mask.any(dim=-1, keepdim=True)
    q = torch.where(alive, q, torch.zeros_like(q))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | ~alive, scale=scale)
    return torch.where(alive, out, torch.zeros_like(out)).transpose(1, 2)


def word_counts(tokens: Tensor, weights: Tensor, size: int) -> Tensor:
    """Adds each word's weight at its place."""
    counts = weights.new_zeros((*tokens.shape[:-1], size))
    return counts.scatter_add(-1, tokens.long(), weights)  # (..., V)


def scan(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """A loop in Python over views of the inputs, stacked once behind it."""
    flat = [
        keras.ops.convert_to_tensor(x).unbind(0) for x in keras.tree.flatten(inputs)
    ]
    outputs = []
    for now in zip(*flat):
        state, output = step(state, keras.tree.pack_sequence_as(inputs, list(now)))
        outputs.append(keras.tree.flatten(output))
    stacked = [torch.stack(y) for y in zip(*outputs)]
    return state, keras.tree.pack_sequence_as(output, stacked)


def is_traced(tensor: Tensor) -> bool:
    """Whether the tensor is symbolic or inside a compiled or exported function."""
    return (
        isinstance(tensor, keras.KerasTensor)
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or keras.ops.convert_to_tensor(tensor).is_meta
    )
