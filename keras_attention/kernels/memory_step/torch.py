"""One step of a DNC's memory on torch, with an explicit gradient.

This module computes the equations of `reference.py` and `gradient.py` with torch
operations, in place where possible. For a memory of usual size, the overhead of a call
takes as long as its computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F

from keras_attention.kernels.memory_step import reference
from keras_attention.kernels.memory_step.interface import (
    EPSILON,
    Interface,
    MemoryOptions,
    split_interface,
)
from keras_attention.kernels.memory_step.reference import (
    GRAVES,
    Content,
    MemoryState,
    Residuals,
    SortedSlots,
)
from keras_attention.kernels.tracing.torch import is_traced

Tensor = Any

LIBRARY = SimpleNamespace(
    reshape=torch.reshape,
    softplus=F.softplus,
    sigmoid=torch.sigmoid,
    softmax=torch.softmax,
)


def access_memory(
    interface: Tensor,
    old: MemoryState,
    mask: Tensor | None = None,
    options: MemoryOptions = GRAVES,
) -> tuple[Tensor, MemoryState]:
    """Returns the words read and the new memory.

    Only the DNC of 2016 with one write head is computed here; the reference computes
    all other variants. The reference is also used for symbolic tensors, in exports,
    under `torch.func`, for forward-mode derivatives and under `torch.autocast`, where a
    custom autograd function would be bypassed or receive other dtypes.
    """
    if (
        options != GRAVES
        or old.write_weights.shape[1] > 1
        or is_traced(interface)
        or not own_gradients()
        or torch.is_autocast_enabled(interface.device.type)
        or interface.dtype is not old.memory.dtype
    ):
        return reference.access_memory(interface, old, mask, options)
    read, *new = _Access.apply(mask, interface, *old)
    return read, MemoryState(*new)


def own_gradients() -> bool:
    """Returns whether a custom autograd function may be used."""
    transformed = torch._C._are_functorch_transforms_active()
    return not transformed and torch.autograd.forward_ad._current_level < 0


def gradients_again(
    outputs: Sequence[Tensor], given: Sequence[Tensor], slopes: Sequence[Tensor]
) -> list[Tensor | None]:
    """Computes the gradients of `outputs` with respect to `given`; None for constants.

    The gradients are themselves differentiable.
    """
    pairs = [(y, d) for y, d in zip(outputs, slopes) if y.requires_grad]
    wanted = [x for x in given if x.requires_grad]
    gradients = torch.autograd.grad(
        [y for y, _ in pairs],
        wanted,
        [d for _, d in pairs],
        create_graph=True,
        allow_unused=True,
    )
    left = iter(gradients)
    return [next(left) if x.requires_grad else None for x in given]


class _Access(torch.autograd.Function):
    """Maps ξ and the memory to the words read and the new memory."""

    @staticmethod
    def forward(
        ctx: Any, mask: Tensor | None, interface: Tensor, *flat: Tensor
    ) -> tuple[Tensor, ...]:
        old = MemoryState(*flat)
        read, new, saved = _forward(interface, old, mask)
        free_list: Any = saved.free_list
        ctx.save_for_backward(
            mask, interface, *old, *new, *saved.interface, saved.retention, *free_list,
            saved.allocation, *saved.write_content, saved.forward, saved.backward,
            *saved.read_content,
        )  # fmt: skip
        return read, *new

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        mask, interface, *flat = ctx.saved_tensors
        old, new = MemoryState(*flat[:6]), MemoryState(*flat[6:12])
        # Gradients are recorded here only for second derivatives.
        if torch.is_grad_enabled():
            read, again = reference.access_memory(interface, old, mask)
            return None, *gradients_again((read, *again), (interface, *old), slopes)
        x, flat = Interface(*flat[12:26]), flat[26:]
        saved = Residuals(
            x, flat[0], SortedSlots(*flat[1:5]), flat[5], Content(*flat[6:10]),
            flat[10], flat[11], Content(*flat[12:]),
        )  # fmt: skip
        d = MemoryState(*slopes[1:])
        d_interface, d_old = _backward(old, new, saved, slopes[0], d)
        return None, d_interface, *d_old


def _forward(
    interface: Tensor, old: MemoryState, mask: Tensor | None
) -> tuple[Tensor, MemoryState, Residuals]:
    """Runs `reference.step`, with link weights that have no axis of write heads."""
    sizes = old.memory.shape[-1], old.read_weights.shape[1], 1
    x = split_interface(interface, sizes, GRAVES, mask, LIBRARY)
    ga, gw = x.allocation_gate, x.write_gate
    w0, p0, l0 = old.write_weights[:, 0], old.precedence[:, 0], old.links[:, 0]

    psi = torch.mul(x.free_gates[:, :, None], old.read_weights).neg_().add_(1).prod(1)
    usage = torch.addcmul(old.usage, 1 - old.usage, w0).mul_(psi)  # u
    used, order = usage.mul(1 - EPSILON).add_(EPSILON).sort(dim=1, stable=True)
    before = torch.ones_like(used)
    before[:, 1:] = used[:, :-1].cumprod(1)
    ordered = torch.addcmul(before, before, used, value=-1)
    allocation = torch.empty_like(ordered).scatter_(1, order, ordered)  # a

    write_content = _content(old.memory, x.write_keys, x.write_strengths)  # cʷ
    w = gw * torch.lerp(write_content.weights[:, 0], allocation, ga)  # wʷ
    rows = w[:, :, None]
    change = torch.addcmul(x.values, old.memory, x.erase, value=-1)
    memory = torch.addcmul(old.memory, rows, change)  # M

    links = torch.sub(1 - rows, w[:, None]).mul_(l0).addcmul_(rows, p0[:, None])
    links.diagonal(dim1=1, dim2=2).zero_()  # L
    precedence = torch.addcmul(w, p0, 1 - w.sum(1, keepdim=True))  # p
    ahead = torch.bmm(old.read_weights, links.transpose(1, 2))  # f
    back = torch.bmm(old.read_weights, links)  # b
    read_content = _content(memory, x.read_keys, x.read_strengths)  # cʳ
    pi = x.modes
    reads = pi[:, :, :1] * back  # wʳ
    reads.addcmul_(pi[:, :, 1:2], read_content.weights).addcmul_(pi[:, :, 2:], ahead)
    new = MemoryState(
        memory, usage, w[:, None], reads, precedence[:, None], links[:, None]
    )
    free_list = SortedSlots(order, order, used, before)
    saved = Residuals(
        x, psi, free_list, allocation, write_content, ahead, back, read_content
    )
    return torch.bmm(reads, memory), new, saved


def _backward(
    old: MemoryState, new: MemoryState, saved: Residuals, d_read: Tensor, d: MemoryState
) -> tuple[Tensor, MemoryState]:
    x = saved.interface
    ga, gw = x.allocation_gate, x.write_gate
    w = new.write_weights[:, 0]
    d_weights = torch.baddbmm(d.read_weights, d_read, new.memory.transpose(1, 2))
    d_memory = torch.bmm(new.read_weights.transpose(1, 2), d_read).add_(d.memory)
    mixed = saved.backward, saved.read_content.weights, saved.forward
    d_modes = torch.stack([(d_weights * one).sum(2) for one in mixed], 2)
    d_back, d_content, d_ahead = (
        x.modes[:, :, n : n + 1] * d_weights for n in range(3)
    )
    d_read_keys, d_read_strengths, more = _content_gradient(
        new.memory, x.read_keys, x.read_strengths, saved.read_content, d_content
    )
    d_memory += more
    d_w, d_reads, d_links, d_precedence = _links_gradient(old, new, d, d_ahead, d_back)

    d_w += torch.addcmul(x.values, old.memory, x.erase, value=-1).mul_(d_memory).sum(2)
    rows = w[:, :, None] * d_memory
    d_values = rows.sum(1)
    d_erase = (rows * old.memory).sum(1).neg_()
    d_memory.addcmul_(rows, x.erase, value=-1)

    content = saved.write_content.weights[:, 0]
    apart = saved.allocation - content
    d_gw = torch.addcmul(content, ga, apart).mul_(d_w).sum(1, keepdim=True)
    d_mixed = d_w.mul_(gw)
    d_ga = (d_mixed * apart).sum(1, keepdim=True)
    d_allocation = d_mixed * ga
    d_write_keys, d_write_strengths, more = _content_gradient(
        old.memory, x.write_keys, x.write_strengths, saved.write_content,
        d_mixed.sub_(d_allocation)[:, None],
    )  # fmt: skip
    d_memory += more
    d_usage = _allocation_gradient(saved.free_list, d_allocation).add_(d.usage)
    d_usage, d_w, d_free, more = _usage_gradient(old, saved, d_usage)

    strengths = torch.cat([x.read_strengths, x.write_strengths], 1)
    gates = torch.cat([x.erase[:, 0], x.free_gates, ga, gw], 1)
    inner = (x.modes * d_modes).sum(2, keepdim=True)
    d_interface = [
        d_read_keys.flatten(1),
        d_write_keys[:, 0],
        d_values,
        torch.cat([d_read_strengths, d_write_strengths], 1).mul_(
            1 - torch.exp(1 - strengths)
        ),
        torch.cat([d_erase, d_free, d_ga, d_gw], 1).mul_(gates).mul_(1 - gates),
        (d_modes - inner).mul_(x.modes).flatten(1),
    ]
    return torch.cat(d_interface, 1), MemoryState(
        d_memory, d_usage, d_w, d_reads.add_(more), d_precedence, d_links
    )


def _links_gradient(
    old: MemoryState, new: MemoryState, d: MemoryState, d_ahead: Tensor, d_back: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes the gradients with respect to w and the previous wʳ, L and p.

    For w, the part through M is missing. For wʳ, this is only the part through f and b.
    """
    w, links = new.write_weights[:, 0], new.links[:, 0]
    p0, l0, r0 = old.precedence[:, 0], old.links[:, 0], old.read_weights
    d_p = d.precedence[:, 0]
    d_reads = torch.bmm(d_ahead, links).baddbmm_(d_back, links.transpose(1, 2))
    left, right = torch.cat([d_ahead, r0], 1), torch.cat([r0, d_back], 1)
    d_links = torch.bmm(left.transpose(1, 2), right).add_(d.links[:, 0])
    d_links.diagonal(dim1=1, dim2=2).zero_()
    d_w = d.write_weights[:, 0] + d_p
    d_w -= (d_p * p0).sum(1, keepdim=True)
    rest = 1 - w.sum(1, keepdim=True)
    d_precedence = torch.bmm(w[:, None], d_links)[:, 0].addcmul_(d_p, rest)
    d_w += torch.bmm(d_links, p0[:, :, None])[:, :, 0]
    product = d_links * l0
    d_w -= product.sum(2)
    d_w -= product.sum(1)
    d_links *= torch.sub((1 - w)[:, :, None], w[:, None])
    return d_w, d_reads, d_links[:, None], d_precedence[:, None]


def _allocation_gradient(free_list: Any, d_allocation: Tensor) -> Tensor:
    """Computes the gradient with respect to the usage; the slot order is constant."""
    direct = d_allocation.gather(1, free_list.order).mul_(free_list.before)
    reached = torch.addcmul(direct, direct, free_list.used, value=-1)
    # Σ_{i>j}, summed from the end; subtracting from the total would lose precision.
    behind = F.pad(reached[:, 1:].flip(1).cumsum(1).flip(1), (0, 1))
    d_used = behind.div_(free_list.used).sub_(direct).mul_(1 - EPSILON)
    return torch.empty_like(d_used).scatter_(1, free_list.order, d_used)


def _usage_gradient(
    old: MemoryState, saved: Residuals, d_usage: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes the gradients with respect to u, w, f and wʳ.

    u, w and wʳ are those of the previous step. For wʳ, this is only the part through ψ.
    """
    w0, free = old.write_weights[:, 0], saved.interface.free_gates[:, :, None]
    room = 1 - old.usage
    factors = torch.mul(free, old.read_weights).neg_().add_(1).unbind(1)
    others, behind = [d_usage * torch.addcmul(old.usage, room, w0)], None
    for factor in factors[:-1]:
        others.append(others[-1] * factor)
    for r in range(
        len(factors) - 1, -1, -1
    ):  # ∏ over the other heads, valid even if a factor is 0
        others[r] = others[r] if behind is None else others[r] * behind
        behind = factors[r] if behind is None else factors[r] * behind
    d_kept = torch.stack(others, 1)
    d_filled = d_usage.mul_(saved.retention)
    return (
        d_filled * (1 - w0),
        (d_filled * room)[:, None],
        (d_kept * old.read_weights).sum(2).neg_(),
        d_kept.mul_(free).neg_(),
    )


def _content(memory: Tensor, keys: Tensor, strengths: Tensor) -> Content:
    key_scale = keys.square().sum(2, keepdim=True).add_(EPSILON).rsqrt_()
    slot_scale = memory.square().sum(2).add_(EPSILON).rsqrt_()[:, None]
    cosine = torch.bmm(keys * key_scale, memory.transpose(1, 2)).mul_(slot_scale)
    weights = (cosine * strengths[:, :, None]).softmax(2)
    return Content(weights, cosine, key_scale, slot_scale)


def _content_gradient(
    memory: Tensor, keys: Tensor, strengths: Tensor, saved: Content, d_weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients with respect to keys, strengths and memory."""
    d_scores = d_weights * saved.weights
    d_scores.addcmul_(saved.weights, d_scores.sum(2, keepdim=True), value=-1)
    d_cosine = d_scores * strengths[:, :, None]
    d_strengths = d_scores.mul_(saved.cosine).sum(2)
    along = d_cosine * saved.cosine
    d_cosine.mul_(saved.slot_scale).mul_(saved.key_scale)
    of_keys = along.sum(2, keepdim=True).mul_(saved.key_scale).mul_(saved.key_scale)
    of_slots = along.sum(1, keepdim=True).mul_(saved.slot_scale).mul_(saved.slot_scale)
    d_keys = torch.bmm(d_cosine, memory).addcmul_(keys, of_keys, value=-1)
    d_memory = torch.bmm(d_cosine.transpose(1, 2), keys)
    d_memory.addcmul_(memory, of_slots.transpose(1, 2), value=-1)
    return d_keys, d_strengths, d_memory
