"""Luong's score of concatenated pairs.

Shapes: B batch, T queries, S keys, Dq and Dk widths, U units.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.layers.scores.score import Score, scale_vector
from keras_attention.ops import scores

Tensor = Any


@export
class ConcatScore(Score):
    """vᵀ tanh(W [q; k]), Luong's "concat" score.

    W is one matrix for the pair [q; k], as in the paper. The layer does not apply W to
    each pair: it applies one part of W to each query and the other part to each key.

    Args:
        units: U, the width of the hidden layer.
        exact: whether to compute tanh for each pair; see `ops.scores.additive`.
        kernel_initializer: the initializer of W and v.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import ConcatScore
    >>> q, k = np.ones((1, 2, 3), "float32"), np.ones((1, 5, 4), "float32")
    >>> tuple(ConcatScore(units=7)(q, k).shape)
    (1, 2, 5)

    Reference:
        Luong et al., "Effective approaches to attention-based neural machine
        translation" (2015), section 3.1.
    """

    widths_may_differ = True

    def __init__(
        self,
        units: int,
        exact: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = positive("units", units)
        self.exact = exact
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Any, key_shape: Any = None) -> None:
        key_shape = query_shape if key_shape is None else key_shape
        self.query_width = query_shape[-1]
        self.kernel = self.add_weight(
            name="kernel",
            shape=(query_shape[-1] + key_shape[-1], self.units),
            initializer=self.kernel_initializer,
        )
        self.scale = scale_vector(self)
        self.built = True

    def project_query(self, query: Tensor) -> Tensor:
        kernel = ops.cast(self.kernel[: self.query_width], query.dtype)
        return ops.matmul(query, kernel)  # (B, T, U)

    def project_key(self, key: Tensor) -> Tensor:
        kernel = ops.cast(self.kernel[self.query_width :], key.dtype)
        return ops.matmul(key, kernel)  # (B, S, U)

    def precompute_key(self, key: Tensor) -> Any:
        return key if self.exact else scores.precompute_key(key)

    def compare(self, query: Tensor, key: Any) -> Tensor:
        scale = ops.cast(self.scale, query.dtype)
        return scores.additive(query, key, scale, self.exact)
