"""The view of a translation: which source words each target word attends to.

Shapes: S source tokens, T target tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.explore.examples import TASKS
from keras_attention.explore.views import texts
from keras_attention.explore.views.networks import network
from keras_attention.layers import record_attention
from keras_attention.presets.preprocessors import sentences
from keras_attention.text.vocabulary import END, PADDING, SPECIAL_TOKENS, UNKNOWN
from keras_attention.visualization import View, alignment_view

MOST_WRITTEN = 40  # tokens
_TITLE = "Where does the network look while it writes?"


def look(task: str, text: str, model: Any = None) -> View:
    """Writes a text by one of the `TASKS`, and shows the attention of each token.

    Raises:
        InputError: the text is empty or too long, holds no word that the network has
            learned, or a character that it has not.
    """
    texts.check_written("a text", text)
    chosen = TASKS[task]
    model = network(chosen.preset) if model is None else model
    tools = model.preprocessor
    vocabulary = tools.target_vocabulary
    if tools.source_vocabulary.level == "character":
        _check_characters(tools, text.strip())
    else:
        texts.tokens_of("a text", text, tools.max_words, tools.source_vocabulary)
    encoded = tools.encode(text)
    source = encoded["source"] if isinstance(encoded, dict) else encoded  # (1, S)
    ids = model.generate(
        {"source": source},
        max_length=getattr(tools, "target_length", MOST_WRITTEN),
        sampler=sentences.written("greedy"),
        start_token_id=vocabulary.start_token_id,
        stop_token_ids=vocabulary.end_token_id,
    )[0]
    ids = ids[ids != PADDING]  # (T,), with the end token
    read = np.array([[vocabulary.start_token_id, *ids[:-1]]], "int32")  # (1, T)
    with record_attention() as maps:
        model({"source": source, "target": read}, training=False)
    size = int((source[0] != PADDING).sum())
    crossed = [w[0] for name, w in maps.items() if "self_attention" not in name]
    written = [vocabulary.tokens[n] for n in ids]
    (answer,) = tools.decode([ids])
    tools.check_answer(text, answer)
    return alignment_view(
        {f"layer {n}": w[..., :size] for n, w in enumerate(crossed, 1)},
        [_shown(token) for token in written],
        _source(tools, text, source[0, :size]),
        chosen.target,
        chosen.source,
        answer,
        text.strip(),
        title=_TITLE,
        caption=(
            "Each row is a token that the network wrote. It shows which tokens of your "
            "text the network attended to before it wrote this one."
        ),
    )


def _check_characters(tools: Any, text: str) -> None:
    if len(text) > tools.source_length:
        raise texts.InputError(
            "Please shorten a text: this network reads at most "
            f"{tools.source_length:,} characters, and there are {len(text):,}."
        )
    vocabulary = tools.source_vocabulary
    known = [c for c in vocabulary.tokens[len(SPECIAL_TOKENS) :] if not c.isspace()]
    unknown = [c for c in text if UNKNOWN in vocabulary.encode(c)]
    texts.check_known(unknown, known[:24], "characters")


def _source(tools: Any, text: str, ids: np.ndarray) -> list[str]:
    """Returns the source tokens as the reader wrote them."""
    if tools.source_vocabulary.level == "character":
        return [_shown(character) for character in text.strip()]
    words = sentences.words_of(text, tools.source_vocabulary)
    return [f"{w} (unknown)" if n == UNKNOWN else w for w, n in zip(words, ids)]


def _shown(token: str) -> str:
    """Returns a token as a label: a space is seen, and the end is said in words."""
    return {SPECIAL_TOKENS[END]: "(end)", " ": "␣"}.get(token, token)
