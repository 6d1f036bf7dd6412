"""The score of attentive pooling.

Shapes: B batch, T queries, S keys, Dk width of a key, U units.
"""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.scores.score import Score
from keras_attention.layers.scores.weights import dense
from keras_attention.ops import scores

Tensor = Any


class ContextScore(Score):
    """qᵀ tanh(W k + b), with learned queries q of width U.

    Not public: `AttentionPooling` creates it for the score "additive".

    Args:
        units: U, the width of the hidden layer and of the queries.
        kernel_initializer: the initializer of W.

    Reference:
        Yang et al., "Hierarchical attention networks for document classification"
        (2016), equations 5 and 6.
    """

    widths_may_differ = True

    def __init__(
        self, units: int, kernel_initializer: Any = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.units = positive("units", units)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Any, key_shape: Any = None) -> None:
        key_shape = query_shape if key_shape is None else key_shape
        self.hidden = dense(self, self.units, "hidden", bias=True, activation="tanh")
        self.hidden.build(key_shape)
        self.built = True

    def project_key(self, key: Tensor) -> Tensor:
        return self.hidden(key)  # (B, S, U)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return scores.dot(query, key)
