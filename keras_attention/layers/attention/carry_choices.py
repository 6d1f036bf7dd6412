"""Passes the log-probabilities of hard choices to the loss.

Shapes: B batch, T queries, S keys, V classes (for example the words of a vocabulary).
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import one_of
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics.precision import to_float32

Tensor = Any
CREDITS = ("all", "later", "own")


@export
class CarryChoices(Configured, keras.layers.Layer):
    """Adds the log-probabilities of hard choices to logits, for `ReinforceLoss`.

        output = log softmax(logits) + z,    z = Σ log p(choice)

    z contributes only its gradient; its value is 0. A constant added to all logits
    changes neither the softmax nor its gradient, so other losses and metrics do not
    change. `ReinforceLoss` recovers z as log Σ exp(output).

    Args:
        credit: the choices in z. "all": all choices of the sample. "later": for the
            logits at step t, the choices of the steps 1 … t. The choice of a step is
            then credited only with the losses of its own and later steps. "own": for
            the logits at step t, the choice of step t. Use "later" if a choice does not
            affect earlier logits, and "own" if it affects only the logits of its step.
            Each leaves out terms with the mean 0, so the gradient of the loss has the
            same mean and usually a smaller variance.

    Call arguments:
        logits: (B, V), or (B, ..., V), for example one row per word; (B, T, V) if
            `credit` is "later" or "own".
        weights: the weights (B, T, S) or (B, S) returned by a `HardAttention` with
            `estimator="reinforce"`, or a list of such weights.

    Returns:
        A tensor with the shape of the logits, in the compute dtype. It carries no mask:
        the loss must ignore masked labels itself.

    Raises:
        ValueError: for an unknown `credit`, or shapes that do not fit it.

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

    def __init__(self, credit: str = "all", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.credit = one_of("credit", credit, CREDITS)
        self.supports_masking = True

    def build(self, logits_shape: Any, weights_shape: Any = None) -> None:
        self.built = True

    def call(self, logits: Tensor, weights: Any) -> Tensor:
        logs = to_float32(logits)
        logs = logs - ops.logsumexp(logs, axis=-1, keepdims=True)
        every = weights if isinstance(weights, (list, tuple)) else [weights]
        for choice in every:
            full = ops.cast(choice, logs.dtype)
            if self.credit == "all":
                chosen = ops.sum(full, axis=tuple(range(1, len(full.shape))))  # (B,)
                chosen = ops.reshape(chosen, (-1,) + (1,) * (len(logs.shape) - 1))
            else:
                self._check_steps(logits, choice)
                chosen = ops.sum(full, axis=-1, keepdims=True)  # (B, T, 1)
                if self.credit == "later":
                    chosen = ops.cumsum(chosen, axis=1)
            logs = logs + (chosen - ops.stop_gradient(chosen))
        return ops.cast(logs, self.compute_dtype)

    def _check_steps(self, logits: Tensor, weights: Tensor) -> None:
        """Raises a ValueError unless each row of logits belongs to one query."""
        shapes = tuple(logits.shape), tuple(weights.shape)
        steps = [shape[1] for shape in shapes if isinstance(shape[1], int)]
        if [len(shape) for shape in shapes] != [3, 3] or len({*steps}) > 1:
            raise ValueError(
                f"With credit={self.credit!r}, `logits` must have the shape (batch, "
                "steps, classes), and `weights` (batch, steps, keys). Received: "
                f"logits.shape={shapes[0]}, weights.shape={shapes[1]}"
            )

    def compute_output_spec(self, logits: Tensor, weights: Any) -> keras.KerasTensor:
        return keras.KerasTensor(logits.shape, self.compute_dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None
