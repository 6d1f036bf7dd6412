"""The view of the softmax: β, temperature and heads, dragged in the browser.

Shapes: N words, D numbers of a word's vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.explore import examples
from keras_attention.explore.views import texts
from keras_attention.explore.views.networks import network
from keras_attention.visualization import View, softmax_view

WIDTH = 16  # numbers a word that are shown and can be divided among heads
BETA = 4.0
MOST = 24
_TITLE = "Temperature, β and heads"


def look(text: str, model: Any = None) -> View:
    """Shows the attention between the vectors of words, with β to be dragged.

    Raises:
        InputError: there are fewer than two words, too many, or unknown ones.
    """
    words = list(dict.fromkeys(texts.words_of("a few words", text, MOST)))
    if len(words) < 2:
        raise texts.InputError("Please write two different words at least.")
    model = network(examples.WORDS_PRESET) if model is None else model
    rows = _rows(model, words)
    return softmax_view(
        _shortened(model.vectors()[rows]),
        words,
        BETA,
        title=_TITLE,
        caption=(
            "The vectors of the words come from a network that learned from sentences. "
            f"They are turned so that {WIDTH} numbers say the most about their "
            "differences, and have length 1."
        ),
    )


def _rows(model: Any, words: list[str]) -> list[int]:
    """Returns the rows of words in the model's vectors; capitals may differ."""
    index = {word.lower(): row for row, word in enumerate(model.words)}
    index |= {word: row for row, word in enumerate(model.words)}
    rows = [index.get(word, index.get(word.lower())) for word in words]
    unknown = [word for word, row in zip(words, rows) if row is None]
    texts.check_known(unknown, model.words[10:400:20])
    return [row for row in rows if row is not None]


def _shortened(vectors: np.ndarray) -> np.ndarray:
    """Returns unit vectors (N, `WIDTH`), which keep the products as well as can be."""
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)  # (N, D)
    left, sizes, _ = np.linalg.svd(vectors, full_matrices=False)
    turned = (left * sizes)[:, :WIDTH]
    turned = np.pad(turned, ((0, 0), (0, WIDTH - turned.shape[1])))
    return turned / np.linalg.norm(turned, axis=1, keepdims=True)
