"""The controls for a translation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_attention.explore.examples import TASKS


def tab(gr: Any, show: Callable[..., str]) -> tuple[Any, list[Any], Any]:
    """Adds the controls; returns the function, its inputs and its output."""
    gr.Markdown(
        "Type a text. The network writes its translation token by token, and each row "
        "of the table shows which parts of your text it looked at for that token."
    )
    tasks = list(TASKS)
    task = gr.Radio(tasks, value=tasks[0], label="The network")
    text = gr.Textbox(TASKS[tasks[0]].example, label="Text", max_lines=3)
    button = gr.Button("Translate", variant="primary")
    view = gr.HTML()

    def translate(task: str, text: str) -> str:
        return show("translation", task, text)

    def change(task: str) -> tuple[str, str]:
        return TASKS[task].example, translate(task, TASKS[task].example)

    given = [task, text]
    pressed = [button.click, text.submit]
    gr.on(pressed, translate, given, view, api_visibility="private")
    task.input(change, task, [text, view], api_visibility="private")
    return translate, given, view
