"""The view of a translation: which source words each target word attends to.

Shapes: S source tokens, T target tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from keras_attention import record_attention
from keras_attention.explore import texts
from keras_attention.explore.networks import network
from keras_attention.visualization import View, alignment_view


class Task(NamedTuple):
    """A network that writes one text from another.

    Attributes:
        preset: the name of the shipped network.
        source: the name of what it reads.
        target: the name of what it writes.
        example: a text to read.
    """

    preset: str
    source: str
    target: str
    example: str


TASKS = {
    "Dutch to English (Transformer)": Task(
        "transformer_nl_en", "Dutch", "English", "Ik heb een grote hond in mijn huis."
    ),
    "dates (recurrent, Bahdanau's attention)": Task(
        "seq2seq_dates", "date", "ISO date", "12 March 2024"
    ),
}
_TITLE = "Where does the network look while it writes?"


def look(task: str, text: str, model: Any = None) -> View:
    """Translates a text, and shows the attention of each written token.

    Args:
        task: a key of `TASKS`.
        text: the text to translate.
        model: a `Transformer` or `Seq2Seq` with its preprocessor; by default the
            shipped one.

    Raises:
        InputError: the text is empty or too long.
    """
    texts.words_of("a text", text)
    chosen = TASKS[task]
    model = network(chosen.preset) if model is None else model
    tools = model.preprocessor
    written = model.translate(text)
    inputs = tools.encode_pair(text, written)
    source, target = (tools.tokens(inputs[name][0]) for name in ("source", "target"))
    with record_attention() as maps:
        model(inputs, training=False)
    crossed = [w for name, w in maps.items() if "self_attention" not in name]
    return alignment_view(
        {f"layer {n}": weights[0] for n, weights in enumerate(crossed, 1)},
        target,
        source,
        chosen.target,
        chosen.source,
        written,
        text.strip(),
        title=_TITLE,
    )


def tab(gr: Any) -> tuple[Any, list[Any], Any]:
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
        return texts.shown(look, task, text)

    def change(task: str) -> tuple[str, str]:
        return TASKS[task].example, translate(task, TASKS[task].example)

    given = [task, text]
    pressed = [button.click, text.submit]
    gr.on(pressed, translate, given, view, api_visibility="private")
    task.input(change, task, [text, view], api_visibility="private")
    return translate, given, view
