"""Losses: only what Keras has not."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.serialization import export
from keras_attention.ops import choices
from keras_attention.ops.alignments import coverage_cost
from keras_attention.ops.ranking import margin_ranking

Tensor = Any
# Losses that do not change if a number is added to all logits of a label.
CATEGORICAL = (
    keras.losses.SparseCategoricalCrossentropy,
    keras.losses.CategoricalCrossentropy,
    keras.losses.CategoricalFocalCrossentropy,
)


@export
class SupportingFactLoss(keras.losses.Loss):
    """Margin ranking over all classes: the right one is to be ahead by the margin.

        Σ_{j ≠ r} max(0, γ − s_r + s_j)

    It fits both outputs of a `MemNN`, the ranking of facts at each hop and that of
    the answer's words.

    Args:
        margin: γ.

    Call arguments:
        y_true: integers, (B,) for one ranking a sample, (B, K) for one a hop. In
            rows of K, −1 is "no fact": the first of a row stands for the last class,
            the memory "nothing more", and what follows it does not count. A label
            that is none of the N classes costs nothing, and in rows of K neither
            does what follows it.
        y_pred: scores (B, N) or (B, K, N).

    Returns:
        (B,), summed over hops; then reduced as `reduction` says.

    Raises:
        ValueError: for a margin that is not positive, or shapes that do not fit.

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
        if not margin > 0:
            raise ValueError(f"`margin` must be above 0. Received: margin={margin}")
        self.margin = margin

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


@export
class SmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy with labels that are not quite sure of themselves.

        − (1 − ε) log p(y) − ε/V Σ_k log p(k)

    Keras has label smoothing for one-hot labels alone, which of V = 4,000 words are
    4,000 times the labels.

    Args:
        label_smoothing: ε; 0 for the plain cross-entropy.
        ignore_class: labels of this class do not count, and are left out of the mean;
            None for none.

    Call arguments:
        y_true: integers (...), or (..., 1).
        y_pred: logits (..., V).
        sample_weight: of the shape of the labels, or (B,).

    Masking:
        What a mask of `y_pred` hides does not count, either.

    Returns:
        Of the shape of the labels, then reduced as `reduction` says.

    Raises:
        ValueError: if ε is not at least 0 and below 1, or the shapes do not fit.

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
        if not 0 <= label_smoothing < 1:
            raise ValueError(
                "`label_smoothing` must be at least 0 and below 1. "
                f"Received: label_smoothing={label_smoothing}"
            )
        self.label_smoothing = label_smoothing
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
                # Keras will divide by the number of all labels, or of those that a
                # mask of `y_pred` leaves.
                total = _Total(reduction="sum", dtype=self.dtype)
                every = total(ops.ones_like(counts), y_pred)
                counts = counts * every / ops.maximum(total(counts, y_pred), 1e-12)
            sample_weight = counts if sample_weight is None else counts * sample_weight
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        labels = _labels(y_true, y_pred)
        if self.ignore_class is not None:  # which need not be one of the V
            ignored = ops.equal(labels, self.ignore_class)
            labels = ops.where(ignored, ops.zeros_like(labels), labels)
        chances = ops.log_softmax(y_pred, axis=-1)  # (..., V)
        right = ops.take_along_axis(chances, labels[..., None], axis=-1)[..., 0]
        if not self.label_smoothing:
            return -right
        every = ops.mean(chances, axis=-1)
        return -(1 - self.label_smoothing) * right - self.label_smoothing * every

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "label_smoothing": self.label_smoothing,
            "ignore_class": self.ignore_class,
        }


class _Total(keras.losses.Loss):
    """The sum of numbers, as `y_true`, without those that a mask of `y_pred` hides."""

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return y_true


def _weights(sample_weight: Tensor, labels: Tensor, dtype: Any) -> Tensor:
    """Weights of the labels' shape, from that with a last axis of size 1, or (B,)."""
    weights = ops.convert_to_tensor(sample_weight, dtype)
    if len(weights.shape) == len(labels.shape) + 1 and weights.shape[-1] == 1:
        weights = ops.squeeze(weights, axis=-1)
    more = max(len(labels.shape) - len(weights.shape), 0)
    weights = ops.reshape(weights, (*ops.shape(weights), *(1,) * more))
    return weights * ops.ones(ops.shape(labels), dtype)  # Keras will write into it


def _labels(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """Labels as int32, of the shape of the logits without the classes."""
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
class CoverageLoss(keras.losses.Loss):
    """How much is attended to that has been attended to already.

        Σ_s min(a_ts, c_ts), with c_t = Σ_{i < t} a_i

    A loss of the weights that an attention layer returns, for a model that has them
    among its outputs; it is averaged over queries as Keras averages any loss.

    Call arguments:
        y_true: anything; it does not count. Keras wants an array for each output
            that has a loss, such as zeros of the weights' shape.
        y_pred: the weights a, (B, T, S).

    Returns:
        (B, T), then reduced as `reduction` says.

    Raises:
        ValueError: if the weights are not of rank 3.

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
        if len(y_pred.shape) != 3:
            raise ValueError(
                "`y_pred` must be weights of shape (batch, queries, keys). "
                f"Received: y_pred.shape={tuple(y_pred.shape)}"
            )
        return coverage_cost(y_pred)


@export
class ReinforceLoss(keras.losses.Loss):
    """The loss of labels, with the gradient that teaches choices what they cost.

        value    = L                              of a sample: summed over its labels
        gradient = ∂L + λ (L − b) ∂ Σ log p(choice)

    Averaged over draws it is the gradient of the expected loss. The baseline b, what
    the other samples of the batch cost on average, makes it vary less; it knows nothing
    of the sample's own choices. For a model that ends in `CarryChoices`.

    Args:
        loss: of labels and logits, a categorical cross-entropy of Keras such as
            `SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)`; by
            default the same without `ignore_class`. These do not change if a number is
            added to all logits of a label.
        weight: λ, how much choices count beside all else that is learned.
        baseline: whether to subtract b; without, b = 0.

    Call arguments:
        y_true: as `loss` wants it, (B,) or (B, T), or one-hot.
        y_pred: what `CarryChoices` returned, (B, V) or (B, T, V).
        sample_weight: (B,); labels that do not count are left out by `ignore_class`.

    Returns:
        (B,), then reduced as `reduction` says.

    Raises:
        ValueError: for another loss, or a weight below 0.

    Example:

    >>> import numpy as np
    >>> from keras_attention.losses import ReinforceLoss
    >>> round(float(ReinforceLoss()(np.array([1]), np.zeros((1, 2), "float32"))), 4)
    0.6931

    Reference:
        Xu et al., "Show, attend and tell" (2015), section 4.1, whose baseline is a
        moving average and which rewards entropy, too; the baseline is that of Kool et
        al., "Buy 4 REINFORCE samples, get a baseline for free!" (2019), over a batch.
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
        if isinstance(loss, dict):
            loss = keras.saving.deserialize_keras_object(loss)
        if loss is None:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        if not (isinstance(loss, CATEGORICAL) and loss.from_logits):
            raise ValueError(
                "`loss` must be one of Keras' categorical cross-entropies, with "
                f"from_logits=True. Received: loss={loss!r}"
            )
        if weight < 0:
            raise ValueError(f"`weight` must be at least 0. Received: weight={weight}")
        self.loss = loss
        self.weight = weight
        self.baseline = baseline

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        cost = self.loss.call(y_true, y_pred)  # (B,) or (B, T)
        chosen = ops.logsumexp(y_pred, axis=-1)  # 0, with the gradient of Σ log p
        rest = tuple(range(1, len(chosen.shape)))
        if rest:
            cost, chosen = ops.sum(cost, axis=rest), ops.mean(chosen, axis=rest)
        baseline = choices.leave_one_out(cost) if self.baseline else 0.0
        return choices.reinforce(cost, self.weight * chosen, baseline)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "loss": keras.saving.serialize_keras_object(self.loss),
            "weight": self.weight,
            "baseline": self.baseline,
        }
