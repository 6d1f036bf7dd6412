"""The controls for a graph and a route."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_attention.explore import examples


def tab(gr: Any, show: Callable[..., str]) -> tuple[Any, list[Any], Any]:
    """Adds the controls; returns the function, its inputs and its output."""
    gr.Markdown(
        "A Differentiable Neural Computer reads a graph, edge by edge, and is then "
        "asked where a route leads. Go through the steps to see what is in its memory, "
        "and where it writes and reads. All names are free."
    )
    with gr.Row():
        with gr.Column(min_width=280):
            edges = gr.Textbox(
                examples.EDGES,
                label="Edges",
                info="One a line: place | line | next place",
                lines=7,
                max_lines=14,
            )
            question = gr.Textbox(
                examples.ROUTES[0][1],
                label="Route",
                info="A place and the lines to take: place | line | line",
                max_lines=2,
            )
            button = gr.Button("Follow the route", variant="primary")
        with gr.Column(min_width=280, scale=2):
            view = gr.HTML()

    def follow(edges: str, question: str) -> str:
        return show("memory", edges, question)

    given = [edges, question]
    gr.Examples(
        [list(example) for example in examples.ROUTES],
        given,
        view,
        follow,
        run_on_click=True,
        cache_examples=False,
        label="Examples",
        api_visibility="private",
    )
    pressed = [button.click, question.submit]
    gr.on(pressed, follow, given, view, api_visibility="private")
    return follow, given, view
