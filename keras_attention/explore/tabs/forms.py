"""The controls of the views of texts: text boxes, a button, examples or networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from keras_attention.explore import examples


class Form(NamedTuple):
    """The controls of a view.

    Attributes:
        view: the name of the view's file in `explore/views/`.
        intro: what the tab tells first.
        boxes: the arguments of each text box.
        button: the label of the button.
        examples: values of all controls: the label of a network, if there are several,
            and the texts of the boxes.
        networks: networks to choose from, by their label; the last box begins with the
            first example of the network.
        beside: the view stands beside the boxes, not below them.
    """

    view: str
    intro: str
    boxes: list[dict[str, Any]]
    button: str
    examples: Sequence[tuple[str, ...]]
    networks: Mapping[str, Any] | None = None
    beside: bool = False

    def tab(self, gr: Any, show: Callable[..., str]) -> tuple[Any, list[Any], Any]:
        """Adds the controls; returns the function, its inputs and its output."""
        private = {"api_visibility": "private"}
        beside = self.beside
        gr.Markdown(self.intro)
        inputs = []
        with gr.Row() if beside else nullcontext():
            with gr.Column(min_width=280) if beside else nullcontext():
                if self.networks:
                    labels = list(self.networks)
                    network = gr.Radio(labels, value=labels[0], label="The network")
                    inputs.append(network)
                inputs += [gr.Textbox(**box) for box in self.boxes]
                button = gr.Button(self.button, variant="primary")
            with gr.Column(min_width=280, scale=2) if beside else nullcontext():
                view = gr.HTML()

        def compute(*texts: str) -> str:
            return show(self.view, *texts)

        gr.Examples(
            [list(example) for example in self.examples],
            inputs,
            view,
            compute,
            run_on_click=True,
            cache_examples=False,
            label="Examples",
            **private,
        )
        text = inputs[-1]
        gr.on([button.click, text.submit], compute, inputs, view, **private)
        if self.networks:
            first = {label: text for label, text, *_ in reversed(self.examples)}

            def change(label: str) -> tuple[str, str]:
                return first[label], compute(label, first[label])

            network.input(change, network, [text, view], **private)
        return compute, inputs, view


STORY = Form(
    "story",
    "Write a story, one sentence a line, and ask a question about it. A memory "
    "network answers. It knows the small world of the bAbI stories: people who "
    "walk, take, drop and give things. "
    "Paper: [Sukhbaatar et al., 2015](https://arxiv.org/abs/1503.08895). "
    "Guide: `docs/guides/memory-networks.md`.",
    [
        {
            "value": examples.STORIES[0][0],
            "label": "Story",
            "lines": 6,
            "max_lines": 14,
        },
        {"value": examples.STORIES[0][1], "label": "Question", "max_lines": 1},
    ],
    "Answer",
    examples=examples.STORIES,
    beside=True,
)
SENTENCE = Form(
    "sentence",
    "Type a sentence, then point at a word: the other words show how much it "
    "attends to them, in each layer and head of a small language model. "
    "Paper: [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762). "
    "Guide: `docs/guides/language-model.md`.",
    [{"value": examples.SENTENCES[0][1], "label": "Sentence", "max_lines": 3}],
    "Read",
    examples=examples.SENTENCES,
    networks=examples.READERS,
)
TRANSLATION = Form(
    "translation",
    "Type a text. The network writes its translation token by token, and each row "
    "of the table shows which parts of your text it looked at for that token. "
    "Paper: [Bahdanau et al., 2014](https://arxiv.org/abs/1409.0473). "
    "Guide: `docs/guides/translate.md`.",
    [{"value": examples.TEXTS[0][1], "label": "Text", "max_lines": 3}],
    "Translate",
    examples=examples.TEXTS,
    networks=examples.TASKS,
)
MEMORY = Form(
    "memory",
    "A Differentiable Neural Computer reads a graph, edge by edge, and is then "
    "asked where a route leads. Go through the steps to see what is in its memory, "
    "and where it writes and reads. All names are free. "
    "Paper: [Graves et al., 2016](https://doi.org/10.1038/nature20101). "
    "Guide: `docs/guides/dnc.md`.",
    [
        {
            "value": examples.EDGES,
            "label": "Edges",
            "info": "One a line: place | line | next place",
            "lines": 7,
            "max_lines": 14,
        },
        {
            "value": examples.ROUTES[0][1],
            "label": "Route",
            "info": "A place and the lines to take: place | line | line",
            "max_lines": 2,
        },
    ],
    "Follow the route",
    examples=examples.ROUTES,
    beside=True,
)
SOFTMAX = Form(
    "temperature",
    "Write a few words. The bars show the attention of one of them to all others. "
    "Drag β, the temperature and the number of heads to see what each does. "
    "Guide: `docs/guides/dot-products.md`.",
    [{"value": examples.WORD_LISTS[0], "label": "Words", "max_lines": 3}],
    "Show",
    examples=[(words,) for words in examples.WORD_LISTS],
)
