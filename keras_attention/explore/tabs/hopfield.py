"""The controls for half a digit."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

from keras_attention.explore import glyphs

_DRAWING = pathlib.Path(__file__).parents[1] / "assets" / "drawing.js"
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


def tab(gr: Any, show: Callable[..., str]) -> tuple[Any, list[Any], Any]:
    """Adds the controls; returns the function, its inputs and its output."""
    gr.Markdown(
        "A Hopfield network stores ten digits. Show it a part of one: choose a digit "
        "and what to hide, or draw. The digits are drawn for this page; they are no "
        "data set. Paper: [Ramsauer et al., 2021](https://arxiv.org/abs/2008.02217). "
        "Guide: `docs/guides/hopfield.md`."
    )
    with gr.Row():
        with gr.Column(min_width=280):
            with gr.Row():
                digit = gr.Dropdown(
                    [str(n) for n in range(10)], value="3", label="Digit", min_width=90
                )
                hidden = gr.Dropdown(
                    list(glyphs.HALVES),
                    value=glyphs.HALVES[0],
                    label="Hide",
                    min_width=140,
                )
            drawing = gr.HTML(
                glyphs.half(3, glyphs.HALVES[0]),
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
        return show("hopfield", cells, beta)

    def choose(digit: str, hidden: str, beta: float) -> tuple[str, str]:
        cells = glyphs.half(int(digit), hidden)
        return cells, complete(cells, beta)

    private = {"api_visibility": "private", "show_progress": "hidden"}
    gr.Examples(
        [["3", "lower half", 20], ["8", "left half", 20], ["8", "left half", 2]],
        [digit, hidden, beta],
        [drawing, view],
        choose,
        run_on_click=True,
        cache_examples=False,
        label="Examples",
        api_visibility="private",
    )
    chosen = [digit.input, hidden.input]
    gr.on(chosen, choose, [digit, hidden, beta], [drawing, view], **private)
    inputs = [drawing, beta]
    gr.on([drawing.input, beta.change], complete, inputs, view, **private)
    return complete, inputs, view
