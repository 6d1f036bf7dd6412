"""The view of a sentence: what each word attends to, by layer and head.

Shapes: T tokens, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from keras_attention.explore import examples
from keras_attention.explore.views import texts
from keras_attention.explore.views.networks import network
from keras_attention.layers import record_attention
from keras_attention.presets.preprocessors import sentences
from keras_attention.presets.preprocessors.blanks import BLANK
from keras_attention.presets.preprocessors.running import probabilities
from keras_attention.text.vocabulary import END, PADDING, START, UNKNOWN
from keras_attention.visualization import View, heads_view

_TITLE = "What does each word attend to?"
GUESSES = 4


def look(kind: str, text: str, model: Any = None) -> View:
    """Reads a sentence by one of the `READERS`, and shows the attention of each word.

    Raises:
        InputError: the sentence is empty or too long, has no blank, or holds no word
            that the network has learned.
    """
    texts.check_written("a sentence", text)
    model = network(examples.READERS[kind]) if model is None else model
    tools = model.preprocessor
    fills = hasattr(tools, "fill")
    words = texts.tokens_of("a sentence", text, tools.max_words, tools.vocabulary)
    if fills and words.count(BLANK) != 1:
        raise texts.InputError(
            "Please write ___ (three underscores) for one word that the network shall "
            "fill in."
        )
    inputs = tools.encode(text)
    tokens = _tokens(tools, inputs["tokens"][0], text)
    with record_attention() as maps:
        logits = ops.convert_to_numpy(model(inputs, training=False))[0, -1]  # (V,)
    layers = {f"layer {n}": weights[0] for n, weights in enumerate(maps.values(), 1)}
    return heads_view(
        layers,
        tokens,
        word=tokens.index(BLANK) if fills else len(tokens) - 1,
        title=_TITLE,
        caption=_caption(fills, _guesses(logits, tools)),
    )


def _tokens(tools: Any, ids: np.ndarray, text: str) -> list[str]:
    """Returns the tokens as the reader wrote them, with the special ones in words."""
    words = iter(sentences.words_of(text, tools.vocabulary))
    special = {START: "(start)", END: "(end)"}
    tokens = [special.get(int(n)) or next(words) for n in ids]
    return [f"{t} (unknown)" if n == UNKNOWN else t for t, n in zip(tokens, ids)]


def _guesses(logits: np.ndarray, tools: Any) -> str:
    names = [*tools.vocabulary.tokens, ""][: len(logits)]
    names[END] = "(end)"
    shares = probabilities(logits)
    shares[[PADDING, UNKNOWN, START, *range(len(tools.vocabulary), len(shares))]] = 0
    best = np.argsort(-shares)[:GUESSES]
    return ", ".join(f"“{names[n]}” {100 * shares[n]:.0f} %" for n in best)


def _caption(fills: bool, guesses: str) -> str:
    if fills:
        return (
            "Each word attends to all words, before and after it. For the blank, the "
            f"network guesses {guesses}. Point at the blank to see where it looked."
        )
    return (
        "Each word attends to itself and to the words before it. As the next word, the "
        f"network expects {guesses}. Point at the last word to see where it looked."
    )
