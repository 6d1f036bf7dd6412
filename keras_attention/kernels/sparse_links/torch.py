"""Sparse links on torch, by a list of those that are not 0; see `links.py`."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from keras_attention.kernels.memory_step.torch import gradients_again, own_gradients
from keras_attention.kernels.sparse_links import reference as plain
from keras_attention.kernels.tracing.torch import is_traced

Tensor = Any


class Live(NamedTuple):
    """The N links that are not 0."""

    index: Tensor  # where each stands among all G K M
    here: Tensor  # its slot i, among all G M
    there: Tensor  # its slot j, among all G M
    values: Tensor  # L[i, j]


def fade(values: Tensor, slots: Tensor, weights: Tensor) -> Tensor:
    """Links after a write, (G, K, M)."""
    if not _applies(values, weights):
        return plain.fade(values, slots, weights)
    return _Fade.apply(values, slots, weights)


def follow(values: Tensor, slots: Tensor, reads: Tensor) -> tuple[Tensor, Tensor]:
    """What is after and before what was read, (G, M, R)."""
    if not _applies(values, reads):
        return plain.follow(values, slots, reads)
    return _Follow.apply(values, slots, reads)


def _applies(values: Tensor, weights: Tensor) -> bool:
    """Whether nothing traces, transforms or casts what is computed."""
    if is_traced(values) or is_traced(weights) or not own_gradients():
        return False
    cast = torch.is_autocast_enabled(values.device.type)
    return not cast and values.dtype == weights.dtype


class _Fade(torch.autograd.Function):
    """L and w to the L that is left."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, slots: Tensor, weights: Tensor) -> Tensor:
        live = _live(values, slots)
        ctx.save_for_backward(values, slots, weights, *live)
        factor = _kept(weights, live)
        out = torch.zeros_like(values)
        out.view(-1)[live.index] = factor * live.values
        return out

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        values, slots, weights, *live = ctx.saved_tensors
        # Gradients are recorded here only if they are to be differentiated again.
        if torch.is_grad_enabled():
            out = plain.fade(values, slots, weights)
            found = gradients_again([out], (values, weights), [slope])
            return found[0], None, found[1]
        links = Live(*live)
        d = slope.reshape(-1)[links.index]
        of_values = torch.zeros_like(values)
        of_values.view(-1)[links.index] = d * _kept(weights, links)
        of_weights = torch.zeros_like(weights, memory_format=torch.contiguous_format)
        lost = d.mul_(links.values)
        flat = of_weights.view(-1)
        flat.index_add_(0, links.here, lost, alpha=-1)
        flat.index_add_(0, links.there, lost, alpha=-1)
        return of_values, None, of_weights


class _Follow(torch.autograd.Function):
    """L and wʳ to f and b."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, slots: Tensor, reads: Tensor
    ) -> tuple[Tensor, Tensor]:
        live = _live(values, slots)
        ctx.save_for_backward(values, slots, reads, *live)
        rows, value = reads.reshape(-1, reads.shape[-1]), live.values[:, None]
        ahead, back = torch.zeros_like(rows), torch.zeros_like(rows)
        ahead.index_add_(0, live.here, value * rows[live.there])
        back.index_add_(0, live.there, value * rows[live.here])
        return ahead.view(reads.shape), back.view(reads.shape)

    @staticmethod
    def backward(ctx: Any, ahead: Tensor, back: Tensor) -> tuple[Tensor | None, ...]:
        values, slots, reads, *live = ctx.saved_tensors
        if torch.is_grad_enabled():
            pair = plain.follow(values, slots, reads)
            found = gradients_again(pair, (values, reads), (ahead, back))
            return found[0], None, found[1]
        links = Live(*live)
        width = reads.shape[-1]
        rows, ahead, back = (x.reshape(-1, width) for x in (reads, ahead, back))
        d_ahead, d_back = ahead[links.here], back[links.there]  # (N, R)
        met = (d_ahead * rows[links.there]).addcmul_(d_back, rows[links.here])
        of_values = torch.zeros_like(values)
        of_values.view(-1)[links.index] = met.sum(1)
        of_reads, value = torch.zeros_like(rows), links.values[:, None]
        of_reads.index_add_(0, links.there, d_ahead.mul_(value))
        of_reads.index_add_(0, links.here, d_back.mul_(value))
        return of_values, None, of_reads.view(reads.shape)


def _live(values: Tensor, slots: Tensor) -> Live:
    _, links, number = values.shape
    flat = values.reshape(-1)
    index = flat.nonzero()[:, 0]
    group = torch.div(index, links * number, rounding_mode="floor") * number
    here, to = group + index % number, group + slots.reshape(-1)[index]
    return Live(index, here, to, flat[index])


def _kept(weights: Tensor, live: Live) -> Tensor:
    """1 − w[i] − w[j], (N,)."""
    flat = weights.reshape(-1)
    return (1 - flat[live.here]).sub_(flat[live.there])
