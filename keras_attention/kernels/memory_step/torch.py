"""One step of a DNC's memory on torch; see `access.py`.

The same equations with torch's own operations, in place where they may be: on a memory
of usual size a call takes as long as what it computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import torch
import torch.nn.functional as F

from keras_attention.kernels.memory_step import reference as plain
from keras_attention.kernels.memory_step.content import EPSILON, Content
from keras_attention.kernels.tracing.torch import is_traced

Tensor = Any


def access_memory(
    interface: Tensor,
    old: plain.Memory,
    there: Tensor | None = None,
    form: plain.Form = plain.PLAIN,
) -> tuple[Tensor, plain.Memory] | None:
    """The words that are read and the memory after; None where it does not apply.

    That is for masks of keys and deallocation, for symbols, while an export traces,
    under `torch.func` and forward-mode derivatives, and under `torch.autocast`, where a
    function of one's own would be left out or see other dtypes.
    """
    given = (interface, *old)
    if form != plain.PLAIN:
        return None
    if any(isinstance(x, keras.KerasTensor) for x in given) or not own_gradients():
        return None
    if is_traced(interface) or torch.is_autocast_enabled(interface.device.type):
        return None
    if len({x.dtype for x in given}) > 1:
        return None
    read, *new = _Access.apply(there, *given)
    return read, plain.Memory(*new)


def own_gradients() -> bool:
    """Whether a function with a gradient of its own may be used here."""
    transformed = torch._C._are_functorch_transforms_active()
    return not transformed and torch.autograd.forward_ad._current_level < 0


def gradients_again(
    outputs: Sequence[Tensor], given: Sequence[Tensor], slopes: Sequence[Tensor]
) -> list[Tensor | None]:
    """Gradients that can be differentiated; None for what is a constant."""
    pairs = [(y, d) for y, d in zip(outputs, slopes) if y.requires_grad]
    asked = [x for x in given if x.requires_grad]
    found = torch.autograd.grad(
        [y for y, _ in pairs],
        asked,
        [d for _, d in pairs],
        create_graph=True,
        allow_unused=True,
    )
    left = iter(found)
    return [next(left) if x.requires_grad else None for x in given]


class _Access(torch.autograd.Function):
    """ξ and the memory to the words that are read and the memory after."""

    @staticmethod
    def forward(
        ctx: Any, there: Tensor | None, interface: Tensor, *old: Tensor
    ) -> tuple[Tensor, ...]:
        before = plain.Memory(*old)
        read, new, held = _forward(interface, before, there)
        ctx.save_for_backward(there, interface, *before, *new, *_flat(held))
        return read, *new

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        there, interface, *saved = ctx.saved_tensors
        old, new = plain.Memory(*saved[:6]), plain.Memory(*saved[6:12])
        # Gradients are recorded here only if they are to be differentiated again.
        if torch.is_grad_enabled():
            read, again, _ = plain.forward(interface, old, there)
            return None, *gradients_again((read, *again), (interface, *old), slopes)
        d = plain.Memory(*slopes[1:])
        slope, earlier = _backward(old, new, _packed(saved[12:]), slopes[0], d)
        return None, slope, *earlier


def _flat(held: plain.Held) -> list[Tensor | None]:
    flat: list[Tensor | None] = []
    for part in held:
        flat.extend(part if isinstance(part, tuple) else [part])
    return flat


def _packed(flat: list[Tensor | None]) -> plain.Held:
    kinds: dict[str, Any] = {"interface": plain.Interface, "free": plain.Ordered}
    kinds |= {"written": Content, "found": Content}
    parts: list[Any] = []
    rest = list(flat)
    for name in plain.Held._fields:
        kind = kinds.get(name)
        count = len(kind._fields) if kind else 1
        taken, rest = rest[:count], rest[count:]
        parts.append(kind(*taken) if kind else taken[0])
    return plain.Held(*parts)


def _taken_apart(
    interface: Tensor, width: int, heads: int, there: Tensor | None
) -> plain.Interface:
    sizes = plain.parts(width, heads)
    kr, kw, values, strengths, gates, modes = interface.split(sizes, 1)
    gates = gates.sigmoid() if there is None else gates.sigmoid().mul_(there)
    return plain.Interface(
        kr.unflatten(1, (heads, width)),
        kw.unsqueeze(1),
        values,
        F.softplus(strengths).add_(1).unsqueeze_(2),
        gates,
        None,
        modes.unflatten(1, (heads, 3)).softmax(2),
    )


def _forward(
    interface: Tensor, old: plain.Memory, there: Tensor | None
) -> tuple[Tensor, plain.Memory, plain.Held]:
    heads, width = old.read_weights.shape[1], old.memory.shape[-1]
    x = _taken_apart(interface, width, heads, there)
    erase, free, ga, gw = plain.gates_of(x.gates, heads)
    w0, p0, l0 = old.write_weights[:, 0], old.precedence[:, 0], old.links[:, 0]

    kept = torch.mul(free[:, :, None], old.read_weights).neg_().add_(1)
    psi = kept.prod(1)
    usage = torch.addcmul(old.usage, 1 - old.usage, w0).mul_(psi)
    used, order = usage.mul(1 - EPSILON).add_(EPSILON).sort(dim=1, stable=True)
    before = torch.ones_like(used)
    before[:, 1:] = used[:, :-1].cumprod(1)
    ordered = torch.addcmul(before, before, used, value=-1)
    allocation = torch.empty_like(ordered).scatter_(1, order, ordered)

    written = _content(old.memory, x.write_key, x.strengths[:, heads:])
    mixed = torch.lerp(written.weights[:, 0], allocation, ga)
    w = gw * mixed
    rows = w[:, :, None]
    change = torch.addcmul(x.values[:, None], old.memory, erase[:, None], value=-1)
    memory = torch.addcmul(old.memory, rows, change)

    links = torch.sub(1 - rows, w[:, None]).mul_(l0).addcmul_(rows, p0[:, None])
    links.diagonal(dim1=1, dim2=2).zero_()
    precedence = torch.addcmul(w, p0, 1 - w.sum(1, keepdim=True))
    ahead = torch.bmm(old.read_weights, links.transpose(1, 2))
    back = torch.bmm(old.read_weights, links)
    found = _content(memory, x.read_keys, x.strengths[:, :heads])
    pi = x.modes
    weights = pi[:, :, :1] * back
    weights.addcmul_(pi[:, :, 1:2], found.weights).addcmul_(pi[:, :, 2:], ahead)
    new = plain.Memory(
        memory, usage, links[:, None], precedence[:, None], w[:, None], weights
    )
    free_slots = plain.Ordered(order, order, used, before)
    held = plain.Held(
        x, kept, psi, free_slots, allocation, written, mixed, old.memory, change,
        ahead, back, found,
    )  # fmt: skip
    return torch.bmm(weights, memory), new, held


def _backward(
    old: plain.Memory,
    new: plain.Memory,
    held: plain.Held,
    d_read: Tensor,
    d: plain.Memory,
) -> tuple[Tensor, plain.Memory]:
    x = held.interface
    heads = old.read_weights.shape[1]
    erase, _, ga, gw = plain.gates_of(x.gates, heads)
    w = new.write_weights[:, 0]
    d_weights = torch.baddbmm(d.read_weights, d_read, new.memory.transpose(1, 2))
    d_memory = torch.bmm(new.read_weights.transpose(1, 2), d_read).add_(d.memory)
    seen = (held.backward, held.found.weights, held.forward)
    d_modes = torch.stack([(d_weights * one).sum(2) for one in seen], 2)
    d_back, d_content, d_ahead = (
        x.modes[:, :, n : n + 1] * d_weights for n in range(3)
    )
    d_keys, d_strengths, more = _content_gradient(
        new.memory, x.read_keys, x.strengths[:, :heads], held.found, d_content
    )
    d_memory += more
    d_w, d_reads, d_links, d_precedence = _links_gradient(old, new, d, d_ahead, d_back)

    d_w += (d_memory * held.change).sum(2)
    rows = w[:, :, None] * d_memory
    d_values = rows.sum(1)
    d_erase = (rows * old.memory).sum(1).neg_()
    d_memory.addcmul_(rows, erase[:, None], value=-1)

    content = held.written.weights[:, 0]
    d_gw = (d_w * held.mixed).sum(1, keepdim=True)
    d_mixed = d_w.mul_(gw)
    d_ga = (d_mixed * (held.allocation - content)).sum(1, keepdim=True)
    d_allocation = d_mixed * ga
    d_key, d_strength, more = _content_gradient(
        old.memory, x.write_key, x.strengths[:, heads:], held.written,
        d_mixed.sub_(d_allocation)[:, None],
    )  # fmt: skip
    d_memory += more
    d_usage = _allocation_gradient(held, d_allocation).add_(d.usage)
    d_usage, d_w, d_free, more = _usage_gradient(old, held, d_usage)
    before = plain.Memory(
        d_memory, d_usage, d_links, d_precedence, d_w, d_reads.add_(more)
    )
    d_strengths = torch.cat([d_strengths, d_strength], 1)
    d_strengths *= 1 - torch.exp(1 - x.strengths[:, :, 0])
    d_gates = torch.cat([d_erase, d_free, d_ga, d_gw], 1)
    inner = (x.modes * d_modes).sum(2, keepdim=True)
    flat = [
        d_keys.flatten(1),
        d_key[:, 0],
        d_values,
        d_strengths,
        d_gates.mul_(x.gates).mul_(1 - x.gates),
        (d_modes - inner).mul_(x.modes).flatten(1),
    ]
    return torch.cat(flat, 1), before


def _links_gradient(
    old: plain.Memory,
    new: plain.Memory,
    d: plain.Memory,
    d_ahead: Tensor,
    d_back: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of w, wʳ, L and p of the step before, but for what reaches w elsewhere."""
    w, links = new.write_weights[:, 0], new.links[:, 0]
    p0, l0, r0 = old.precedence[:, 0], old.links[:, 0], old.read_weights
    d_p = d.precedence[:, 0]
    d_reads = torch.bmm(d_ahead, links).baddbmm_(d_back, links.transpose(1, 2))
    left, right = torch.cat([d_ahead, r0], 1), torch.cat([r0, d_back], 1)
    d_links = torch.bmm(left.transpose(1, 2), right).add_(d.links[:, 0])
    d_links.diagonal(dim1=1, dim2=2).zero_()
    d_w = d.write_weights[:, 0] + d_p
    d_w -= (d_p * p0).sum(1, keepdim=True)
    total = 1 - w.sum(1, keepdim=True)
    d_precedence = torch.bmm(w[:, None], d_links)[:, 0].addcmul_(d_p, total)
    d_w += torch.bmm(d_links, p0[:, :, None])[:, :, 0]
    product = d_links * l0
    d_w -= product.sum(2)
    d_w -= product.sum(1)
    d_links *= torch.sub((1 - w)[:, :, None], w[:, None])
    return d_w, d_reads, d_links[:, None], d_precedence[:, None]


def _allocation_gradient(held: plain.Held, d_allocation: Tensor) -> Tensor:
    """Of the usage, its order held fixed."""
    free = held.free
    assert isinstance(free, plain.Ordered)
    direct = d_allocation.gather(1, free.order).mul_(free.before)
    reached = torch.addcmul(direct, direct, free.used, value=-1)
    # Σ_{i>j}, summed from its end: beside all that comes before it would be lost.
    behind = F.pad(reached[:, 1:].flip(1).cumsum(1).flip(1), (0, 1))
    d_used = behind.div_(free.used).sub_(direct).mul_(1 - EPSILON)
    return torch.empty_like(d_used).scatter_(1, free.order, d_used)


def _usage_gradient(
    old: plain.Memory, held: plain.Held, d_usage: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of u and w of the step before, of f, and of wʳ where it was freed."""
    w0 = old.write_weights[:, 0]
    room = 1 - old.usage
    each = held.kept.unbind(1)
    others, behind = [d_usage * torch.addcmul(old.usage, room, w0)], None
    for one in each[:-1]:
        others.append(others[-1] * one)
    for r in range(len(each) - 1, -1, -1):  # ∏ of the other heads, also where one is 0
        others[r] = others[r] if behind is None else others[r] * behind
        behind = each[r] if behind is None else each[r] * behind
    d_kept = torch.stack(others, 1)
    free = plain.gates_of(held.interface.gates, len(each))[1][:, :, None]
    d_filled = d_usage.mul_(held.retention)
    return (
        d_filled * (1 - w0),
        (d_filled * room)[:, None],
        (d_kept * old.read_weights).sum(2).neg_(),
        d_kept.mul_(free).neg_(),
    )


def _content(memory: Tensor, keys: Tensor, strengths: Tensor) -> Content:
    wide = keys.square().sum(2, keepdim=True).add_(EPSILON).rsqrt_()
    long = memory.square().sum(2).add_(EPSILON).rsqrt_()[:, None]
    cosine = torch.bmm(keys * wide, memory.transpose(1, 2)).mul_(long)
    return Content((cosine * strengths).softmax(2), cosine, wide, long)


def _content_gradient(
    memory: Tensor,
    keys: Tensor,
    strengths: Tensor,
    seen: Content,
    d_weights: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the keys (B, R, W), the strengths (B, R) and the memory (B, M, W)."""
    d_scores = d_weights * seen.weights
    d_scores.addcmul_(seen.weights, d_scores.sum(2, keepdim=True), value=-1)
    d_cosine = d_scores * strengths
    d_strengths = d_scores.mul_(seen.cosine).sum(2)
    along = d_cosine * seen.cosine
    d_cosine.mul_(seen.long).mul_(seen.wide)
    of_keys = along.sum(2, keepdim=True).mul_(seen.wide).mul_(seen.wide)
    of_slots = along.sum(1, keepdim=True).mul_(seen.long).mul_(seen.long)
    d_keys = torch.bmm(d_cosine, memory).addcmul_(keys, of_keys, value=-1)
    d_memory = torch.bmm(d_cosine.transpose(1, 2), keys)
    d_memory.addcmul_(memory, of_slots.transpose(1, 2), value=-1)
    return d_keys, d_strengths, d_memory
