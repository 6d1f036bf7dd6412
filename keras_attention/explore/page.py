"""The page: a tab for each view, served on this computer alone."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from functools import partial
from typing import Any

from keras_attention.explore.gradio import gradio_or_error
from keras_attention.explore.tabs import forms, hopfield, own_model
from keras_attention.explore.worker import Worker
from keras_attention.visualization.html import page as html_page

TABS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("Story", forms.STORY.tab),
    ("Sentence", forms.SENTENCE.tab),
    ("Translation", forms.TRANSLATION.tab),
    ("Hopfield", hopfield.tab),
    ("Memory", forms.MEMORY.tab),
    ("Softmax", forms.SOFTMAX.tab),
)
INTRO = (
    "# Look inside attention\n"
    "Small trained networks that you can play with. Nothing leaves this computer."
)
LOADING = "<p>The networks are loading. The first view appears in a few seconds.</p>"
_ASSETS = pathlib.Path(__file__).parent / "assets"
_SYSTEM = ("system-ui", "sans-serif")


def build(worker: Worker, model: pathlib.Path | None = None) -> Any:
    """Builds the page, a `gradio.Blocks`, with a tab for a `.keras` file if given."""
    gr = gradio_or_error()
    with gr.Blocks(title="keras_attention", analytics_enabled=False) as blocks:
        gr.Markdown(INTRO)
        with gr.Tabs():
            tabs = [*TABS]
            if model is not None:
                described = worker.describe(model)
                yours = partial(own_model.tab, path=model, described=described)
                tabs.insert(0, ("Your model", yours))
            for number, (name, add) in enumerate(tabs):
                with gr.Tab(name) as tab:
                    first, inputs, output = add(gr, worker.show)
                # The first view is computed when the page opens, the others when
                # their tabs do. The first one waits for the networks, which the page
                # says in place of Gradio's clock.
                private = {"api_visibility": "private"}
                if number == 0:
                    output.value = LOADING
                    hidden = {"show_progress": "hidden", "queue": False, **private}
                    blocks.load(first, inputs, output, **hidden)
                else:
                    tab.select(first, inputs, output, **private)
    return blocks


def appearance() -> dict[str, Any]:
    """Returns the theme, the styles and the scripts, for `Blocks.launch`."""
    gr = gradio_or_error()
    theme = gr.themes.Default(
        primary_hue="blue", font=_SYSTEM, font_mono=("ui-monospace", "monospace")
    )
    template = json.dumps(html_page.template()).replace("<", "\\u003c")
    head = (
        '<script type="application/json" id="attention-view-template">'
        f"{template}</script>\n<script>{html_page.script()}</script>"
    )
    return {
        "theme": theme,
        "css": (_ASSETS / "page.css").read_text("utf-8"),
        "head": head,
    }


def launch(
    worker: Worker,
    model: pathlib.Path | None = None,
    port: int | None = None,
    browser: bool = False,
    wait: bool = True,
) -> str:
    """Serves the page at 127.0.0.1 and returns its address.

    Without a port, it takes the first free one from 7860. With `wait`, it serves until
    the process is interrupted.

    Raises:
        OSError: the port is in use.
        StartError: the worker could not start.
    """
    blocks = build(worker, model)
    worker.check()
    _, address, _ = blocks.launch(
        server_name="127.0.0.1",
        server_port=port,
        inbrowser=browser,
        share=False,
        quiet=True,
        prevent_thread_lock=True,
        ssr_mode=False,
        footer_links=[],
        max_file_size="1mb",
        **appearance(),
    )
    print(f"Open {address} in a browser. Ctrl-C stops the page.", flush=True)
    if wait:
        blocks.block_thread()
    return address
