"""Passes the log-probabilities of hard choices to the loss.

Shapes: B batch, T queries, S keys, V classes (for example the words of a vocabulary).
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.checked import Checked
from keras_attention.layers.base.serialization import export
from keras_attention.numerics.precision import to_float32

Tensor = Any


@export
class CarryChoices(Checked, keras.layers.Layer):
    """Adds the log-probabilities of hard choices to logits, for `ReinforceLoss`.

        output = log softmax(logits) + z,    z = Σ log p(choice)

    z contributes only its gradient; its value is 0. A constant added to all logits
    changes neither the softmax nor its gradient, so other losses and metrics do not
    change. `ReinforceLoss` recovers z as log Σ exp(output).

    Call arguments:
        logits: (B, V), or (B, ..., V), for example one row per word.
        weights: the weights (B, T, S) or (B, S) returned by a `HardAttention` with
            `estimator="reinforce"`, or a list of such weights. All choices of a sample
            apply to all logits of the sample.

    Returns:
        A tensor with the shape of the logits, in the compute dtype. It carries no mask:
        the loss must ignore masked labels itself.

    Example:

    >>> import keras
    >>> from keras_attention.layers import CarryChoices, HardAttention
    >>> from keras_attention.losses import ReinforceLoss
    >>> q, v = keras.Input((7,)), keras.Input((5, 11))
    >>> found, weights = HardAttention(units=13, estimator="reinforce")(
    ...     q, v, return_attention_scores=True)
    >>> output = CarryChoices()(keras.layers.Dense(3)(found), weights)
    >>> keras.Model([q, v], output).compile("adam", ReinforceLoss())
    """

    input_ranks: ClassVar[Any] = {"logits": (2, 9)}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, logits_shape: Any, weights_shape: Any = None) -> None:
        self.built = True

    def call(self, logits: Tensor, weights: Any) -> Tensor:
        logs = to_float32(logits)
        logs = logs - ops.logsumexp(logs, axis=-1, keepdims=True)
        given = weights if isinstance(weights, (list, tuple)) else [weights]
        for one in given:
            full = ops.cast(one, logs.dtype)
            chosen = ops.sum(full, axis=tuple(range(1, len(full.shape))))  # (B,)
            chosen = chosen - ops.stop_gradient(chosen)
            logs = logs + ops.reshape(chosen, (-1,) + (1,) * (len(logs.shape) - 1))
        return ops.cast(logs, self.compute_dtype)

    def compute_output_spec(self, logits: Tensor, weights: Any) -> keras.KerasTensor:
        return keras.KerasTensor(logits.shape, self.compute_dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None
