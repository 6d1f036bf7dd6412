"""Cross-entropy with label smoothing for integer labels."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import fraction
from keras_attention.layers.base.serialization import export

Tensor = Any


@export
class SmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy with label smoothing for integer labels.

        − (1 − ε) log p(y) − ε/V Σ_k log p(k)

    Keras supports label smoothing only for one-hot labels, which need V times the
    memory of integer labels.

    Args:
        label_smoothing: ε; 0 for the plain cross-entropy.
        ignore_class: labels of this class are ignored and excluded from the mean; None
            ignores no class.

    Call arguments:
        y_true: integers (...), or (..., 1).
        y_pred: logits (..., V).
        sample_weight: weights in the shape of the labels, or (B,).

    Masking:
        Labels masked by the mask of `y_pred` are ignored, too.

    Returns:
        The loss of each label, reduced according to `reduction`.

    Raises:
        ValueError: if ε is outside [0, 1), or the shapes do not fit.

    Example:

    >>> import numpy as np
    >>> from keras_attention.losses import SmoothedCrossentropy
    >>> loss = SmoothedCrossentropy(0.1, ignore_class=0)
    >>> logits = np.array([[[0.0, 2.0], [0.0, 9.0]]], "float32")
    >>> round(float(loss(np.array([[1, 0]]), logits)), 4)
    0.2269

    Reference:
        Szegedy et al., "Rethinking the Inception architecture" (2016), section 7;
        Vaswani et al., "Attention is all you need" (2017), section 5.4.
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        ignore_class: int | None = None,
        reduction: str = "sum_over_batch_size",
        name: str = "smoothed_crossentropy",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.label_smoothing = fraction("label_smoothing", label_smoothing)
        self.ignore_class = ignore_class

    def __call__(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        y_true = _labels(y_true, y_pred)
        if sample_weight is not None:
            sample_weight = _weights(sample_weight, y_true, self.dtype)
        if self.ignore_class is not None:
            counts = ops.cast(ops.not_equal(y_true, self.ignore_class), self.dtype)
            if self.reduction in ("sum_over_batch_size", "mean"):
                # Keras divides by the number of all labels, or of the labels that are
                # not masked by the mask of `y_pred`.
                total = _Total(reduction="sum", dtype=self.dtype)
                every = total(ops.ones_like(counts), y_pred)
                counts = counts * every / ops.maximum(total(counts, y_pred), 1e-12)
            sample_weight = counts if sample_weight is None else counts * sample_weight
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        labels = _labels(y_true, y_pred)
        if self.ignore_class is not None:  # it may be outside the V classes
            ignored = ops.equal(labels, self.ignore_class)
            labels = ops.where(ignored, ops.zeros_like(labels), labels)
        log_probabilities = ops.log_softmax(y_pred, axis=-1)  # (..., V)
        right = ops.take_along_axis(log_probabilities, labels[..., None], axis=-1)
        right = right[..., 0]
        if not self.label_smoothing:
            return -right
        smoothing, mean = self.label_smoothing, ops.mean(log_probabilities, axis=-1)
        return -(1 - smoothing) * right - smoothing * mean

    def get_config(self) -> dict[str, Any]:
        names = ("label_smoothing", "ignore_class")
        return {**super().get_config(), **{n: getattr(self, n) for n in names}}


class _Total(keras.losses.Loss):
    """Sums the entries of `y_true` that are not masked by the mask of `y_pred`."""

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return y_true


def _weights(sample_weight: Tensor, labels: Tensor, dtype: Any) -> Tensor:
    """Broadcasts sample weights (..., 1) or (B,) to the shape of the labels."""
    weights = ops.convert_to_tensor(sample_weight, dtype)
    if len(weights.shape) == len(labels.shape) + 1 and weights.shape[-1] == 1:
        weights = ops.squeeze(weights, axis=-1)
    missing = max(len(labels.shape) - len(weights.shape), 0)
    weights = ops.reshape(weights, (*ops.shape(weights), *(1,) * missing))
    return weights * ops.ones(ops.shape(labels), dtype)  # Keras modifies it in place


def _labels(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """Returns int32 labels in the shape of the logits without the class axis."""
    labels = ops.cast(y_true, "int32")
    if len(labels.shape) == len(y_pred.shape) and labels.shape[-1] == 1:
        labels = ops.squeeze(labels, axis=-1)
    if len(labels.shape) + 1 != len(y_pred.shape):
        raise ValueError(
            "`y_true` must have the shape of `y_pred` without its last axis, that of "
            f"the classes. Received: y_true.shape={tuple(y_true.shape)}, "
            f"y_pred.shape={tuple(y_pred.shape)}"
        )
    return labels
