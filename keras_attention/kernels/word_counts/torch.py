"""Weighted word counts of sentences on torch."""

from __future__ import annotations

from typing import Any

Tensor = Any


def word_counts(tokens: Tensor, weights: Tensor, size: int) -> Tensor:
    """Adds the weight of each word at its index."""
    counts = weights.new_zeros((*tokens.shape[:-1], size))
    return counts.scatter_add(-1, tokens.long(), weights)  # (..., V)
