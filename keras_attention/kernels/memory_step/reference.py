"""One step of a DNC's memory, with its gradient written out.

What :mod:`keras_attention.ops.memory.addressing` and
:mod:`keras_attention.ops.memory.links` do one after the other, for one write head and
dense links, from the interface vector to the words that are read; keys may
have masks, and what is freed may be deallocated. A gradient taken of each equation by
itself holds what each of them needs, and passes over the links for each; this one holds
less and passes over them less often. Times are in docs/results/speed.md.

Names are the paper's: ξ interface, f free gates, gᵃ and gʷ gates, π modes, e erase, v
write vector, z masks; `d_x` is the loss' gradient with respect to x.

Shapes: B batch, M memory slots, W word width, R read heads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attention.kernels.memory_step.content import (
    EPSILON,
    Content,
    content,
    content_gradient,
)

Tensor = Any


class Memory(NamedTuple):
    """What one step hands to the next."""

    memory: Tensor  # M (B, M, W)
    usage: Tensor  # u (B, M)
    links: Tensor  # L (B, 1, M, M)
    precedence: Tensor  # p (B, 1, M)
    write_weights: Tensor  # w (B, 1, M)
    read_weights: Tensor  # wʳ (B, R, M)


class Form(NamedTuple):
    """What a step is besides its tensors.

    Attributes:
        least_mask: the least that a mask of a key can be; None without such masks.
        deallocates: whether what was freed is erased before there is written.
        compared: whether slots are compared, each with each, instead of sorted.
    """

    least_mask: float | None = None
    deallocates: bool = False
    compared: bool = False


PLAIN = Form()  # the paper's


class Interface(NamedTuple):
    """ξ taken apart in its order, each part in its range."""

    read_keys: Tensor  # kʳ (B, R, W)
    write_key: Tensor  # kʷ (B, 1, W)
    values: Tensor  # v (B, W)
    strengths: Tensor  # βʳ, βʷ (B, R + 1, 1)
    gates: Tensor  # e, f, gᵃ, gʷ (B, W + R + 2)
    masks: Tensor | None  # zʳ, zʷ (B, R + 1, W)
    modes: Tensor  # π (B, R, 3)


class Ordered(NamedTuple):
    """The slots by rising usage, each (B, M)."""

    order: Tensor  # φ
    places: Tensor  # of each slot in φ
    used: Tensor  # u[φⱼ]
    before: Tensor  # ∏_{i<j} u[φᵢ]


class Compared(NamedTuple):
    """The same without sorting: each slot with each other one."""

    earlier: Tensor  # 1 where slot j comes before slot i, (B, M, M)
    used: Tensor  # u (B, M)
    before: Tensor  # ∏ of those that come before, (B, M)


class Held(NamedTuple):
    """What the gradient needs besides the arguments and the results."""

    interface: Interface
    kept: Tensor  # 1 − f wʳ (B, R, M)
    retention: Tensor  # ψ (B, M)
    free: Ordered | Compared
    allocation: Tensor  # a (B, M)
    written: Content
    mixed: Tensor  # gᵃ a + (1 − gᵃ) cʷ
    left: Tensor  # M, or M ∘ ψ 1ᵀ (B, M, W): what there is before it is written to
    change: Tensor  # v − e ∘ left (B, M, W)
    forward: Tensor  # f (B, R, M)
    backward: Tensor  # b (B, R, M)
    found: Content


def parts(width: int, heads: int, masked: bool = False) -> list[int]:
    """The widths of ξ's parts.

    Args:
        width: W.
        heads: R.
        masked: whether keys have masks.
    """
    words, gates = [heads * width, width, width], [width + heads + 2]
    masks = [(heads + 1) * width] if masked else []
    return [*words, heads + 1, *gates, *masks, 3 * heads]


def gates_of(gates: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """e (B, W), f (B, R), gᵃ (B, 1) and gʷ (B, 1)."""
    erase = gates.shape[1] - heads - 2
    return (
        gates[:, :erase],
        gates[:, erase : erase + heads],
        gates[:, -2:-1],
        gates[:, -1:],
    )


def taken_apart(
    interface: Tensor,
    width: int,
    heads: int,
    there: Tensor | None,
    least_mask: float | None = None,
) -> Interface:
    """ξ (B, ·) as an `Interface`; where `there` (B, 1) is 0, its gates are closed."""
    ends = np.cumsum(parts(width, heads, least_mask is not None))[:-1].tolist()
    kr, kw, values, strengths, gates, *masks, modes = ops.split(interface, ends, axis=1)
    gates = ops.sigmoid(gates)
    z = None
    if least_mask is not None:
        z = ops.reshape(ops.sigmoid(masks[0]), (-1, heads + 1, width))
        z = least_mask + (1 - least_mask) * z
    return Interface(
        ops.reshape(kr, (-1, heads, width)),
        kw[:, None],
        values,
        (1 + ops.softplus(strengths))[:, :, None],
        gates if there is None else gates * there,
        z,
        ops.softmax(ops.reshape(modes, (-1, heads, 3)), axis=-1),
    )


def forward(
    interface: Tensor,
    old: Memory,
    there: Tensor | None = None,
    form: Form = PLAIN,
) -> tuple[Tensor, Memory, Held]:
    """The words that are read (B, R, W), the memory after, and what is held.

    Args:
        interface: ξ (B, ·), before its parts are brought into their ranges.
        old: the memory of the step before.
        there: (B, 1), 0 where nothing is to be freed or written; None for 1.
        form: of the step.
    """
    heads, width = old.read_weights.shape[1], old.memory.shape[-1]
    x = taken_apart(interface, width, heads, there, form.least_mask)
    erase, free, ga, gw = gates_of(x.gates, heads)
    w0, p0, l0 = old.write_weights[:, 0], old.precedence[:, 0], old.links[:, 0]

    kept = 1 - free[:, :, None] * old.read_weights
    psi = ops.prod(kept, axis=1)
    usage = (old.usage + (1 - old.usage) * w0) * psi  # u
    free_list = _compared if form.compared else _ordered
    allocation, free_slots = free_list(EPSILON + (1 - EPSILON) * usage)  # a

    masks_r, masks_w = _masks(x, heads)
    written = content(old.memory, x.write_key, x.strengths[:, heads:], masks_w)
    alike = written.weights[:, 0]
    mixed = alike + ga * (allocation - alike)
    w = gw * mixed
    rows = w[:, :, None]
    left = old.memory * psi[:, :, None] if form.deallocates else old.memory
    change = x.values[:, None] - erase[:, None] * left
    memory = left + rows * change  # M

    links = _off_diagonal(_keep(w) * l0 + rows * p0[:, None])  # L
    precedence = (1 - ops.sum(w, axis=1, keepdims=True)) * p0 + w
    ahead = ops.matmul(old.read_weights, _flip(links))  # f
    back = ops.matmul(old.read_weights, links)  # b
    found = content(memory, x.read_keys, x.strengths[:, :heads], masks_r)
    pi = x.modes
    read_weights = pi[..., :1] * back + pi[..., 1:2] * found.weights
    read_weights = read_weights + pi[..., 2:] * ahead
    new = Memory(
        memory, usage, links[:, None], precedence[:, None], w[:, None], read_weights
    )
    held = Held(
        x, kept, psi, free_slots, allocation, written, mixed, left, change,
        ahead, back, found,
    )  # fmt: skip
    return ops.matmul(read_weights, memory), new, held


def backward(
    old: Memory,
    new: Memory,
    held: Held,
    d_read: Tensor,
    d: Memory,
    form: Form = PLAIN,
) -> tuple[Tensor, Memory]:
    """The gradient with respect to ξ and the memory before.

    Args:
        old: as `forward` was given.
        new: as it returned.
        held: likewise.
        d_read: of the words that were read, (B, R, W).
        d: of the memory after.
        form: as `forward` was given.
    """
    x = held.interface
    heads = old.read_weights.shape[1]
    erase, _, ga, gw = gates_of(x.gates, heads)
    w = new.write_weights[:, 0]
    d_weights = d.read_weights + ops.matmul(d_read, _flip(new.memory))
    d_memory = d.memory + ops.matmul(_flip(new.read_weights), d_read)
    d_back, d_content, d_ahead = (x.modes[..., n, None] * d_weights for n in range(3))
    seen = (held.backward, held.found.weights, held.forward)
    d_modes = ops.stack([ops.sum(d_weights * one, axis=-1) for one in seen], axis=-1)
    masks_r, masks_w = _masks(x, heads)
    d_keys, d_strengths, more, d_masks = content_gradient(
        new.memory, x.read_keys, x.strengths[:, :heads], masks_r, held.found, d_content
    )
    d_memory = d_memory + more

    d_w, d_reads, d_links, d_precedence = _links_gradient(old, new, d, d_ahead, d_back)
    rows = w[:, :, None] * d_memory
    d_w = d_w + ops.sum(d_memory * held.change, axis=-1)
    d_values = ops.sum(rows, axis=1)
    d_erase = -ops.sum(rows * held.left, axis=1)
    d_memory = d_memory - rows * erase[:, None]
    d_retention = None
    if form.deallocates:
        d_retention = ops.sum(d_memory * old.memory, axis=-1)
        d_memory = d_memory * held.retention[:, :, None]

    d_gw = ops.sum(d_w * held.mixed, axis=1, keepdims=True)
    d_mixed = d_w * gw
    apart = held.allocation - held.written.weights[:, 0]
    d_ga = ops.sum(d_mixed * apart, axis=1, keepdims=True)
    d_allocation = d_mixed * ga
    d_content = (d_mixed - d_allocation)[:, None]
    d_key, d_strength, more, d_mask = content_gradient(
        old.memory,
        x.write_key,
        x.strengths[:, heads:],
        masks_w,
        held.written,
        d_content,
    )
    d_memory = d_memory + more
    d_usage = d.usage + _allocation_gradient(held, d_allocation)
    d_usage, d_w, d_free, more = _usage_gradient(old, held, d_usage, d_retention)
    before = Memory(d_memory, d_usage, d_links, d_precedence, d_w, d_reads + more)

    d_strengths = ops.concatenate([d_strengths, d_strength], axis=1)
    d_gates = ops.concatenate([d_erase, d_free, d_ga, d_gw], axis=1)
    inner = ops.sum(x.modes * d_modes, axis=-1, keepdims=True)
    flat = [
        ops.reshape(d_keys, (-1, heads * old.memory.shape[-1])),
        d_key[:, 0],
        d_values,
        d_strengths * (1 - ops.exp(1 - x.strengths[:, :, 0])),
        d_gates * x.gates * (1 - x.gates),
        *_mask_gradient(x.masks, d_masks, d_mask, form.least_mask),
        ops.reshape(x.modes * (d_modes - inner), (-1, 3 * heads)),
    ]
    return ops.concatenate(flat, axis=1), before


def _links_gradient(
    old: Memory, new: Memory, d: Memory, d_ahead: Tensor, d_back: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of w, wʳ, L and p of the step before, but for what reaches w elsewhere."""
    w, links = new.write_weights[:, 0], new.links[:, 0]
    p0, l0, r0 = old.precedence[:, 0], old.links[:, 0], old.read_weights
    d_precedence = d.precedence[:, 0]
    d_read_weights = ops.matmul(d_ahead, links) + ops.matmul(d_back, _flip(links))
    left, right = (
        ops.concatenate(two, axis=1) for two in ((d_ahead, r0), (r0, d_back))
    )
    d_links = _off_diagonal(d.links[:, 0] + ops.matmul(_flip(left), right))
    d_w = d.write_weights[:, 0] + d_precedence
    d_w = d_w - ops.sum(d_precedence * p0, axis=1, keepdims=True)
    total = 1 - ops.sum(w, axis=1, keepdims=True)
    earlier = ops.matmul(w[:, None], d_links)[:, 0] + d_precedence * total
    product = d_links * l0
    d_w = d_w + ops.matmul(d_links, p0[:, :, None])[:, :, 0]
    d_w = d_w - ops.sum(product, axis=2) - ops.sum(product, axis=1)
    return d_w, d_read_weights, (_keep(w) * d_links)[:, None], earlier[:, None]


def _ordered(usage: Tensor) -> tuple[Tensor, Ordered]:
    """a, and the list of free slots by sorting."""
    order = ops.argsort(usage, axis=-1)  # φ
    places = ops.argsort(order, axis=-1)
    used = ops.take_along_axis(usage, order, axis=-1)
    logs = ops.pad(ops.log(used)[:, :-1], ((0, 0), (1, 0)))
    before = ops.exp(ops.cumsum(logs, axis=-1))
    allocation = ops.take_along_axis((1 - used) * before, places, axis=-1)
    return allocation, Ordered(order, places, used, before)


def _compared(usage: Tensor) -> tuple[Tensor, Compared]:
    """a, and which slot comes before which."""
    slots = usage.shape[-1]
    one, other = usage[:, :, None], usage[:, None]
    lower = np.tril(np.ones((slots, slots), bool), -1)
    earlier = ops.logical_or(other < one, ops.logical_and(other == one, lower))
    earlier = ops.cast(earlier, usage.dtype)
    before = ops.exp(ops.matmul(earlier, ops.log(usage)[:, :, None])[:, :, 0])
    return (1 - usage) * before, Compared(earlier, usage, before)


def _allocation_gradient(held: Held, d_allocation: Tensor) -> Tensor:
    """Of the usage, its order held fixed."""
    free = held.free
    if isinstance(free, Compared):
        direct = d_allocation * free.before
        reached = direct - direct * free.used
        behind = ops.matmul(reached[:, None], free.earlier)[:, 0]
        return (1 - EPSILON) * (behind / free.used - direct)
    direct = ops.take_along_axis(d_allocation, free.order, axis=-1) * free.before
    reached = direct - direct * free.used
    # Σ_{i>j}, summed from its end: beside all that comes before it would be lost.
    behind = ops.flip(ops.cumsum(ops.flip(reached[:, 1:], axis=1), axis=1), axis=1)
    behind = ops.pad(behind, ((0, 0), (0, 1)))
    d_used = behind / free.used - direct
    return (1 - EPSILON) * ops.take_along_axis(d_used, free.places, axis=-1)


def _usage_gradient(
    old: Memory, held: Held, d_usage: Tensor, more: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of u and w of the step before, of f, and of wʳ where it was freed.

    `more` is what reaches ψ elsewhere.
    """
    w0 = old.write_weights[:, 0]
    d_retention = d_usage * (old.usage + (1 - old.usage) * w0)
    if more is not None:
        d_retention = d_retention + more
    d_filled = d_usage * held.retention
    heads = held.kept.shape[1]
    each = [held.kept[:, r] for r in range(heads)]
    others, behind = [d_retention], None
    for one in each[:-1]:
        others.append(others[-1] * one)
    for r in range(heads - 1, -1, -1):  # ∏ of the other heads, also where one is 0
        others[r] = others[r] if behind is None else others[r] * behind
        behind = each[r] if behind is None else each[r] * behind
    d_kept = ops.stack(others, axis=1)
    free = gates_of(held.interface.gates, heads)[1][:, :, None]
    return (
        d_filled * (1 - w0),
        (d_filled * (1 - old.usage))[:, None],
        -ops.sum(d_kept * old.read_weights, axis=-1),
        -d_kept * free,
    )


def _masks(x: Interface, heads: int) -> tuple[Tensor | None, Tensor | None]:
    """zʳ (B, R, W) and zʷ (B, 1, W)."""
    if x.masks is None:
        return None, None
    return x.masks[:, :heads], x.masks[:, heads:]


def _mask_gradient(
    masks: Tensor | None, d_r: Any, d_w: Any, least: float | None
) -> list[Tensor]:
    """Of what the masks were before they were brought into their range."""
    if masks is None or least is None:
        return []
    d_masks = ops.concatenate([d_r, d_w], axis=1)
    slope = d_masks * (masks - least) * (1 - masks) / (1 - least)
    return [ops.reshape(slope, (-1, masks.shape[1] * masks.shape[2]))]


def _keep(w: Tensor) -> Tensor:
    """1 − w[i] − w[j], (B, M, M)."""
    return (1 - w)[:, :, None] - w[:, None]


def _off_diagonal(links: Tensor) -> Tensor:
    return links * ops.cast(1 - np.eye(links.shape[-1]), links.dtype)


def _flip(x: Tensor) -> Tensor:
    return ops.swapaxes(x, -1, -2)
