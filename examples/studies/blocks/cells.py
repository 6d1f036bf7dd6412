"""A feedforward controller, and initial weights with which it looks up letters.

Shapes: B batch, D width of an input, R read heads, W word width, U units.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import layers
from keras_attention.kernels.memory_step.reference import interface_widths

# The initial biases of parts of the interface: sharp lookups, gates that write to free
# slots and do not free them, and reads by content.
BIASES = {
    "read_strengths": 8.0,
    # Even little of the first word in every slot would make all slots similar to it.
    "allocation_gate": 8.0,
    "write_gate": 3.0,
    "free_gates": -3.0,
}
CONTENT = 2.0  # the initial bias of the content mode of reads
GO = -4.0  # the initial effect of the go cue on the write gate


@keras.saving.register_keras_serializable(package="studies")
class FeedforwardCell(keras.layers.Layer):
    """A controller without a state of its own.

        h = [relu(W [x; r] + b); x]

    The memory and the read vectors are then all that a DNC remembers. Graves et al.
    (2016) use such a controller in Extended Data Fig. 1 and 4. A `DNCCell` requires a
    state, so there is one of width 1 that stays 0.

    Args:
        units: the number of hidden units.
        bypass: D, the width of x; the input of the cell is [x; r].

    Call arguments:
        inputs: (B, D + R W).
        states: a list with one tensor (B, 1).

    Returns:
        The output (B, units + D), and `states`.
    """

    def __init__(self, units: int, bypass: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units, self.bypass = units, bypass
        self.state_size, self.output_size = [1], units + bypass
        self.dense = keras.layers.Dense(units, activation="relu", name="hidden")

    def build(self, input_shape: Any) -> None:
        self.dense.build(input_shape)
        self.built = True

    def call(self, inputs: Any, states: Any, training: bool | None = None) -> Any:
        bypass = inputs[..., : self.bypass]
        return ops.concatenate([self.dense(inputs), bypass], -1), states

    def get_config(self) -> dict[str, Any]:
        sizes = {"units": self.units, "bypass": self.bypass}
        return {**super().get_config(), **sizes}


def start_as_lookup(
    cell: layers.DNCCell, head: keras.layers.Dense, letter_width: int
) -> None:
    """Sets initial weights with which reads find what was written with a letter.

    The first elements of a written word start as the letter of the constraint, and
    those of the read keys as the letter of the question. A read then finds the slots
    that were written with the letter of the question. The other elements of a word are
    a random function of the constraint. Constraints are written to free slots, and the
    go cue closes the write gate. Letters have no other effect at first. All weights
    remain trainable. Trockman & Kolter (2023) start the queries and keys of
    Transformers in a similar way.

    Args:
        cell: a built cell with a `FeedforwardCell`.
        head: the layer after the cell. Its inputs begin with the hidden units of the
            controller and the read vectors.
        letter_width: the width of the embedded letters, the first parts of x: that of
            the constraint, then that of the question. The last element of the bypassed
            part of x is the go cue.
    """
    sizes = cell.word_width, cell.read_heads, cell.write_heads
    widths = interface_widths(*sizes, cell.options)
    at, start = {}, 0
    for name, width in widths._asdict().items():
        at[name] = slice(start, start + width)
        start += width
    kernel, bias = (np.array(w) for w in cell.interface.get_weights())
    hidden = cell.cell.units
    stated = slice(hidden, hidden + letter_width)
    asked = slice(stated.stop, stated.stop + letter_width)
    words = at["read_strengths"].start  # the keys and the values come first
    kernel[hidden:, words:] = 0
    kernel[:, at["allocation_gate"]] = 0
    kernel[-1, at["write_gate"]] = GO
    letters = np.eye(letter_width)
    values = at["values"].start
    kernel[hidden:, values : values + letter_width] = 0
    kernel[stated, values : values + letter_width] = letters
    keys = kernel[:, at["read_keys"]].reshape(len(kernel), cell.read_heads, -1)
    keys[hidden:] = 0
    keys[asked, :, :letter_width] = letters[:, None]
    kernel[:, at["read_keys"]] = keys.reshape(len(kernel), -1)
    for name, value in BIASES.items():
        bias[at[name]] = value
    if cell.links:
        modes = bias[at["modes"]].reshape(cell.read_heads, -1)
        modes[:, cell.write_heads] = CONTENT
    cell.interface.set_weights([kernel, bias])
    read = np.arange(cell.read_width).reshape(cell.read_heads, -1)[:, :letter_width]
    unused = {
        cell.cell.dense: [*range(2 * letter_width), *(cell.cell.bypass + read).flat],
        head: [*(hidden + read).flat],
    }
    for layer, rows in unused.items():
        kernel, bias = (np.array(w) for w in layer.get_weights())
        kernel[rows] = 0
        layer.set_weights([kernel, bias])
