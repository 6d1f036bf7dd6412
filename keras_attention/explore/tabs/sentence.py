"""The controls for a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_attention.explore.examples import READERS


def tab(gr: Any, show: Callable[..., str]) -> tuple[Any, list[Any], Any]:
    """Adds the controls; returns the function, its inputs and its output."""
    gr.Markdown(
        "Type a sentence, then point at a word: the other words show how much it "
        "attends to them, in each layer and head of a small language model."
    )
    kinds = list(READERS)
    kind = gr.Radio(kinds, value=kinds[0], label="The network")
    text = gr.Textbox(READERS[kinds[0]].example, label="Sentence", max_lines=3)
    button = gr.Button("Read", variant="primary")
    view = gr.HTML()

    def read(kind: str, text: str) -> str:
        return show("sentence", kind, text)

    def change(kind: str) -> tuple[str, str]:
        example = READERS[kind].example
        return example, read(kind, example)

    given = [kind, text]
    gr.on([button.click, text.submit], read, given, view, api_visibility="private")
    kind.input(change, kind, [text, view], api_visibility="private")
    return read, given, view
