"""Learning rate schedules that Keras does not provide."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import arguments_of, export

__all__ = ["WarmupInverseSqrt"]
__dir__ = __all__.copy


@export
class WarmupInverseSqrt(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warmup, followed by decay with the inverse square root of the step.

        rate(n) = scale · D^(−1/2) · min(n^(−1/2), n · warmup_steps^(−3/2))

    n counts from 1, so the first rate is positive. The rate peaks at `warmup_steps`.

    Args:
        dim: D, the width of the model.
        warmup_steps: the number of warmup steps.
        scale: a factor for the rate; 1 in the paper.

    Call arguments:
        step: the step of the optimizer, counted from 0.

    Returns:
        The learning rate, a float32 scalar.

    Raises:
        ValueError: if `dim` or `warmup_steps` is below 1, or `scale` is not positive.

    Example:

    >>> import keras
    >>> from keras_attention.schedules import WarmupInverseSqrt
    >>> rate = WarmupInverseSqrt(dim=64, warmup_steps=100)
    >>> optimizer = keras.optimizers.Adam(rate, beta_2=0.98, epsilon=1e-9)
    >>> [round(float(rate(step)), 6) for step in (0, 99, 399)]
    [0.000125, 0.0125, 0.00625]

    Reference:
        Vaswani et al., "Attention is all you need" (2017), section 5.3, equation 3.
    """

    def __init__(self, dim: int, warmup_steps: int = 4000, scale: float = 1.0) -> None:
        super().__init__()
        self.dim = positive("dim", dim)
        self.warmup_steps = positive("warmup_steps", warmup_steps)
        if not scale > 0:
            raise ValueError(f"`scale` must be positive. Received: scale={scale}")
        self.scale = scale

    def __call__(self, step: Any) -> Any:
        n = ops.cast(step, "float32") + 1.0
        rising = n * self.warmup_steps**-1.5
        return self.scale * self.dim**-0.5 * ops.minimum(ops.rsqrt(n), rising)

    def get_config(self) -> dict[str, Any]:
        return arguments_of(self)
