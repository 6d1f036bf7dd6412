"""The controls of the first tab: a story and a question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_attention.explore import examples


def tab(gr: Any, show: Callable[..., str]) -> tuple[Any, list[Any], Any]:
    """Adds the controls; returns the function, its inputs and its output."""
    gr.Markdown(
        "Write a story, one sentence a line, and ask a question about it. A memory "
        "network answers. It knows the small world of the bAbI stories: people who "
        "walk, take, drop and give things."
    )
    with gr.Row():
        with gr.Column(min_width=280):
            story = gr.Textbox(
                examples.STORIES[0][0], label="Story", lines=6, max_lines=14
            )
            question = gr.Textbox(examples.STORIES[0][1], label="Question", max_lines=1)
            button = gr.Button("Answer", variant="primary")
        with gr.Column(min_width=280, scale=2):
            view = gr.HTML()

    def answer(story: str, question: str) -> str:
        return show("story", story, question)

    gr.Examples(
        [list(example) for example in examples.STORIES],
        [story, question],
        view,
        answer,
        run_on_click=True,
        cache_examples=False,
        label="Examples",
        api_visibility="private",
    )
    given = [story, question]
    gr.on(
        [button.click, question.submit], answer, given, view, api_visibility="private"
    )
    return answer, given, view
