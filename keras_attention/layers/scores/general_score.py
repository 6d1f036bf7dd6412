"""Luong's bilinear score.

Shapes: B batch, T queries, S keys, Dq and Dk widths, U units.
"""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.layers.base.serialization import export
from keras_attention.layers.scores.score import Score, dense
from keras_attention.ops import scores

Tensor = Any


@export
class GeneralScore(Score):
    """qᵀ W k, Luong's "general" score; queries and keys may differ in width.

    Args:
        kernel_initializer: the initializer of W.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import GeneralScore
    >>> q, k = np.ones((1, 2, 3), "float32"), np.ones((1, 5, 4), "float32")
    >>> tuple(GeneralScore()(q, k).shape)
    (1, 2, 5)

    Reference:
        Luong et al., "Effective approaches to attention-based neural machine
        translation" (2015), section 3.1.
    """

    widths_may_differ = True

    def __init__(self, kernel_initializer: Any = "glorot_uniform", **kwargs: Any):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Any, key_shape: Any = None) -> None:
        key_shape = query_shape if key_shape is None else key_shape
        self.kernel = dense(self, query_shape[-1], "kernel")
        self.kernel.build(key_shape)
        self.built = True

    def project_key(self, key: Tensor) -> Tensor:
        return self.kernel(key)  # (B, S, Dq)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return scores.dot(query, key)
