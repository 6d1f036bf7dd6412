"""A plain torch form of the update rule of the authors' Hopfield layer.

Each step stores the weights (B, H, T, S). With `stops`, there is a test between steps:
If the weights of a head have converged in all samples, they do not change any more. The
authors' layer has the same test with the same threshold. Without `stops`, there is no
test.
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
    """Maps heads (B, H, T, E), (B, H, S, E) and (B, H, S, V) to (B, H, T, V)."""
    turned = key.transpose(-1, -2)
    weights = torch.softmax(beta * query @ turned, -1)  # (B, H, T, S)
    active = torch.ones(query.shape[1], 1, 1, dtype=torch.bool, device=query.device)
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
    """Copies a Keras variable to a new torch tensor that requires gradients."""
    return variable.value.detach().clone().requires_grad_()


class Form:
    """The plain form of a layer: input projections, association, output projection.

    Args:
        layer: a built `Hopfield` layer.
        beta: β.
        steps: the number of softmax steps.
        stops: whether to test between steps which heads have converged.
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
        """Maps states (B, T, D) and patterns (B, S, D) to (B, T, D)."""
        wq, bq, wk, bk, wv, bv, wo, bo = self.weights
        q = self._project(query, wq, bq)  # (B, H, T, E)
        k, v = self._project(stored, wk, bk), self._project(stored, wv, bv)
        found = associate(q, k, v, *self.rule)
        return F.linear(found.transpose(1, 2).flatten(-2), wo.flatten(0, 1).t(), bo)

    def _project(self, x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
        out = F.linear(x, kernel.flatten(1).t(), bias.flatten())
        return out.unflatten(-1, (self.heads, -1)).transpose(1, 2)
