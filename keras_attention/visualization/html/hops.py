"""The view of a story and the hops of a memory network. Shapes: K hops, M slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_attention.visualization.html.view import View, lines, shares
from keras_attention.visualization.plots import (
    _as_text,
    _check_supporting,
    _check_texts,
    _check_weights,
    _note_left_out,
)

_CAPTION = (
    "A hop reads all sentences at once. It puts its attention on those that it uses, "
    "and adds what it read to the question for the next hop."
)


def hops_view(
    weights: Any,
    sentences: Sequence[str | Sequence[str]],
    question: str | Sequence[str] | None = None,
    answers: str | Sequence[tuple[str, float]] = (),
    supporting: Iterable[int] | None = None,
    title: str | None = None,
    caption: str | None = None,
) -> View:
    """Shows the attention of each hop of a memory network to the sentences of a story.

    `plot_hops` draws the same as a picture. Empty sentences are left out; a note gives
    their weight, if any.

    Args:
        weights: Array (K, M) of floats in [0, 1]: K hops over M memory slots.
        sentences: At most M sentences, one per slot; each is a string or a sequence of
            words.
        question: A string or a sequence of words.
        answers: The answer, or pairs of a word and its probability, the best first.
        supporting: Zero-based indices of the supporting sentences, which are marked.
        title: Defaults to "The hops of a memory network".
        caption: Sentences below the title. By default, they say what a hop is.

    Returns:
        A `View`, for `to_html`.

    Raises:
        ValueError: Same as `plot_hops`; also if a probability is not in [0, 1].

    Example:
    ```python
    view = hops_view(
        [[0.9, 0.1], [0.2, 0.8]],
        ["Mary took the milk.", "Mary went to the hall."],
        question="Where is the milk?",
        answers=[("hall", 0.97), ("garden", 0.02)],
    )
    ```
    """
    weights = _check_weights(weights, "(K, M), hops by memory slots")
    texts = _check_texts("sentences", sentences, "slot", weights.shape[1])
    marked = _check_supporting(supporting, texts)
    shown = [slot for slot, text in enumerate(texts) if text]
    left_out = np.sum(np.delete(weights, shown, axis=1), axis=1)  # (K,)
    data = {
        "weights": shares(weights[:, shown]),  # (K, M)
        "sentences": [texts[slot] for slot in shown],
        "question": None if question is None else _as_text(question),
        "answers": _answers(answers),
        "supporting": [n for n, slot in enumerate(shown) if slot in marked],
        "notes": _note_left_out(left_out, "hop", "slots without a sentence"),
    }
    title = lines("title", title, "The hops of a memory network")
    return View("hops", title, lines("caption", caption, _CAPTION), data)


def _answers(answers: str | Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    pairs = [(answers, 1.0)] if isinstance(answers, str) else list(answers)
    rounded = [(str(word), round(float(share), 4)) for word, share in pairs]
    if any(not 0 <= share <= 1 for _, share in rounded):
        raise ValueError(
            f"`answers` must hold probabilities in [0, 1]. Received: answers={pairs!r}"
        )
    return rounded
