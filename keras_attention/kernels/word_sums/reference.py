"""Two weighted sums of the word embeddings of sentences, in Keras operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

Tensor = Any

PAYS = 8  # words of the vocabulary per word of a sentence, see tests/speed/trials.md


def counts(tokens: Tensor, weights: Tensor, size: int) -> Tensor:
    """Compares position by position; XLA fuses the passes. L must be static."""
    words = ops.arange(size, dtype=tokens.dtype)
    return sum(
        ops.where(tokens[..., i, None] == words, weights[..., i, None], 0)
        for i in range(tokens.shape[-1])
    )  # (..., V)


def word_sums(
    tokens: Tensor,
    first: Tensor,
    second: Tensor,
    table: Tensor,
    counts: Callable = counts,
) -> tuple[Tensor, Tensor]:
    """Multiplies weighted word counts (..., V) by the table."""
    c_1, c_2 = (
        ops.cast(counts(tokens, weights, table.shape[0]), table.dtype)
        for weights in (first, second)
    )
    return ops.matmul(c_1, table), ops.matmul(c_2, table)


def word_sums_pay(size: int, length: int | None, most: int = PAYS) -> bool:
    """Counts grow with the vocabulary, lookups with the length of a sentence."""
    return length is not None and size <= most * length
