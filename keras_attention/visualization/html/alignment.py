"""The view of two texts and the attention between them. Shapes: T queries, S keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_attention.visualization.html.heads import groups_of
from keras_attention.visualization.html.view import View, lines

_CAPTION = (
    "Each row is a word that the network wrote. It shows which words of the source the "
    "network attended to."
)


def alignment_view(
    maps: Any,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    query_label: str = "query",
    key_label: str = "key",
    query_text: str | None = None,
    key_text: str | None = None,
    title: str | None = None,
    caption: str | None = None,
) -> View:
    """Shows which words of one text attend to which words of another.

    Rows are query tokens and columns are key tokens, as in `plot_alignment`. With
    several layers or heads, the reader chooses one.

    Args:
        maps: Weights in [0, 1]: an array (T, S) or (H, T, S), or a dict from the name
            of each layer to such an array.
        query_tokens: T strings, for the rows from the top.
        key_tokens: S strings, for the columns from the left.
        query_label: Label of the rows, for example `"English"`.
        key_label: Label of the columns, for example `"Dutch"`.
        query_text: The text of the rows as one sentence, shown above; None for none.
        key_text: The text of the columns as one sentence, shown above; None for none.
        title: Defaults to "The alignment of two texts".
        caption: Sentences below the title.

    Returns:
        A `View`, for `to_html`.

    Raises:
        ValueError: Same as `heads_view`.

    Example:
    ```python
    view = alignment_view([[0.9, 0.1], [0.2, 0.8]], ["a", "house"], ["ein", "Haus"])
    ```
    """
    data = {
        "groups": groups_of(maps, query_tokens, key_tokens),
        "query_label": str(query_label),
        "key_label": str(key_label),
        "query_text": query_text,
        "key_text": key_text,
        "notes": [],
    }
    title = lines("title", title, "The alignment of two texts")
    return View("alignment", title, lines("caption", caption, _CAPTION), data)
