"""The additive score on torch, by chunks; see `reference.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import torch

from keras_attention.kernels.additive import reference as plain
from keras_attention.kernels.additive.reference import (
    exponential,
    is_wide,
    precompute_key,
)
from keras_attention.kernels.replay.torch_facts import decision

Tensor = Any
__all__ = ["additive", "precompute_key"]

CPU_CHUNK, GPU_CHUNK = 2**19, 2**25  # largest queries · keys · units stored


def additive(query: Tensor, key: Tensor, scale: Tensor, exact: bool) -> Tensor:
    """Computes the factored form; in traces and exports, the plain form."""
    tracing = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if exact or tracing or not plain.pays(query, key):
        return plain.additive(query, key, scale, exact)
    query, key, scale = (keras.ops.convert_to_tensor(x) for x in (query, key, scale))
    if query.is_meta or key.is_meta:
        return plain.additive(query, key, scale, exact)
    (queries, width), keys = query.shape[-2:], key.shape[-2]
    q = query.reshape(-1, queries, width)  # (B, T, U)
    k = key.reshape(-1, keys, width)  # (B, S, U)
    # On a GPU, the sigmoid of each pair is as fast, and reading `is_wide` would block.
    wide = query.device.type != "cpu" or decision(is_wide(q.detach(), k.detach()))
    return _Additive.apply(q, k, scale, wide).reshape(*query.shape[:-1], keys)


class _Additive(torch.autograd.Function):
    """Computes scores (B, T, S); the gradient recomputes each chunk."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, scale: Tensor, wide: bool
    ) -> Tensor:
        ctx.save_for_backward(query, key, scale)
        ctx.wide = wide
        scores = query.new_empty(*query.shape[:2], key.shape[1])  # (B, T, S)
        weight = -2 * scale
        for sample, rows, r in _chunks(query, key, wide):
            out = scores[sample, rows].view(-1)
            torch.mv(r.view(-1, len(scale)), weight, out=out)
        return scores.add_(scale.sum())

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        query, key, scale = ctx.saved_tensors
        # Gradients are recorded here only for second derivatives.
        if torch.is_grad_enabled():
            return *plain.gradients(query, key, scale, slope), None
        return *_gradients(query, key, scale, slope, ctx.wide), None


def _gradients(
    query: Tensor, key: Tensor, scale: Tensor, slope: Tensor, wide: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients with respect to `query`, `key` and `scale`, by chunks."""
    sums, dq = torch.empty_like(query), torch.empty_like(query)  # (B, T, U)
    dk = torch.zeros_like(key)  # (B, S, U)
    for sample, rows, r in _chunks(query, key, wide):
        part = slope[sample, rows, :, None] * r  # (·, S, U)
        torch.sum(part, 1, out=sums[sample, rows])
        part.addcmul_(part, r, value=-1)  # slope · r (1 − r)
        torch.sum(part, 1, out=dq[sample, rows])
        dk[sample] += part.sum(0)
    dscale = slope.sum() - 2 * sums.sum((0, 1))
    return 4 * scale * dq, 4 * scale * dk, dscale


def _chunks(
    query: Tensor, key: Tensor, wide: bool
) -> Iterator[tuple[int, slice, Tensor]]:
    """Yields the sample, the query rows and r (rows, S, U) of each chunk."""
    q, k = (-2 * x if wide else exponential(x) for x in (query, key))
    (samples, queries, width), keys = query.shape, key.shape[1]
    size = CPU_CHUNK if query.device.type == "cpu" else GPU_CHUNK
    count = max(1, min(queries, size // (keys * width)))
    buffer = q.new_empty(count, keys, width)
    ones = q.new_ones(())
    for sample in range(samples):
        for start in range(0, queries, count):
            rows = slice(start, min(start + count, queries))
            r = buffer[: rows.stop - start]
            a, b = q[sample, rows, None], k[sample, None]
            if wide:
                yield sample, rows, torch.add(a, b, out=r).sigmoid_()
            else:
                yield sample, rows, torch.addcmul(ones, a, b, out=r).reciprocal_()
