"""A plain torch implementation of MemN2N, without Keras and this package.

The model of Sukhbaatar et al., "End-to-end memory networks" (2015), with adjacent tying
and null memories: The memory of an empty slot is 0, its score is 0, and it is not
excluded from the softmax.

Shapes: B batch, M memory slots, L words, D width, V vocabulary.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class PlainMemN2N(nn.Module):
    """The model for integer stories (B, M, L) and questions (B, L).

    Args:
        word_tables: K + 1 arrays (V, D): A of the first hop, then C of each hop.
        time_tables: K + 1 arrays (memory_size + 1, D). Row 0 is for empty slots and is
            always 0.
        words: L, the sentence length of the position encoding.
    """

    def __init__(
        self, word_tables: list[Any], time_tables: list[Any], words: int
    ) -> None:
        super().__init__()
        self.words = nn.ModuleList(_table(array) for array in word_tables)
        self.times = nn.ModuleList(_time_table(array) for array in time_tables)
        width = word_tables[0].shape[1]
        j = torch.arange(1, words + 1)[:, None] / words
        k = torch.arange(1, width + 1)[None, :] / width
        self.register_buffer("position", (1 - j) - k * (1 - 2 * j))  # (L, D)

    def forward(self, story: torch.Tensor, question: torch.Tensor) -> torch.Tensor:
        """Returns logits (B, V)."""
        is_valid = story != 0  # (B, M, L)
        filled = is_valid.any(-1)  # (B, M)
        age = filled.long().flip(1).cumsum(1).flip(1) * filled
        in_story = self.position * is_valid[..., None]  # (B, M, L, D)
        in_question = self.position * (question != 0)[..., None]  # (B, L, D)
        memories = [
            (words(story) * in_story).sum(2) + times(age)  # (B, M, D), 0 if empty
            for words, times in zip(self.words, self.times, strict=True)
        ]
        state = (self.words[0](question) * in_question).sum(1)  # (B, D)
        for key, value in itertools.pairwise(memories):
            scores = (key @ state[:, :, None])[:, :, 0]  # (B, M)
            weights = scores.softmax(-1)  # each empty slot adds exp(0) to the sum
            state = state + (weights[:, None, :] @ value)[:, 0]  # (B, D)
        return state @ self.words[-1].weight.T  # (B, V)


def train_step(
    model: PlainMemN2N,
    optimizer: torch.optim.Optimizer,
    inputs: list[torch.Tensor],
    answer: torch.Tensor,
    clip: float,
) -> torch.Tensor:
    """Runs one update on the summed loss. Clips each matrix's gradient separately."""
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(*inputs), answer, reduction="sum")
    loss.backward()
    for matrix in model.parameters():
        nn.utils.clip_grad_norm_([matrix], clip)
    optimizer.step()
    return loss.detach()


def _table(array: Any) -> nn.Embedding:
    return nn.Embedding.from_pretrained(torch.tensor(array), freeze=False)


def _time_table(array: Any) -> nn.Embedding:
    """Returns the table of time embeddings. Row 0 is 0 and gets no gradient."""
    table = torch.tensor(array)
    table[0] = 0
    return nn.Embedding.from_pretrained(table, freeze=False, padding_idx=0)
