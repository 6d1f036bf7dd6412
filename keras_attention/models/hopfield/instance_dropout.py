"""Dropout of whole instances of a bag.

Shapes: B batch, S instances of a bag, F features of an instance, D width, C classes.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base import sampling
from keras_attention.layers.base.arguments import fraction
from keras_attention.layers.base.serialization import export

Tensor = Any


@export
class InstanceDropout(keras.layers.Layer):
    """Drops random members of a set during training, but never all of them.

    Args:
        rate: the fraction of members to drop, in [0, 1).

    Call arguments:
        mask: booleans (B, S), True for valid members.
        training: whether to drop members.

    Returns:
        Booleans (B, S), True for the members that are kept.
    """

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = fraction("instance_dropout", rate)
        self.seed_generator = keras.random.SeedGenerator()
        self.built = True

    def call(self, mask: Tensor, training: bool | None = None) -> Tensor:
        if not training or not self.rate:
            return mask
        samples = sampling.uniform(ops.shape(mask), self.seed_generator)
        samples = ops.where(mask, samples, -1.0)  # (B, S)
        # Not `initial=-1`: on torch, Keras reads it back from the device.
        least = ops.pad(samples, [(0, 0), (0, 1)], constant_values=-1.0)
        most = ops.max(least, axis=1, keepdims=True)
        stays = ops.logical_or(samples >= self.rate, samples == most)
        return ops.logical_and(mask, stays)

    def compute_output_spec(
        self, mask: Tensor, training: bool | None = None
    ) -> keras.KerasTensor:
        return keras.KerasTensor(mask.shape, "bool")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate}
