"""Content-based addressing with its gradient written out; see `access.py`.

Shapes: B batch, M memory slots, W word width, R heads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

Tensor = Any
EPSILON = 1e-6  # that of `addressing`, which asks the kernels itself


class Content(NamedTuple):
    """Content-based addressing, and what its gradient needs."""

    weights: Tensor  # c (B, R, M)
    cosine: Tensor  # (B, R, M)
    wide: Tensor  # 1 / √(|k|² + ε), (B, R, 1)
    long: Tensor  # 1 / √(|M[i]|² + ε), (B, 1, M); with masks (B, R, M)


def content(
    memory: Tensor, keys: Tensor, strengths: Tensor, masks: Tensor | None
) -> Content:
    """The weights of keys (B, R, W), with masks (B, R, W) or without.

    Args:
        memory: M (B, M, W).
        keys: k.
        strengths: β (B, R, 1).
        masks: z, or None.
    """
    if masks is None:
        asked, lengths = keys, ops.sum(memory * memory, axis=-1)[:, None]
    else:  # of k ∘ z and M ∘ z
        keys = keys * masks
        asked = keys * masks
        lengths = ops.matmul(masks * masks, _flip(memory * memory))
    wide = ops.rsqrt(ops.sum(keys * keys, axis=-1, keepdims=True) + EPSILON)
    long = ops.rsqrt(lengths + EPSILON)
    cosine = ops.matmul(asked * wide, _flip(memory)) * long
    return Content(ops.softmax(cosine * strengths, axis=-1), cosine, wide, long)


def content_gradient(
    memory: Tensor,
    keys: Tensor,
    strengths: Tensor,
    masks: Tensor | None,
    seen: Content,
    d_weights: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Of keys (B, R, W), strengths (B, R), memory (B, M, W) and masks (B, R, W)."""
    d_scores = d_weights * seen.weights
    d_scores = d_scores - seen.weights * ops.sum(d_scores, axis=-1, keepdims=True)
    d_strengths = ops.sum(d_scores * seen.cosine, axis=-1)
    d_cosine = d_scores * strengths
    along = d_cosine * seen.cosine
    d_cosine = d_cosine * seen.long * seen.wide
    of_keys = ops.sum(along, axis=-1, keepdims=True) * seen.wide * seen.wide
    if masks is None:
        of_slots = ops.sum(along, axis=1, keepdims=True) * seen.long * seen.long
        d_keys = ops.matmul(d_cosine, memory) - keys * of_keys
        d_memory = ops.matmul(_flip(d_cosine), keys) - memory * _flip(of_slots)
        return d_keys, d_strengths, d_memory, None
    squares, masked = masks * masks, keys * masks
    of_slots = along * seen.long * seen.long  # (B, R, M): of each length, twice
    d_asked = ops.matmul(d_cosine, memory)
    d_masked = d_asked * masks - masked * of_keys
    d_squares = ops.matmul(of_slots, memory * memory)
    d_memory = ops.matmul(_flip(d_cosine), masked * masks)
    d_memory = d_memory - memory * ops.matmul(_flip(of_slots), squares)
    d_masks = d_asked * masked + d_masked * keys - masks * d_squares
    return d_masked * masks, d_strengths, d_memory, d_masks


def _flip(x: Tensor) -> Tensor:
    return ops.swapaxes(x, -1, -2)
