"""The margin ranking loss of supporting facts and answers."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import number
from keras_attention.layers.base.serialization import export
from keras_attention.ops.ranking import margin_ranking

Tensor = Any


@export
class SupportingFactLoss(keras.losses.Loss):
    """Margin ranking loss of the right class against all other classes.

        Σ_{j ≠ r} max(0, γ − s_r + s_j)

    Use it for both outputs of `MemNN`: the ranking of facts at each hop and the ranking
    of the answer words.

    Args:
        margin: γ.

    Call arguments:
        y_true: integers: (B,) for one ranking per sample, or (B, K) for K rankings per
            sample, one per hop. With (B, K), −1 means "no fact". The first −1 of a row
            stands for the last class, the stop record, and the labels after it are
            ignored. A label outside the N classes has loss 0; with (B, K), the labels
            after it have loss 0, too.
        y_pred: scores (B, N) or (B, K, N).

    Returns:
        (B,), summed over hops, then reduced according to `reduction`.

    Raises:
        ValueError: if the margin is not positive or shapes do not fit.

    Example:

    >>> import numpy as np
    >>> from keras_attention.losses import SupportingFactLoss
    >>> loss = SupportingFactLoss(margin=0.5)
    >>> round(float(loss(np.array([1]), np.array([[0.0, 1.0, 0.75]]))), 4)
    0.25

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), equations 6 to 8.
    """

    def __init__(
        self,
        margin: float = 0.1,
        reduction: str = "sum_over_batch_size",
        name: str = "supporting_fact_loss",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.margin = number("margin", margin, above=0)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        if len(y_true.shape) == len(y_pred.shape) and y_true.shape[-1] == 1:
            y_true = ops.squeeze(y_true, axis=-1)
        if len(y_pred.shape) not in (2, 3) or len(y_true.shape) + 1 != len(
            y_pred.shape
        ):
            raise ValueError(
                "`y_pred` must have shape (batch, classes) or (batch, hops, classes), "
                "and `y_true` the same without the classes. Received: "
                f"y_true.shape={tuple(y_true.shape)}, "
                f"y_pred.shape={tuple(y_pred.shape)}"
            )
        label = ops.cast(y_true, "int32")
        classes = ops.shape(y_pred)[-1]
        nothing, beyond = label < 0, label >= classes
        missing = ops.logical_or(nothing, beyond)  # (B,) or (B, K)
        cost = margin_ranking(
            ops.where(missing, classes - 1, label), y_pred, self.margin
        )
        if len(y_pred.shape) == 2:
            return ops.where(missing, ops.zeros_like(cost), cost)  # (B,)
        so_far = ops.cumsum(ops.cast(missing, "int32"), axis=1)
        first = ops.logical_and(nothing, so_far == 1)  # (B, K)
        counts = ops.logical_or(so_far == 0, first)
        return ops.sum(ops.where(counts, cost, ops.zeros_like(cost)), axis=1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "margin": self.margin}
