"""The view of the words of a sentence and what they attend to, by layer and head.

Shapes: H heads, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_attention.visualization.html.view import View, lines, shares
from keras_attention.visualization.plots import _check_texts, _check_weights

_CAPTION = (
    "Each word takes in what it attends to. Point at a word, or go through the words "
    "with the arrow keys."
)


def heads_view(
    maps: Any,
    query_tokens: Sequence[str] | Mapping[str, Sequence[str]],
    key_tokens: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    word: int = 0,
    title: str | None = None,
    caption: str | None = None,
) -> View:
    """Shows what each word attends to, for each layer and head.

    The reader points at a word, and chooses a layer, a head, and the direction: what
    the word attends to, or which words attend to it.

    Args:
        maps: Weights in [0, 1]: an array (H, T, S) or (T, S), or a dict from the name
            of each layer to such an array, as `record_attention` gives them for one
            sample.
        query_tokens: T strings, or a dict of them by the name of the layer.
        key_tokens: S strings, or a dict of them. Defaults to the query tokens.
        word: Index of the word that is chosen at first.
        title: Defaults to "What each word attends to".
        caption: Sentences below the title.

    Returns:
        A `View`, for `to_html`.

    Raises:
        ValueError: If there are no maps, a map has another shape or numbers outside [0,
            1], the tokens do not fit a map, or `word` is out of range.

    Example:
    ```python
    with keras_attention.record_attention() as maps:
        model({"tokens": ids})  # (1, T)
    first = {name: weights[0] for name, weights in maps.items()}
    view = heads_view(first, words)
    ```
    """
    groups = groups_of(maps, query_tokens, key_tokens)
    length = max(len(group["queries"]) for group in groups)
    if not 0 <= word < length:
        raise ValueError(
            f"`word` must be from 0 to {length - 1}. Received: word={word}"
        )
    data = {"groups": groups, "word": int(word), "notes": []}
    title = lines("title", title, "What each word attends to")
    return View("heads", title, lines("caption", caption, _CAPTION), data)


def groups_of(maps: Any, query_tokens: Any, key_tokens: Any) -> list[dict[str, Any]]:
    """Checks the arguments of `heads_view`; returns its groups, as lists."""
    named = maps if isinstance(maps, Mapping) else {"attention": maps}
    if not named:
        raise ValueError("`maps` must hold at least one map. Received: maps={}")
    groups = []
    for name, weights in named.items():
        weights = _check_heads(name, weights)  # (H, T, S)
        tokens = {"query_tokens": query_tokens, "key_tokens": key_tokens}
        if key_tokens is None:
            tokens["key_tokens"] = query_tokens
        texts = {}
        for axis, (argument, words) in enumerate(tokens.items(), 1):
            of_map = words[name] if isinstance(words, Mapping) else words
            texts[argument] = _check_tokens(argument, of_map, name, weights.shape[axis])
        groups.append(
            {
                "name": str(name),
                "queries": texts["query_tokens"],
                "keys": texts["key_tokens"],
                "weights": shares(weights),
            }
        )
    return groups


def _check_heads(name: str, weights: Any) -> np.ndarray:
    array = np.asarray(weights, dtype="float64")
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or 0 in array.shape:
        raise ValueError(
            "`maps` must hold arrays (T, S) or (H, T, S), of one sample. "
            f"Received: maps[{name!r}].shape={np.shape(weights)}"
        )
    flat = array.reshape(-1, array.shape[-1])  # (H·T, S)
    return _check_weights(flat, "(H, T, S)").reshape(array.shape)


def _check_tokens(argument: str, tokens: Any, name: str, size: int) -> list[str]:
    texts = _check_texts(argument, tokens, "row or column", size)
    if len(texts) != size:
        raise ValueError(
            f"`{argument}` must hold a token for each row or column of the map. "
            f"Received: {len(texts)} token(s), {size} of maps[{name!r}]"
        )
    return [text or "␣" for text in texts]
