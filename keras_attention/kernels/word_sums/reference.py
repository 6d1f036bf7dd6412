"""Two weighted sums of the word embeddings of sentences, in Keras operations."""

from __future__ import annotations

from typing import Any

from keras import ops

Tensor = Any

PAYS = 8  # words of the vocabulary per word of a sentence, see tests/speed/trials.md


def word_sums(
    tokens: Tensor, first: Tensor, second: Tensor, table: Tensor
) -> tuple[Tensor, Tensor]:
    """Multiplies weighted word counts by the table."""
    size = table.shape[0]
    c_1, c_2 = (
        ops.cast(_counts(tokens, weights, size), table.dtype)  # (..., V)
        for weights in (first, second)
    )
    return ops.matmul(c_1, table), ops.matmul(c_2, table)


def word_sums_pay(size: int, length: int | None) -> bool:
    """Counts grow with the vocabulary, lookups with the length of a sentence."""
    return length is not None and size <= PAYS * length


def _counts(tokens: Tensor, weights: Tensor, size: int) -> Tensor:
    """Compares position by position; XLA fuses the passes. L must be static."""
    words = ops.arange(size, dtype=tokens.dtype)
    return sum(
        ops.where(tokens[..., i, None] == words, weights[..., i, None], 0)
        for i in range(tokens.shape[-1])
    )  # (..., V)
