"""The view of a Hopfield network that completes half a digit.

Shapes: S stored patterns, D neurons, K steps.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
from keras import ops

from keras_attention.explore import glyphs, texts
from keras_attention.models import AssociativeMemory
from keras_attention.visualization import View, energy_view

SIZE = glyphs.ROWS * glyphs.COLUMNS
MOST_STEPS = 30
STATES = {"#": 1.0, ".": -1.0, "?": 0.0}  # ink, paper, unknown
HALVES = ("lower half", "upper half", "right half", "left half", "nothing", "all")
_TITLE = "Half a digit, completed"
_CAPTION = (
    "The network stores ten digits. Each step replaces the state by a mean of the "
    "stored digits, weighted by a softmax of β times their likeness: attention. "
    "The energy falls at each step."
)
_DRAWING = pathlib.Path(__file__).parent / "assets" / "drawing.js"
_ON_LOAD = """
const drawing = () => element.querySelector("pattern-drawing");
const show = () => { if (drawing()) drawing().cells = props.value; };
show();
watch("value", show);
element.addEventListener("drawn", (event) => {
  props.value = event.detail;
  trigger("input");
});
"""


def half(digit: int, hidden: str) -> str:
    """Returns a digit with a part that is unknown, as one character per neuron.

    Args:
        digit: from 0 to 9.
        hidden: one of `HALVES`.
    """
    image = glyphs.digits()[digit].copy()
    middle, centre = glyphs.ROWS // 2, glyphs.COLUMNS // 2
    parts = {
        "lower half": np.s_[middle:],
        "upper half": np.s_[:middle],
        "right half": np.s_[:, centre:],
        "left half": np.s_[:, :centre],
        "all": np.s_[:],
    }
    if hidden in parts:
        image[parts[hidden]] = 0.0
    names = {value: name for name, value in STATES.items()}
    return "".join(names[value] for value in image.ravel())


def look(cells: str, beta: float) -> View:
    """Completes a drawing, and shows each step with its energy.

    Args:
        cells: one character per neuron, row by row: "#" ink, "." paper, "?" unknown.
        beta: β, for patterns of length 1.

    Raises:
        InputError: the drawing is empty or damaged, or β is not positive.
    """
    if len(cells or "") != SIZE or set(cells) - {*STATES}:
        raise texts.InputError("The drawing is damaged. Please choose a digit again.")
    query = np.array([STATES[cell] for cell in cells])  # (D,)
    if not query.any():
        raise texts.InputError(
            "Nothing is drawn yet. Please draw a part of a digit, or choose a digit."
        )
    if not beta or beta <= 0:
        raise texts.InputError("β must be above 0.")
    scale = np.sqrt(SIZE)  # patterns of length 1: β does not depend on the size
    patterns = glyphs.digits().reshape(10, SIZE) / scale  # (S, D)
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


def tab(gr: Any) -> tuple[Any, list[Any], Any]:
    """Adds the controls; returns the function, its inputs and its output."""
    gr.Markdown(
        "A Hopfield network stores ten digits. Show it a part of one: choose a digit "
        "and what to hide, or draw. The digits are drawn for this page; they are no "
        "data set."
    )
    with gr.Row():
        with gr.Column(min_width=280):
            with gr.Row():
                digit = gr.Dropdown(
                    [str(n) for n in range(10)], value="3", label="Digit", min_width=90
                )
                hidden = gr.Dropdown(
                    list(HALVES), value=HALVES[0], label="Hide", min_width=140
                )
            drawing = gr.HTML(
                half(3, HALVES[0]),
                html_template=(
                    f'<pattern-drawing rows="{glyphs.ROWS}" '
                    f'columns="{glyphs.COLUMNS}"></pattern-drawing>'
                ),
                js_on_load=_ON_LOAD,
                head=f"<script>{_DRAWING.read_text('utf-8')}</script>",
            )
            beta = gr.Slider(0.5, 40, value=20, step=0.5, label="β")
        with gr.Column(min_width=280, scale=2):
            view = gr.HTML()

    def complete(cells: str, beta: float) -> str:
        return texts.shown(look, cells, beta)

    def choose(digit: str, hidden: str, beta: float) -> tuple[str, str]:
        cells = half(int(digit), hidden)
        return cells, complete(cells, beta)

    private = {"api_visibility": "private", "show_progress": "hidden"}
    chosen = [digit.input, hidden.input]
    gr.on(chosen, choose, [digit, hidden, beta], [drawing, view], **private)
    given = [drawing, beta]
    gr.on([drawing.input, beta.change], complete, given, view, **private)
    return complete, given, view
