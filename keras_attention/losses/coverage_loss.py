"""A loss that penalizes repeated attention to the same keys."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.layers.base.serialization import export
from keras_attention.losses.checks import check_axes
from keras_attention.ops.alignments import coverage_cost

Tensor = Any


@export
class CoverageLoss(keras.losses.Loss):
    """Coverage loss, which penalizes repeated attention to the same keys.

        Σ_s min(a_ts, c_ts), with c_t = Σ_{i < t} a_i

    Apply it to the attention weights of a model that outputs them. Keras averages the
    loss over queries, as it does for any loss.

    Call arguments:
        y_true: ignored. Keras requires a target for each output with a loss, such as
            zeros in the shape of the weights.
        y_pred: the weights a, (B, T, S).

    Returns:
        (B, T), then reduced according to `reduction`.

    Raises:
        ValueError: if the weights do not have rank 3.

    Example:

    >>> import numpy as np
    >>> from keras_attention.losses import CoverageLoss
    >>> weights = np.array([[[1.0, 0.0], [0.75, 0.25]]], "float32")
    >>> float(CoverageLoss()(np.zeros((1, 2, 2)), weights))
    0.375

    Reference:
        See et al., "Get to the point" (2017), equation 12.
    """

    def __init__(
        self,
        reduction: str = "sum_over_batch_size",
        name: str = "coverage_loss",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        check_axes(y_pred, "weights of shape (batch, queries, keys)")
        return coverage_cost(y_pred)
