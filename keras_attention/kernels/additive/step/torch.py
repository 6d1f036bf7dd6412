"""The additive score of one query on torch; see `one_query.py`."""

from __future__ import annotations

from typing import Any

import keras
import torch

from keras_attention.kernels.additive import reference as plain
from keras_attention.kernels.tracing.torch import is_traced

Tensor = Any


def powers(key: Tensor) -> Tensor | None:
    """e^{2k}, (B, S, U), through which no gradient flows; None while traced."""
    return None if is_traced(key) else plain.exponential(key.detach())


def additive_step(query: Tensor, key: Tensor, power: Tensor, scale: Tensor) -> Tensor:
    """Scores (B, 1, S) of queries (B, 1, U)."""
    query, scale = (keras.ops.convert_to_tensor(x) for x in (query, scale))
    if not torch.is_grad_enabled():
        return _scores(_sigmoids(query, power), scale)[:, None]
    return _Step.apply(query[:, 0], key, power, scale)[:, None]


def _sigmoids(query: Tensor, power: Tensor) -> Tensor:
    """r (B, S, U) of queries (B, 1, U)."""
    raised = query.clamp(-plain.RANGE, plain.RANGE).mul_(2).exp_()
    return torch.mul(raised, power).add_(1).reciprocal_()


def _scores(r: Tensor, scale: Tensor) -> Tensor:
    """Σ v − 2 Σ v r, (B, S)."""
    return torch.matmul(r, scale).mul_(-2).add_(scale.sum())


class _Step(torch.autograd.Function):
    """Scores (B, S); of the keys' exponentials there is no gradient."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, power: Tensor, scale: Tensor
    ) -> Tensor:
        r = _sigmoids(query[:, None], power)
        ctx.save_for_backward(query, key, scale, r)
        return _scores(r, scale)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        query, key, scale, r = ctx.saved_tensors
        # Gradients are recorded here only if they are to be differentiated again.
        if torch.is_grad_enabled():
            found = plain.gradients(query[:, None], key, scale, slope[:, None])
            return found[0][:, 0], found[1], None, found[2]
        part = slope[..., None] * r  # (B, S, U)
        sums = part.sum(1)  # (B, U)
        part.addcmul_(part, r, value=-1).mul_(4 * scale)
        return part.sum(1), part, None, slope.sum() - 2 * sums.sum(0)
