"""The cosine as a score."""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.layers.base.arguments import number
from keras_attention.layers.base.serialization import export
from keras_attention.layers.scores.score import Score
from keras_attention.ops import scores

Tensor = Any


@export
class CosineScore(Score):
    """qᵀk / (‖q‖ ‖k‖), between −1 and 1.

    Args:
        scale: the factor of the cosine. Without a factor, the scores lie between −1
            and 1, and their softmax is nearly uniform.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import CosineScore
    >>> x = np.array([[[3.0, 4.0]]], "float32")
    >>> round(float(CosineScore()(x, 2 * x)[0, 0, 0]), 6)
    1.0
    """

    def __init__(self, scale: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale = number("scale", scale)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return ops.multiply(self.scale, scores.cosine(query, key))
