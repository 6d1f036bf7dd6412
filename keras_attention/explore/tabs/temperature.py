"""The controls for the words of the softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_attention.explore import examples


def tab(gr: Any, show: Callable[..., str]) -> tuple[Any, list[Any], Any]:
    """Adds the controls; returns the function, its inputs and its output."""
    gr.Markdown(
        "Write a few words. The bars show the attention of one of them to all others. "
        "Drag β, the temperature and the number of heads to see what each does."
    )
    text = gr.Textbox(examples.WORDS, label="Words", max_lines=3)
    button = gr.Button("Show", variant="primary")
    view = gr.HTML()

    def compare(text: str) -> str:
        return show("temperature", text)

    gr.on([button.click, text.submit], compare, text, view, api_visibility="private")
    return compare, [text], view
