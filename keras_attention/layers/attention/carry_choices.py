"""Log-probabilities that carry hard choices to the loss.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value; words of a
vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.serialization import export
from keras_attention.numerics.precision import wide

Tensor = Any


@export
class CarryChoices(keras.layers.Layer):
    """Log-probabilities of classes that bring choices along, for `ReinforceLoss`.

        output = log softmax(logits) + z,    z = Σ log p(choice)

    z counts with its gradient alone, its value is 0. To add a number to all logits of a
    softmax changes neither it nor its gradient, so every other loss and metric of
    logits sees what it always sees; and the logarithm of the sum of exp(output) is z.

    Call arguments:
        logits: (B, V), or (B, ..., V) such as those of each word.
        weights: those that a `HardAttention` with `estimator="reinforce"` returned,
            (B, T, S) or (B, S); or a list of them. All choices of a sample count for
            all of its logits.

    Returns:
        Of the logits' shape, in the compute dtype. It carries no mask: what does not
        count among the labels is for the loss to leave out.

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

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, logits_shape: Any, weights_shape: Any = None) -> None:
        self.built = True

    def call(self, logits: Tensor, weights: Any) -> Tensor:
        logs = wide(logits)
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
