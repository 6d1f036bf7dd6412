"""MemN2N written plainly in torch, the peer of ours: no Keras, no package of ours.

Sukhbaatar et al., "End-to-end memory networks" (2015), with adjacent tying and null
memories: an empty slot holds 0, scores 0 and takes part in the softmax, unmasked.
Shapes: B batch, M memory slots, L words, D width, V vocabulary.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class PlainMemN2N(nn.Module):
    """The model, for stories (B, M, L) and questions (B, L) of integers.

    Args:
        word_tables: K + 1 arrays (V, D): A of the first hop, then C of each.
        time_tables: K + 1 arrays (memory_size + 1, D); row 0, of an empty slot, is
            taken as 0 and stays so.
        words: L, the length that the position encoding takes for a sentence.
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
        """Logits (B, V)."""
        is_valid = story != 0  # (B, M, L)
        filled = is_valid.any(-1)  # (B, M)
        age = filled.long().flip(1).cumsum(1).flip(1) * filled
        in_story = self.position * is_valid[..., None]  # (B, M, L, D)
        in_question = self.position * (question != 0)[..., None]  # (B, L, D)
        memories = [
            (words(story) * in_story).sum(2) + times(age)  # (B, M, D), empty: 0
            for words, times in zip(self.words, self.times, strict=True)
        ]
        state = (self.words[0](question) * in_question).sum(1)  # (B, D)
        for key, value in itertools.pairwise(memories):
            scores = (key @ state[:, :, None])[:, :, 0]  # (B, M)
            weights = scores.softmax(-1)  # of a null memory, exp(0) before the sum
            state = state + (weights[:, None, :] @ value)[:, 0]  # (B, D)
        return state @ self.words[-1].weight.T  # (B, V)


def train_step(
    model: PlainMemN2N,
    optimizer: torch.optim.Optimizer,
    inputs: list[torch.Tensor],
    answer: torch.Tensor,
    clip: float,
) -> torch.Tensor:
    """One update from the loss summed over the batch; each matrix is clipped alone."""
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
    """The ages' table, whose row 0 is 0 and gets no gradient."""
    table = torch.tensor(array)
    table[0] = 0
    return nn.Embedding.from_pretrained(table, freeze=False, padding_idx=0)
