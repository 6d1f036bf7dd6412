"""The plain Keras solution: `keras.layers.RNN` of a cell with a memory.

The cell has the memory and the projected keys as attributes. The outer layer sets them
before the loop. Import this module only after the backend is chosen.

Shapes: B batch, T steps, S keys, D width of an input, U units, V width of a value.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


class MemoryCell(keras.layers.Layer):
    """An LSTM cell with input [xₜ; cₜ]. The query for cₜ is the cell's last output."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lstm = keras.layers.LSTMCell(units)
        self.project_query = keras.layers.Dense(units, use_bias=False)
        self.state_size = self.lstm.state_size
        self.units = units
        self.memory = self.keys = None

    def build(self, input_shape: Any) -> None:
        """Builds for inputs (B, D). The width of the memory equals `units`."""
        self.project_query.build((None, self.units))
        self.lstm.build((None, input_shape[-1] + self.units))
        self.scale = self.add_weight(shape=(self.units,), name="scale")

    def call(self, inputs: Any, states: Any, training: bool | None = None) -> Any:
        """Returns [hₜ; cₜ] (B, U + V) and the LSTM states."""
        query = self.project_query(states[0])  # (B, U)
        hidden = ops.tanh(query[:, None, :] + self.keys)  # (B, S, U)
        weights = ops.softmax(ops.matmul(hidden, self.scale))  # (B, S)
        context = ops.squeeze(ops.matmul(weights[:, None], self.memory), 1)  # (B, V)
        read = ops.concatenate([inputs, context], axis=-1)  # (B, D + V)
        output, states = self.lstm(read, states, training=training)
        return ops.concatenate([output, context], axis=-1), states


class MemoryRNN(keras.layers.Layer):
    """Projects the keys of the memory once and then runs `MemoryCell` in a loop."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cell = MemoryCell(units)
        self.rnn = keras.layers.RNN(self.cell, return_sequences=True)
        self.project_key = keras.layers.Dense(units)

    def build(self, inputs_shape: Any, memory_shape: Any) -> None:
        """Builds for inputs (B, T, D) and a memory (B, S, V)."""
        self.project_key.build(memory_shape)
        self.rnn.build(inputs_shape)

    def call(self, inputs: Any, memory: Any) -> Any:
        """Returns outputs (B, T, U + V)."""
        self.cell.memory = memory
        self.cell.keys = self.project_key(memory)  # (B, S, U)
        return self.rnn(inputs)

    def compute_output_shape(self, inputs_shape: Any, memory_shape: Any) -> Any:
        """Returns (B, T, U + V)."""
        return (*inputs_shape[:-1], self.cell.units + memory_shape[-1])


class CellAlone(keras.layers.Layer):
    """Runs only the LSTM cell of AttentionRNN, in the same loop.

    The inputs xₜ are replaced with [xₜ; xₜ], which has the width of [xₜ; cₜ].
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cell = keras.layers.LSTMCell(units)

    def build(self, inputs_shape: Any, memory_shape: Any) -> None:
        """Builds for inputs (B, T, D) and the width V of the memory (B, S, V)."""
        self.cell.build((None, inputs_shape[-1] + memory_shape[-1]))

    def call(self, inputs: Any, memory: Any) -> Any:
        """Returns outputs (B, T, U)."""
        from keras_attention.ops.sequence import loop

        read = ops.concatenate([inputs, inputs], axis=-1)  # (B, T, 2·D)
        start = self.cell.get_initial_state(ops.shape(inputs)[0])
        _, outputs = loop.scan(
            lambda state, x: self.cell(x, state)[::-1], start, ops.swapaxes(read, 0, 1)
        )
        return ops.swapaxes(outputs, 0, 1)

    def compute_output_shape(self, inputs_shape: Any, memory_shape: Any) -> Any:
        """Returns (B, T, U)."""
        return (*inputs_shape[:-1], self.cell.units)
