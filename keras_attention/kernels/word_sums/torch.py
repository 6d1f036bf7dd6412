"""Two weighted sums of the word embeddings of sentences, on torch.

torch's sum of embeddings, `embedding_bag`, stores no vector per word. Its own gradient
is slow. The gradient of row v of the table is a sum, too: over the places where word v
stands, of the weight times the gradient of the sentence. It is computed by the same
function, after the places are sorted by word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.functional import embedding_bag

from keras_attention.kernels.replay.torch_facts import operation

Tensor = Any

FEW = 4  # words of the vocabulary for each word of a sentence: counting is faster


def word_sums(
    tokens: Tensor, first: Tensor, second: Tensor, table: Tensor
) -> tuple[Tensor, Tensor]:
    """Sums embeddings without storing them, with an explicit gradient."""
    shape = (*tokens.shape[:-1], table.shape[1])
    if not tokens.numel():
        zeros = table[tokens.long()].sum(-2)
        return zeros, zeros
    if len(table) <= FEW * tokens.shape[-1]:
        return _counted(tokens, first, table), _counted(tokens, second, table)
    if tokens.dtype not in (torch.int32, torch.int64):
        tokens = tokens.long()
    rows = (
        x.reshape(-1, tokens.shape[-1])
        for x in (tokens, first.to(table.dtype), second.to(table.dtype))
    )
    sum_1, sum_2 = _WordSums.apply(*rows, table)
    return sum_1.reshape(shape), sum_2.reshape(shape)


def word_sums_pay(size: int, length: int | None) -> bool:
    """They pay for every size."""
    return True


def _counted(tokens: Tensor, weights: Tensor, table: Tensor) -> Tensor:
    """Multiplies weighted word counts by the table."""
    counts = weights.new_zeros((*tokens.shape[:-1], len(table)))
    counts = counts.scatter_add(-1, tokens.long(), weights)  # (..., V)
    return counts.to(table.dtype) @ table


class _WordSums(torch.autograd.Function):
    """Computes two sums (N, D) for sentences (N, L)."""

    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, first: Tensor, second: Tensor, table: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(tokens, first, second)
        ctx.size = len(table)
        return _sum(tokens, table, first), _sum(tokens, table, second)

    @staticmethod
    def backward(ctx: Any, slope_1: Tensor, slope_2: Tensor) -> tuple[Any, ...]:
        tokens, first, second = ctx.saved_tensors
        words = tokens.reshape(-1)
        order = _order(words)
        counts = words.new_zeros(ctx.size).index_add_(0, words, torch.ones_like(words))
        starts = (counts.cumsum(0) - counts).to(tokens.dtype)  # (V,)
        sentences = torch.arange(len(tokens), dtype=tokens.dtype, device=tokens.device)
        rows, *weights = (
            x.reshape(-1).index_select(0, order)
            for x in (sentences[:, None].expand_as(tokens), first, second)
        )
        if ctx.size > len(words):  # a large table is better written once
            rows = torch.stack([rows, rows + len(tokens)], 1).reshape(-1)  # (2 N L,)
            weight = torch.stack(weights, 1).reshape(-1)
            slopes = torch.cat([slope_1, slope_2])  # (2 N, D)
            return None, None, None, _sum(rows, slopes, weight, 2 * starts)
        sum_1, sum_2 = (
            _sum(rows, slope.contiguous(), weight, starts)
            for slope, weight in zip((slope_1, slope_2), weights)
        )
        return None, None, None, sum_1.add_(sum_2)  # (V, D)


def _sorting(words: torch.Tensor) -> torch.Tensor:
    """Returns the indices that sort the words, which are below 2³².

    NumPy's sort of 16-bit integers is ten times as fast as torch's sort.
    """
    if not words.is_cpu or torch.compiler.is_compiling():
        return words.argsort(stable=True)
    array = words.numpy()
    order = np.argsort(array.astype("uint16"), kind="stable")  # by the lower 16 bits
    high = (array >> 16).astype("uint16")
    if high.any():
        order = order[np.argsort(high[order], kind="stable")]
    return torch.from_numpy(order)


_order = operation(
    "word_order", _sorting, lambda words: words.new_empty(len(words), dtype=torch.int64)
)


def _sum(
    rows: Tensor, table: Tensor, weights: Tensor, starts: Tensor | None = None
) -> Tensor:
    return embedding_bag(rows, table, starts, mode="sum", per_sample_weights=weights)
