"""The loss of skip-gram with shared negative samples."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.serialization import export
from keras_attention.losses.checks import check_axes

Tensor = Any


@export
class NegativeSamplingLoss(keras.losses.Loss):
    """The loss of skip-gram with shared negative samples.

        Σ_p |w_p| log(1 + exp(−sign(w_p) z_p))

    Call arguments:
        y_true: weights w, (R, S, P): positive for true pairs, negative for negative
            samples, and 0 for other words. Labels 0 and 1 need `BinaryCrossentropy`.
        y_pred: logits z, (R, S, P).

    Returns:
        (R, S), then reduced according to `reduction`.

    Raises:
        ValueError: if the logits do not have rank 3.

    Reference:
        Mikolov et al., "Distributed representations of words and phrases and their
        compositionality" (2013), equation 4, with weights.
    """

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        check_axes(y_pred, "logits of shape (rows, centers, contexts)")
        weights = ops.cast(y_true, y_pred.dtype)
        z = -ops.sign(weights) * y_pred
        size = ops.abs(z)
        # As `softplus`, which XLA computes in twice the time.
        softplus = ops.log1p(ops.exp(-size)) + 0.5 * size + 0.5 * z
        return ops.sum(ops.abs(weights) * softplus, axis=-1)
