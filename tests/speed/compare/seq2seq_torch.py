"""A plain torch implementation of `Seq2Seq`, without Keras and this package.

A GRU reads the source in both directions; a GRU cell with Bahdanau's attention writes
the target.

Shapes: B batch, S source tokens, T target tokens, D width of an embedding, U units, V
target vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn


class PlainSeq2Seq(nn.Module):
    """The model for integer sources (B, S) and targets (B, T), with 0 for padding.

    Args:
        weights: the arrays of a `keras_attention.models.Seq2Seq`, by path.
    """

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        super().__init__()
        source, target = (weights[f"{x}_embedding"] for x in ("source", "target"))
        width, units = source.shape[1], weights["scale"].shape[0]
        self.source = nn.Embedding.from_pretrained(torch.tensor(source), freeze=False)
        self.target = nn.Embedding.from_pretrained(torch.tensor(target), freeze=False)
        self.encoder = nn.GRU(width, units, batch_first=True, bidirectional=True)
        self.bridge = _linear(weights["bridge/kernel"], weights["bridge/bias"])
        self.query = _linear(weights["query/kernel"], None)
        self.key = _linear(weights["key/kernel"], weights["key/bias"])
        self.scale = nn.Parameter(torch.tensor(weights["scale"]))
        self.cell = nn.GRUCell(width + 2 * units, units)
        self.logits = _linear(weights["logits/kernel"], weights["logits/bias"])
        for suffix, name in (("_l0", "forward"), ("_l0_reverse", "backward")):
            _put_gru(self.encoder, suffix, [weights[f"{name}/{k}"] for k in range(3)])
        _put_gru(self.cell, "", [weights[f"cell/{k}"] for k in range(3)])

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Returns logits (B, T, V)."""
        is_valid = source != 0  # (B, S)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.source(source), is_valid.sum(1), True, enforce_sorted=False
        )
        memory, last = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(
            memory, True, total_length=source.shape[1]
        )  # (B, S, 2 U)
        state = self.bridge(torch.cat([last[0], last[1]], -1)).tanh()  # (B, U)
        keys = self.key(memory)  # (B, S, U)
        hidden = torch.where(is_valid, 0.0, float("-inf"))
        words = self.target(target)  # (B, T, D)
        outputs = []
        for word in words.unbind(1):
            query = self.query(state)[:, None]
            weights = ((query + keys).tanh() @ self.scale + hidden).softmax(-1)
            context = (weights[:, None] @ memory)[:, 0]  # (B, 2 U)
            state = self.cell(torch.cat([word, context], -1), state)
            outputs.append(torch.cat([state, context], -1))
        return self.logits(torch.stack(outputs, 1))  # (B, T, V)


def _linear(kernel: np.ndarray, bias: np.ndarray | None) -> nn.Linear:
    layer = nn.Linear(*kernel.shape, bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(kernel.T))
        if bias is not None:
            layer.bias.copy_(torch.tensor(bias))
    return layer


def _put_gru(layer: Any, suffix: str, arrays: list[np.ndarray]) -> None:
    """Copies Keras' kernel, recurrent kernel and bias. Keras' gates are z, r, h."""
    kernel, recurrent, bias = (_reordered(array) for array in arrays)
    values = {
        "weight_ih": kernel.T,
        "weight_hh": recurrent.T,
        "bias_ih": bias[0],
        "bias_hh": bias[1],
    }
    with torch.no_grad():
        for name, value in values.items():
            getattr(layer, name + suffix).copy_(torch.tensor(value.copy()))


def _reordered(array: np.ndarray) -> np.ndarray:
    update, reset, new = np.split(array, 3, axis=-1)
    return np.concatenate([reset, update, new], -1)
