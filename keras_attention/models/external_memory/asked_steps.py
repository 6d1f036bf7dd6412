"""Selects the steps of a sequence at which a network answers.

Shapes: B batch, T steps, D input width, V outputs, M memory slots.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.serialization import export

Tensor = Any


@export
class AskedSteps(keras.layers.Layer):
    """Returns the answers at the answer steps, and 0 at all other steps.

    Call arguments:
        inputs: a list of answers (B, T, V) and booleans (B, T), True at the answer
            steps.

    Returns:
        (B, T, V), with the booleans as its mask.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.built = True

    def call(self, inputs: list[Tensor]) -> Tensor:
        answers, answer_mask = inputs
        return ops.where(
            ops.expand_dims(answer_mask, 2), answers, ops.zeros_like(answers)
        )

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return inputs[1]

    def compute_output_spec(self, inputs: list[Any]) -> keras.KerasTensor:
        return keras.KerasTensor(inputs[0].shape, self.compute_dtype)
