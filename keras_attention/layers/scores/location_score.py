"""Luong's location score, which depends on the query only.

Shapes: B batch, T queries, S keys, Dq width of a query.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.layers.scores.score import Score, dense

Tensor = Any


@export
class LocationScore(Score):
    """W q: a score for each position, independent of the keys.

    W has one row for each of `max_length` positions. S keys use the first S rows.

    Args:
        max_length: the largest number of keys.
        kernel_initializer: the initializer of W.

    Call arguments:
        query: (B, T, Dq).
        key: (B, S, Dk); only its length S is used.

    Raises:
        ValueError: if there are more keys than `max_length`.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import LocationScore
    >>> q, k = np.ones((1, 2, 3), "float32"), np.ones((1, 5, 4), "float32")
    >>> tuple(LocationScore(max_length=7)(q, k).shape)
    (1, 2, 5)

    Reference:
        Luong et al., "Effective approaches to attention-based neural machine
        translation" (2015), equation 8.
    """

    widths_may_differ = True

    def __init__(
        self, max_length: int, kernel_initializer: Any = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.max_length = positive("max_length", max_length)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Any, key_shape: Any = None) -> None:
        self.kernel = dense(self, self.max_length, "kernel")
        self.kernel.build(query_shape)
        self.built = True

    def compute_output_spec(self, query: Tensor, key: Tensor) -> keras.KerasTensor:
        self._check_length(key)
        return super().compute_output_spec(query, key)

    def project_query(self, query: Tensor) -> Tensor:
        return self.kernel(query)  # one score per position

    def project_key(self, key: Tensor) -> Tensor:
        self._check_length(key)
        return key

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return query[..., : ops.shape(key)[-2]]  # (B, T, S)

    def _check_length(self, key: Tensor) -> None:
        length = key.shape[-2]
        if length is not None and length > self.max_length:
            raise ValueError(
                "`max_length` must be at least the number of keys. Received: "
                f"max_length={self.max_length}, key.shape={tuple(key.shape)}"
            )
