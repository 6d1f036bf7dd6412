"""The update rule of the authors' Hopfield layer, written plainly in torch.

Weights (B, H, T, S) are held at each step. With `stops`, heads of which no sample's
weights moved are left as they are, which is tested between two steps, as in their layer
and with its threshold; without, that is left out.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

Tensor = Any
STILL = 1e-4


def associate(
    query: Tensor, key: Tensor, value: Tensor, beta: float, steps: int, stops: bool
) -> Tensor:
    """Heads (B, H, T, E), (B, H, S, E) and (B, H, S, V) to (B, H, T, V)."""
    turned = key.transpose(-1, -2)
    weights = torch.softmax(beta * query @ turned, -1)  # (B, H, T, S)
    active = torch.ones(query.shape[1], 1, 1, dtype=torch.bool)
    for _ in range(steps - 1):
        query = beta * (weights @ key)
        new = torch.softmax(query @ turned, -1)
        if stops:
            new = torch.where(active, new, weights)
            with torch.no_grad():
                moved = torch.linalg.norm(new - weights, dim=(-2, -1))  # (B, H)
                active = (moved.amax(0) > STILL)[:, None, None]
        weights = new
    return weights @ value


def leaf(variable: Any) -> Tensor:
    """A variable of Keras as a tensor of its own, of which gradients are taken."""
    return variable.value.detach().clone().requires_grad_()


class Form:
    """Projections, association and projection, with a layer's weights.

    Args:
        layer: a `Hopfield` that is built.
        beta: β.
        steps: how many softmaxes.
        stops: whether heads that rest are left as they are.
    """

    def __init__(self, layer: Any, beta: float, steps: int, stops: bool) -> None:
        self.heads, self.rule = layer.num_heads, (beta, steps, stops)
        parts = (
            layer.query_dense,
            layer.key_dense,
            layer.value_dense,
            layer.output_dense,
        )
        self.weights = [leaf(weight) for part in parts for weight in part.weights]

    def __call__(self, query: Tensor, stored: Tensor) -> Tensor:
        """States (B, T, D) and patterns (B, S, D) to (B, T, D)."""
        wq, bq, wk, bk, wv, bv, wo, bo = self.weights
        q = self._project(query, wq, bq)  # (B, H, T, E)
        k, v = self._project(stored, wk, bk), self._project(stored, wv, bv)
        found = associate(q, k, v, *self.rule)
        return F.linear(found.transpose(1, 2).flatten(-2), wo.flatten(0, 1).t(), bo)

    def _project(self, x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
        out = F.linear(x, kernel.flatten(1).t(), bias.flatten())
        return out.unflatten(-1, (self.heads, -1)).transpose(1, 2)
