"""The explicit gradient of a step with one write head and dense links.

Automatic differentiation stores the residuals of every equation and traverses the links
for each. This gradient stores less and traverses the links less often. Times are in
docs/results/speed.md. Key masks and deallocation are supported.

`d_x` is the gradient of the loss with respect to x. Symbols are as in `reference.py`.

Shapes: B batch, M memory slots, W word width, R read heads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from keras_attention.kernels.memory_step.reference import (
    EPSILON,
    MIN_MASK,
    ComparedSlots,
    Content,
    Interface,
    MemoryOptions,
    MemoryState,
    Residuals,
    SortedSlots,
    comes_before,
)

Tensor = Any


def step_gradient(
    old: MemoryState,
    new: MemoryState,
    saved: Residuals,
    d_read: Tensor,
    d: MemoryState,
    options: MemoryOptions,
) -> tuple[Tensor, MemoryState]:
    """Computes the gradients with respect to ξ and the previous memory.

    `d_read` (B, R, W) and `d` are the gradients of the words read and the new memory.
    """
    x = saved.interface
    w, gw, ga = new.write_weights[:, 0], x.write_gate, x.allocation_gate

    # r = Mᵀ wʳ, wʳ = π₁ b + π₂ c + π₃ f
    d_weights = d.read_weights + ops.matmul(d_read, _transpose(new.memory))
    d_back, d_content, d_ahead = (x.modes[..., n, None] * d_weights for n in range(3))
    # f = L wʳ, b = Lᵀ wʳ, with the previous wʳ. f and b are not needed again:
    # d_wʳ · f = (d_wʳᵀ L) · wʳ.
    links = new.links[:, 0]
    ahead = ops.matmul(d_weights, links)
    back = ops.matmul(d_weights, _transpose(links))
    d_reads = x.modes[..., 2, None] * ahead + x.modes[..., 0, None] * back
    d_modes = ops.stack(
        [
            ops.sum(back * old.read_weights, axis=-1),
            ops.sum(d_weights * saved.read_content.weights, axis=-1),
            ops.sum(ahead * old.read_weights, axis=-1),
        ],
        axis=-1,
    )
    d_read_keys, d_read_strengths, d_searched, d_read_masks = content_gradient(
        new.memory, x.read_keys, x.read_strengths, x.read_masks, saved.read_content,
        d_content, (new.read_weights, d_read),
    )  # fmt: skip
    d_memory = d.memory + d_searched

    # f, b, L, p
    d_w, d_links, d_precedence = links_gradient(old, w, d, d_ahead, d_back)

    # M = retained ∘ (1 − w eᵀ) + w vᵀ
    retained = old.memory
    if options.deallocation:
        retained = retained * saved.retention[:, :, None]
    d_w = d_w + ops.sum(d_memory * (x.values - x.erase * retained), axis=-1)
    rows = w[:, :, None] * d_memory
    d_values = ops.sum(rows, axis=1)
    d_erase = -ops.sum(rows * retained, axis=1)
    d_memory = d_memory - rows * x.erase
    d_retention = None
    if options.deallocation:
        d_retention = ops.sum(d_memory * old.memory, axis=-1)
        d_memory = d_memory * saved.retention[:, :, None]

    # w = gʷ (c + gᵃ (a − c))
    content = saved.write_content.weights[:, 0]
    apart = saved.allocation[:, 0] - content
    d_gw = ops.sum(d_w * (content + ga * apart), axis=1, keepdims=True)
    d_mixed = d_w * gw
    d_ga = ops.sum(d_mixed * apart, axis=1, keepdims=True)
    d_allocation = d_mixed * ga
    d_write_keys, d_write_strengths, d_searched, d_write_masks = content_gradient(
        old.memory, x.write_keys, x.write_strengths, x.write_masks,
        saved.write_content, (d_mixed - d_allocation)[:, None],
    )  # fmt: skip
    d_memory = d_memory + d_searched

    # a, u, ψ
    d_usage = d.usage + allocation_gradient(saved.free_list, d_allocation)
    d_usage, d_w, d_free, d_retained = usage_gradient(old, saved, d_usage, d_retention)

    d_interface = interface_gradient(
        x,
        Interface(
            d_read_keys, d_write_keys, d_values, d_read_strengths, d_write_strengths,
            None, None, d_erase, d_free, d_ga, d_gw, d_read_masks, d_write_masks,
            d_modes,
        ),
    )  # fmt: skip
    return d_interface, MemoryState(
        d_memory, d_usage, d_w, d_reads + d_retained, d_precedence, d_links
    )


def content_gradient(
    memory: Tensor,
    keys: Tensor,
    strengths: Tensor,
    masks: Tensor | None,
    saved: Content,
    d_weights: Tensor,
    read: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Computes the gradients with respect to keys, strengths, memory and masks.

    Keys and masks are (B, R, W), strengths are (B, R), and the memory is (B, M, W).
    `read` holds the weights w (B, R, M) of reads r = Mᵀ w and d_r (B, R, W): the
    gradient with respect to the memory through these reads is included.
    """
    d_scores = d_weights * saved.weights
    d_scores = d_scores - saved.weights * ops.sum(d_scores, axis=-1, keepdims=True)
    d_strengths = ops.sum(d_scores * saved.cosine, axis=-1)
    d_cosine = d_scores * strengths[..., None]
    along = d_cosine * saved.cosine
    d_cosine = d_cosine * saved.slot_scale * saved.key_scale
    of_keys = ops.sum(along, axis=-1, keepdims=True) * ops.square(saved.key_scale)
    if masks is None:
        of_slots = ops.sum(along, axis=1, keepdims=True) * ops.square(saved.slot_scale)
        d_keys = ops.matmul(d_cosine, memory) - keys * of_keys
        d_memory = _outer((d_cosine, keys), read)
        return d_keys, d_strengths, d_memory - memory * _transpose(of_slots), None
    masked = keys * masks
    of_slots = along * ops.square(saved.slot_scale)  # −2 d_(norm²), (B, R, M)
    d_product = ops.matmul(d_cosine, memory)  # gradient of k ∘ z ∘ z
    d_masked = d_product * masks - masked * of_keys
    d_squares = ops.matmul(of_slots, ops.square(memory))
    d_memory = _outer((d_cosine, masked * masks), read)
    d_memory = d_memory - memory * ops.matmul(_transpose(of_slots), ops.square(masks))
    d_masks = d_product * masked + d_masked * keys - masks * d_squares
    return d_masked * masks, d_strengths, d_memory, d_masks


def links_gradient(
    old: MemoryState, w: Tensor, d: MemoryState, d_ahead: Tensor, d_back: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients with respect to w and the previous L and p.

    For w, the part through M is missing.
    """
    p0, l0, r0 = old.precedence[:, 0], old.links[:, 0], old.read_weights
    d_precedence = d.precedence[:, 0]
    d_links = d.links[:, 0] + _outer((d_ahead, r0), (r0, d_back))
    d_links = d_links * ops.cast(1 - np.eye(l0.shape[-1]), l0.dtype)
    d_w = d.write_weights[:, 0] + d_precedence
    d_w = d_w - ops.sum(d_precedence * p0, axis=1, keepdims=True)
    unwritten = 1 - ops.sum(w, axis=1, keepdims=True)
    earlier = ops.matmul(w[:, None], d_links)[:, 0] + d_precedence * unwritten
    # On JAX, sums over one axis of a large product are faster as products with ones.
    product, ones = d_links * l0, ops.ones_like(w)
    d_w = d_w + ops.matmul(d_links, p0[:, :, None])[:, :, 0]
    d_w = d_w - ops.matmul(product, ones[:, :, None])[:, :, 0]
    d_w = d_w - ops.matmul(ones[:, None], product)[:, 0]
    d_links = ((1 - w)[:, :, None] - w[:, None]) * d_links
    return d_w, d_links[:, None], earlier[:, None]


def allocation_gradient(
    free_list: SortedSlots | ComparedSlots | None, d_allocation: Tensor
) -> Tensor:
    """Computes the gradient with respect to the usage, (B, M).

    The order of the slots counts as constant.
    """
    if isinstance(free_list, ComparedSlots):
        direct = d_allocation * free_list.before
        reached = direct - direct * free_list.used
        used = free_list.used
        later = comes_before(used, used.shape[-1], transpose=True)
        behind = ops.sum(ops.where(later, ops.expand_dims(reached, 2), 0), axis=1)
        return (1 - EPSILON) * (behind / free_list.used - direct)
    assert free_list is not None
    direct = ops.take_along_axis(d_allocation, free_list.order, axis=-1)
    direct = direct * free_list.before
    reached = direct - direct * free_list.used
    # Σ_{i>j}, summed from the end; subtracting from the total would lose precision.
    behind = ops.flip(ops.cumsum(ops.flip(reached[:, 1:], axis=1), axis=1), axis=1)
    behind = ops.pad(behind, ((0, 0), (0, 1)))
    d_used = behind / free_list.used - direct
    return (1 - EPSILON) * ops.take_along_axis(d_used, free_list.rank, axis=-1)


def usage_gradient(
    old: MemoryState, saved: Residuals, d_usage: Tensor, d_retention: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes the gradients with respect to u, w, f and wʳ.

    u, w and wʳ are those of the previous step. For wʳ, this is only the part through ψ.
    `d_retention` is the part of the gradient with respect to ψ through deallocation.
    """
    w0, free = old.write_weights[:, 0], saved.interface.free_gates[:, :, None]
    through_usage = d_usage * (old.usage + (1 - old.usage) * w0)
    if d_retention is not None:
        through_usage = through_usage + d_retention
    d_filled = d_usage * saved.retention
    by_head = 1 - free * old.read_weights
    factors = [by_head[:, r] for r in range(by_head.shape[1])]
    others, behind = [through_usage], None
    for factor in factors[:-1]:
        others.append(others[-1] * factor)
    # ∏ over the other heads, valid even if a factor is 0.
    for r in reversed(range(len(factors))):
        others[r] = others[r] if behind is None else others[r] * behind
        behind = factors[r] if behind is None else factors[r] * behind
    d_by_head = ops.stack(others, axis=1)
    return (
        d_filled * (1 - w0),
        (d_filled * (1 - old.usage))[:, None],
        -ops.sum(d_by_head * old.read_weights, axis=-1),
        -d_by_head * free,
    )


def _outer(*pairs: tuple[Tensor, Tensor] | None) -> Tensor:
    """Returns Σ wᵀ v of pairs w (B, ·, M) and v (B, ·, W), as one product."""
    weights, values = zip(*(pair for pair in pairs if pair is not None))
    if len(weights) == 1:
        return ops.matmul(_transpose(weights[0]), values[0])
    weights = ops.concatenate([_transpose(w) for w in weights], axis=2)
    return ops.matmul(weights, ops.concatenate(values, axis=1))


def _transpose(x: Tensor) -> Tensor:
    return ops.swapaxes(x, -1, -2)


def interface_gradient(x: Interface, d: Interface) -> Tensor:
    """Computes the gradient with respect to ξ, (B, ·), of a step with links.

    Soft allocation and sharp links are not supported.
    """

    def flat(parts: Any) -> Tensor:
        rows = [p if len(p.shape) == 2 else _flat(p) for p in parts if p is not None]
        return ops.concatenate(rows, axis=1)

    strengths, gates = flat(x[3:5]), flat(x[7:11])
    parts = [
        flat(d[:3]),
        flat(d[3:5]) * (1 - ops.exp(1 - strengths)),  # of 1 + softplus
        flat(d[7:11]) * gates * (1 - gates),  # of a sigmoid
    ]
    if x.read_masks is not None:
        masks = flat(x[11:13])
        slope = (masks - MIN_MASK) * (1 - masks) / (1 - MIN_MASK)
        parts.append(flat(d[11:13]) * slope)
    inner = ops.sum(x.modes * d.modes, axis=-1, keepdims=True)
    parts.append(x.modes * (d.modes - inner))  # of a softmax
    return flat(parts)


def _flat(part: Tensor) -> Tensor:
    """Reshapes (B, R, W) to (B, R W)."""
    return ops.reshape(part, (-1, part.shape[1] * part.shape[2]))
