"""The view of a Hopfield network that completes half a digit.

Shapes: S stored patterns, D neurons, K steps.
"""

from __future__ import annotations

import numpy as np
from keras import ops

from keras_attention.explore import glyphs
from keras_attention.explore.views import texts
from keras_attention.models import AssociativeMemory
from keras_attention.visualization import View, energy_view

MOST_STEPS = 30
_TITLE = "Half a digit, completed"
_CAPTION = (
    "The network stores ten digits. Each step replaces the state by a mean of the "
    "stored digits, weighted by a softmax of β times their likeness: attention. "
    "The energy falls at each step."
)


def look(cells: str, beta: float) -> View:
    """Completes a drawing, and shows each step with its energy.

    The drawing has one character per neuron, row by row: "#" ink, "." paper, "?"
    unknown.

    Raises:
        InputError: the drawing is empty or damaged, or β is not positive.
    """
    if len(cells or "") != glyphs.SIZE or set(cells) - {*glyphs.STATES}:
        raise texts.InputError("The drawing is damaged. Please choose a digit again.")
    query = np.array([glyphs.STATES[cell] for cell in cells])  # (D,)
    if not query.any():
        raise texts.InputError(
            "Nothing is drawn yet. Please draw a part of a digit, or choose a digit."
        )
    if not beta or beta <= 0:
        raise texts.InputError("β must be above 0.")
    scale = np.sqrt(glyphs.SIZE)  # patterns of length 1: β does not depend on the size
    patterns = glyphs.digits().reshape(10, glyphs.SIZE) / scale  # (S, D)
    memory = AssociativeMemory(beta=float(beta))
    memory.store(patterns)
    _, trajectory = memory.retrieve(
        query[None] / scale, max_steps=MOST_STEPS, return_trajectory=True
    )
    states = trajectory.states[:, 0]  # (K + 1, D)
    scores = ops.convert_to_tensor(beta * states @ patterns.T, "float32")
    weights = ops.convert_to_numpy(ops.softmax(scores))  # (K + 1, S)
    shape = (-1, glyphs.ROWS, glyphs.COLUMNS)
    return energy_view(
        (states * scale).reshape(shape),
        trajectory.energies[:, 0],
        glyphs.digits(),
        weights,
        [str(digit) for digit in range(10)],
        title=_TITLE,
        caption=f"{_CAPTION} Here β is {beta:g}.",
    )
