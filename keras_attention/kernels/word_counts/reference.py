"""Weighted word counts of sentences in Keras operations."""

from __future__ import annotations

from typing import Any

from keras import ops

Tensor = Any


def word_counts(tokens: Tensor, weights: Tensor, size: int) -> Tensor:
    """Compares position by position; XLA fuses the passes. L must be static."""
    words = ops.arange(size, dtype=tokens.dtype)
    return sum(
        ops.where(tokens[..., i, None] == words, weights[..., i, None], 0)
        for i in range(tokens.shape[-1])
    )  # (..., V)
