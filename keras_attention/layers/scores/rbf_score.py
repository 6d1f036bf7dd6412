"""The RBF kernel as a score."""

from __future__ import annotations

from typing import Any

from keras_attention.layers.base.arguments import number
from keras_attention.layers.base.serialization import export
from keras_attention.layers.scores.score import Score
from keras_attention.ops import scores

Tensor = Any


@export
class RBFScore(Score):
    """−γ ‖q − k‖²: its softmax is the RBF kernel, normalized over the keys.

    Args:
        gamma: γ = 1 / (2 · bandwidth²), positive.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import RBFScore
    >>> q, k = np.zeros((1, 1, 2), "float32"), np.ones((1, 1, 2), "float32")
    >>> float(RBFScore(gamma=0.5)(q, k)[0, 0, 0])
    -1.0

    Reference:
        Nadaraya, "On estimating regression" (1964); Watson (1964).
    """

    def __init__(self, gamma: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if number("gamma", gamma) <= 0:
            raise ValueError(f"`gamma` must be positive. Received: gamma={gamma}")
        self.gamma = gamma

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return scores.rbf(query, key, self.gamma)
