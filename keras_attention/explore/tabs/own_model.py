"""The controls of a visitor's own model."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

from keras_attention.explore.worker import Fields


def tab(
    gr: Any,
    show: Callable[..., str],
    path: pathlib.Path,
    described: tuple[str, Fields] | str,
) -> tuple[Any, list[Any], Any]:
    """Adds the controls; returns the function, its inputs and its output.

    `described` is what `Worker.describe` returned for the file.
    """
    if isinstance(described, str):
        return (lambda: described), [], gr.HTML()
    name, fields = described
    gr.Markdown(
        f"Your model **{name}**, from a file. Type ids for its inputs, with "
        "spaces between them; the page shows what each attention layer attends to."
    )
    with gr.Row():
        with gr.Column(min_width=280):
            inputs = [
                gr.Textbox(example, label=label, lines=lines, max_lines=10)
                for label, example, lines in fields
            ]
            button = gr.Button("Show", variant="primary")
        with gr.Column(min_width=280, scale=2):
            view = gr.HTML()

    def attend(*args: str) -> str:
        return show("own_model", str(path), *args)

    gr.on([button.click], attend, inputs, view, api_visibility="private")
    return attend, inputs, view
