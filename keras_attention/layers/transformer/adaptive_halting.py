"""When each position of a recurrence over depth halts.

Shapes: B batch, T positions, D model width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import number
from keras_attention.layers.base.checked import check_usable
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics.precision import to_float32

Tensor = Any


@export
class AdaptiveHalting(Configured, keras.layers.Layer):
    """Computes the probability that a position halts: p = σ(w xₜ + b).

    It is the `halting` of a `DepthRecurrence`. A position halts at the step where the
    sum of its probabilities exceeds the threshold; see `ops.halting.halting_step`.

    Args:
        threshold: 1 − ε, the sum of probabilities above which a position halts.
        ponder_weight: τ, the weight of the ponder cost in the loss. The cost is the
            mean of N + R over all valid positions: the number of steps and the
            remainder.
        initial_bias: the initial b. The default, 1, halts after two steps at first.

    Call arguments:
        inputs: (B, T, D).

    Returns:
        The probabilities (B, T) in the compute dtype.

    Raises:
        ValueError: for a threshold outside (0, 1] or a negative weight.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import AdaptiveHalting
    >>> x = np.zeros((2, 3, 4), "float32")
    >>> tuple(AdaptiveHalting(threshold=0.9)(x).shape)
    (2, 3)

    Reference:
        Graves, "Adaptive computation time for recurrent neural networks" (2016),
        section 2; Dehghani et al., "Universal Transformers" (2019), section 2.2.
    """

    float_inputs = ("inputs",)

    def __init__(
        self,
        threshold: float = 0.99,
        ponder_weight: float = 0.01,
        initial_bias: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if not 0 < number("threshold", threshold) <= 1:
            raise ValueError(
                "`threshold` must be above 0 and at most 1. "
                f"Received: threshold={threshold}"
            )
        self.threshold = threshold
        self.ponder_weight = number("ponder_weight", ponder_weight, least=0)
        self.initial_bias = number("initial_bias", initial_bias)
        self._dense = keras.layers.Dense(
            1,
            bias_initializer=keras.initializers.Constant(initial_bias),
            dtype=self.dtype_policy,
            name="dense",
        )

    def build(self, inputs_shape: Any) -> None:
        self._dense.build(inputs_shape)
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        return ops.cast(self.probability(inputs), self.compute_dtype)

    def probability(self, inputs: Tensor) -> Tensor:
        """Returns the probabilities (B, T) in float32, or float64 if it is computed.

        Their sum is compared with a threshold close to 1, which half precision rounds.

        Args:
            inputs: (B, T, D).

        Raises:
            RuntimeError: if this layer is not built, or the inputs are symbolic.
        """
        check_usable(self, "probability", inputs)
        logits = to_float32(self._dense(inputs))  # (B, T, 1)
        return ops.sigmoid(ops.squeeze(logits, axis=-1))  # (B, T)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape[:-1], self.compute_dtype)


def get(identifier: Any, dtype: Any = None) -> AdaptiveHalting | None:
    """Returns the layer that `halting` names: a layer, its config, a name or None."""
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if identifier == "adaptive":
        return AdaptiveHalting(dtype=dtype, name="halting")
    if identifier is None or isinstance(identifier, AdaptiveHalting):
        return identifier
    raise ValueError(
        "`halting` must be 'adaptive', an `AdaptiveHalting` or None. "
        f"Received: halting={identifier!r}"
    )
