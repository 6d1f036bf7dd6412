"""The penalty of an `ImageCaptioner` for locations that a caption did not attend to.

Shapes: B batch, S locations of an image, T words of a caption, H heads.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.models.recurrent.token_decoder import average_heads

Tensor = Any


class DoublyStochastic(keras.layers.Layer):
    """Adds λ Σᵢ (1 − Σₜ αₜᵢ)² to the loss (equation 14).

    Args:
        weight: λ, the weight of the penalty.

    Call arguments:
        found: a tensor that the layer returns unchanged.
        weights: α, (B, T, S) or (B, H, T, S).
        target: integers (B, T), 0 is padding.
        mask: booleans (B, S), True for locations that are not blank.
    """

    def __init__(self, weight: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.weight = weight

    def call(
        self, found: Tensor, weights: Tensor, target: Tensor, mask: Tensor
    ) -> Tensor:
        weights = average_heads(ops.cast(weights, "float32"), 3)  # (B, T, S)
        written = ops.cast(ops.not_equal(target, 0), "float32")[..., None]  # (B, T, 1)
        attended = ops.sum(weights * written, axis=1)  # (B, S)
        lacking = ops.where(mask, (1.0 - attended) ** 2, ops.zeros_like(attended))
        self.add_loss(self.weight * ops.mean(ops.sum(lacking, axis=1)))
        return found

    def compute_output_spec(self, found: Any, *others: Any) -> Any:
        return keras.KerasTensor(found.shape, self.compute_dtype)
