"""A controller whose output is followed by its inputs."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.serialization import Configured, export


@export
class WithInputs(Configured, keras.layers.Layer):
    """A cell whose output is followed by its inputs.

    As a controller, it gives the interface and the answers a linear path from the
    inputs and the last read vectors, besides the cell.

    Args:
        cell: a Keras cell.
        width: the width of the inputs.
    """

    def __init__(self, cell: Any, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cell, self.width = cell, width
        self.state_size = cell.state_size
        self.output_size = cell.units + width

    def build(self, input_shape: Any) -> None:
        if not self.cell.built:
            self.cell.build(input_shape)
        self.built = True

    def call(self, inputs: Any, states: Any) -> Any:
        output, states = self.cell(inputs, states)
        return ops.concatenate([output, inputs], axis=-1), states

    def get_initial_state(self, batch_size: Any = None) -> Any:
        return self.cell.get_initial_state(batch_size=batch_size)
