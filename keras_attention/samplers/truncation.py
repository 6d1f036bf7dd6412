"""Shared parts of the samplers that truncate the vocabulary.

Shapes: B batch, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

from keras import ops

Tensor = Any


def draw_best(best: Tensor, words: Tensor, uniforms: Tensor) -> Tensor:
    """Samples one of the k best words of each row with P = softmax(best).

    It samples the same words as `ops.decoding.draw` of the softmax. In sorted rows, the
    number of cumulative sums up to u times the total is the sampled place; XLA computes
    this faster than an argmax and a gather.

    Args:
        best: the scores of the words, (B, k), the largest first.
        words: integers (B, k).
        uniforms: u, (B,), in [0, 1).

    Returns:
        The words, (B,). A word with probability 0 is never sampled.
    """
    # Not best[:, :1]: with a slice of its result, top_k is 70 times slower on XLA.
    weights = ops.exp(best - ops.max(best, axis=-1, keepdims=True))
    sums = ops.cumsum(weights, axis=-1)  # (B, ·)
    total = ops.max(sums, axis=-1, keepdims=True)
    # Behind the first sum that equals the total, all weights are 0.
    passed = ops.logical_and(sums <= uniforms[:, None] * total, sums < total)
    place = ops.sum(ops.cast(passed, "int32"), axis=-1, keepdims=True)  # (B, 1)
    chosen = ops.equal(ops.arange(words.shape[-1], dtype="int32"), place)
    return ops.sum(ops.where(chosen, words, ops.zeros_like(words)), axis=-1)


def word_at(words: Tensor, place: Tensor) -> Tensor:
    """Returns the word at position `place` of each row."""
    return ops.take_along_axis(words, place[:, None], axis=-1)[:, 0]  # (B,)
