"""How often each word stands in each sentence on torch."""

from __future__ import annotations

from typing import Any

Tensor = Any


def word_counts(tokens: Tensor, weights: Tensor, size: int) -> Tensor:
    """Adds each word's weight at its place."""
    counts = weights.new_zeros((*tokens.shape[:-1], size))
    return counts.scatter_add(-1, tokens.long(), weights)  # (..., V)
