"""A loss with the REINFORCE gradient."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import number
from keras_attention.layers.base.serialization import export
from keras_attention.ops import choices

Tensor = Any
# Losses that are invariant to adding a constant to all logits of a label.
CATEGORICAL = (
    keras.losses.SparseCategoricalCrossentropy,
    keras.losses.CategoricalCrossentropy,
    keras.losses.CategoricalFocalCrossentropy,
)


@export
class ReinforceLoss(keras.losses.Loss):
    """A loss with the REINFORCE gradient, to train models with hard choices.

        value    = Σₜ Lₜ                          over the labels t of a sample
        gradient = Σₜ [∂Lₜ + λ (Lₜ − bₜ) ∂zₜ]     zₜ = Σ log p(choice)

    This is an unbiased estimate of the gradient of the expected loss. The baseline bₜ
    is the mean loss of the labels t of the other samples in the batch, without ignored
    labels. The model must end in `CarryChoices`, which determines the choices in zₜ.

    Args:
        loss: a categorical cross-entropy of Keras on logits, such as
            `SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)`; the
            default is `SparseCategoricalCrossentropy(from_logits=True)`. These losses
            are invariant to adding a constant to all logits of a label.
        weight: λ, the weight of the gradient of the choices.
        baseline: whether to subtract b; if not, b = 0.

    Call arguments:
        y_true: labels for `loss`, (B,) or (B, T), or one-hot.
        y_pred: the output of `CarryChoices`, (B, V) or (B, T, V).
        sample_weight: (B,), or (B, T) for one weight per label. A label of weight 0 in
            (B, T) does not count: neither its loss nor its part of the baseline.

    Returns:
        (B,), then reduced according to `reduction`. Weights per label are applied
        before the sum over the labels.

    Attributes:
        reads_choices: True. A model whose attention learns by REINFORCE, such as
            `ImageCaptioner`, requires this attribute in `fit`. Set it to True in a loss
            of your own that recovers z from the output of `CarryChoices`.

    Raises:
        ValueError: for an unsupported loss, a negative weight, or sample weights of
            another shape.

    Example:

    >>> import numpy as np
    >>> from keras_attention.losses import ReinforceLoss
    >>> round(float(ReinforceLoss()(np.array([1]), np.zeros((1, 2), "float32"))), 4)
    0.6931

    Reference:
        Xu et al., "Show, attend and tell" (2015), section 4.1, with a moving average as
        its baseline and an entropy term. The baseline here follows Kool et al., "Buy 4
        REINFORCE samples, get a baseline for free!" (2019), over a batch.
    """

    def __init__(
        self,
        loss: Any = None,
        weight: float = 1.0,
        baseline: bool = True,
        reduction: str = "sum_over_batch_size",
        name: str = "reinforce_loss",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.reads_choices = True
        if isinstance(loss, dict):
            loss = keras.saving.deserialize_keras_object(loss)
        if loss is None:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        if not (isinstance(loss, CATEGORICAL) and loss.from_logits):
            raise ValueError(
                "`loss` must be one of Keras' categorical cross-entropies, with "
                f"from_logits=True. Received: loss={loss!r}"
            )
        self.loss = loss
        self.weight = number("weight", weight, least=0)
        self.baseline = baseline

    def __call__(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        if sample_weight is None:
            return super().__call__(y_true, y_pred)
        weights = ops.convert_to_tensor(sample_weight)
        shape, labels = tuple(weights.shape), tuple(y_pred.shape[:-1])
        if len(shape) < 2 or (len(shape) == 2 and shape[1] == 1):  # per sample
            return super().__call__(y_true, y_pred, weights)
        if len(shape) != len(labels) or not all(
            None in (n, m) or n in (1, m) for n, m in zip(shape, labels)
        ):
            raise ValueError(
                "`sample_weight` must have one weight per sample, shape (batch,), or "
                "one per label, the shape of `y_pred` without its last axis. Received: "
                f"sample_weight.shape={shape}, y_pred.shape={tuple(y_pred.shape)}"
            )
        return super().__call__((y_true, weights), y_pred)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        weights = None  # of the labels
        if isinstance(y_true, tuple):
            y_true, weights = y_true
        cost = self.loss.call(y_true, y_pred)  # (B,) or (B, T)
        chosen = ops.logsumexp(y_pred, axis=-1)  # 0, with the gradient of z
        counts = ops.ones_like(cost)
        if getattr(self.loss, "ignore_class", None) is not None:
            is_label = ops.not_equal(y_true, self.loss.ignore_class)
            counts = ops.cast(ops.reshape(is_label, ops.shape(cost)), cost.dtype)
        if weights is not None:
            counts = counts * ops.cast(ops.not_equal(weights, 0), cost.dtype)
        baseline = choices.leave_one_out(cost, counts) if self.baseline else 0.0
        cost = choices.reinforce(cost, self.weight * counts * chosen, baseline)
        if weights is not None:
            cost = ops.cast(weights, cost.dtype) * cost
        return ops.sum(ops.reshape(cost, (ops.shape(cost)[0], -1)), axis=1)  # (B,)

    def get_config(self) -> dict[str, Any]:
        loss = keras.saving.serialize_keras_object(self.loss)
        entries = {"loss": loss, "weight": self.weight, "baseline": self.baseline}
        return {**super().get_config(), **entries}
