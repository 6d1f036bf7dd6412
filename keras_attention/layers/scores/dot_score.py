"""The dot product as a score, scaled or not."""

from __future__ import annotations

from typing import Any

from keras_attention.layers.base.serialization import export
from keras_attention.layers.scores.score import Score
from keras_attention.ops import scores

Tensor = Any


@export
class DotScore(Score):
    """qᵀk, or qᵀk / √D.

    Args:
        scaled: whether to divide by √D (Vaswani et al. 2017).

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import DotScore
    >>> x = np.eye(2, dtype="float32")[None]
    >>> np.asarray(DotScore()(x, x))[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, scaled: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scaled = scaled

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return (scores.scaled_dot if self.scaled else scores.dot)(query, key)
