"""The view of the softmax: temperature and heads to be dragged.

Shapes: N words, D numbers a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_attention.visualization.energy import _finite
from keras_attention.visualization.html.view import View, lines, significant
from keras_attention.visualization.plots import _check_texts

_CAPTION = (
    "Attention is a softmax of scores. Drag β: a small β spreads the attention, a "
    "large β puts it all on the largest score. Drag the heads: each compares its own "
    "part of the vectors."
)


def softmax_view(
    vectors: Any,
    words: Sequence[str],
    beta: float = 1.0,
    title: str | None = None,
    caption: str | None = None,
) -> View:
    """Shows the attention of a vector to others, with β and heads that can be dragged.

    The page computes softmax(β q · k) itself. The reader chooses the query.

    Args:
        vectors: Array (N, D) of finite numbers; each row is a query and a key.
        words: N strings, the names of the rows.
        beta: The first value of β, from 0.01 to 100.
        title: Defaults to "Temperature, β and heads".
        caption: Sentences below the title.

    Returns:
        A `View`, for `to_html`.

    Raises:
        ValueError: If the vectors are not a finite array (N, D), the numbers of words
            and vectors differ, or `beta` is out of range.

    Example:
    ```python
    view = softmax_view([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], ["king", "queen", "tea"])
    ```
    """
    array = _finite("vectors", vectors)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"`vectors` must be an array (N, D). Received: vectors.shape={array.shape}"
        )
    texts = _check_texts("words", words, "row", len(array))
    if len(texts) != len(array):
        raise ValueError(
            "`words` must hold a string for each row of `vectors`. "
            f"Received: {len(texts)} word(s), {len(array)} row(s)"
        )
    if not 0.01 <= beta <= 100:
        raise ValueError(f"`beta` must be from 0.01 to 100. Received: beta={beta}")
    data = {
        "words": texts,
        "vectors": significant(array),
        "beta": float(beta),
        "notes": [],
    }
    title = lines("title", title, "Temperature, β and heads")
    return View("softmax", title, lines("caption", caption, _CAPTION), data)
