"""Losses that Keras does not provide.

Shapes: B batch, T queries or labels, S keys, V classes.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import fraction, number
from keras_attention.layers.base.serialization import (
    argument_names,
    as_config,
    export,
)
from keras_attention.ops import choices
from keras_attention.ops.alignments import coverage_cost
from keras_attention.ops.ranking import margin_ranking

__all__ = [
    "CoverageLoss",
    "NegativeSamplingLoss",
    "ReinforceLoss",
    "SmoothedCrossentropy",
    "SupportingFactLoss",
]
__dir__ = __all__.copy

Tensor = Any
# Losses that are invariant to adding a constant to all logits of a label.
CATEGORICAL = (
    keras.losses.SparseCategoricalCrossentropy,
    keras.losses.CategoricalCrossentropy,
    keras.losses.CategoricalFocalCrossentropy,
)


def _option(loss: Any, name: str) -> Any:
    """Returns an option of a loss; the config of a user's subclass may lack it."""
    base = next(base for base in CATEGORICAL if isinstance(loss, base))
    return base.get_config(loss).get(name)


class _Loss(keras.losses.Loss):
    """A loss whose config has the arguments of its constructor."""

    def get_config(self) -> dict[str, Any]:
        names = argument_names(type(self))
        arguments = {name: as_config(getattr(self, name)) for name in names}
        return {**super().get_config(), **arguments}


@export
class CoverageLoss(_Loss):
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


@export
class NegativeSamplingLoss(_Loss):
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


@export
class ReinforceLoss(_Loss):
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
        if not (isinstance(loss, CATEGORICAL) and _option(loss, "from_logits")):
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
        ignored = _option(self.loss, "ignore_class")
        if ignored is not None:
            is_label = ops.not_equal(y_true, ignored)
            counts = ops.cast(ops.reshape(is_label, ops.shape(cost)), cost.dtype)
        if weights is not None:
            counts = counts * ops.cast(ops.not_equal(weights, 0), cost.dtype)
        baseline = choices.leave_one_out(cost, counts) if self.baseline else 0.0
        cost = choices.reinforce(cost, self.weight * counts * chosen, baseline)
        if weights is not None:
            cost = ops.cast(weights, cost.dtype) * cost
        return ops.sum(ops.reshape(cost, (ops.shape(cost)[0], -1)), axis=1)  # (B,)


@export
class SmoothedCrossentropy(_Loss):
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


@export
class SupportingFactLoss(_Loss):
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


def check_axes(y_pred: Tensor, wanted: str) -> None:
    """Raises a ValueError if the predictions do not have rank 3."""
    if len(y_pred.shape) != 3:
        shape = tuple(y_pred.shape)
        raise ValueError(f"`y_pred` must be {wanted}. Received: y_pred.shape={shape}")
