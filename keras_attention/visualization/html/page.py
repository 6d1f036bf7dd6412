"""Views as one HTML file that opens from disk, without a network."""

from __future__ import annotations

import os
import pathlib
import secrets

from keras_attention.visualization.html.template import document
from keras_attention.visualization.html.view import View, lines

MOST_BYTES = 2_000_000


def to_html(
    path: str | os.PathLike[str],
    *views: View,
    title: str | None = None,
    caption: str | None = None,
) -> pathlib.Path:
    """Writes views to one HTML file, for a lecture, a paper's website or a colleague.

    The file holds everything it needs and asks for nothing from a network; its content
    security policy forbids it. It follows the light or dark mode of the reader, fits
    narrow screens, and works with pointer, touch and keyboard. Weights are stored with
    four decimals, other numbers with five significant digits.

    Args:
        path: where the file is written. An existing file is replaced when the new one
            is complete.
        *views: one or more views, from `hops_view`, `heads_view`, `alignment_view`,
            `energy_view`, `memory_view` or `softmax_view`.
        title: the title of the page. Defaults to the title of the first view.
        caption: one or two sentences below the title. Defaults to the caption of the
            view, if there is only one.

    Returns:
        The path of the file.

    Raises:
        ValueError: if there is no view, a view is not a `View`, or the file would have
            more than 2 MB.
        OSError: if the file cannot be written.

    Example:
    ```python
    view = hops_view([[0.9, 0.1]], ["Mary went home.", "She fell."], "Where is Mary?")
    to_html("hops.html", view)
    ```
    """
    if not views or not all(isinstance(view, View) for view in views):
        raise ValueError(
            "`views` must hold one or more views, as `hops_view` makes them. "
            f"Received: {[type(view).__name__ for view in views]}"
        )
    several = len(views) > 1
    text = document(
        lines("title", title, views[0].title),
        lines("caption", caption, "" if several else views[0].caption),
        [view.element(heading=several) for view in views],
    )
    size = len(text.encode())
    if size > MOST_BYTES:
        raise ValueError(
            "`views` must give a file of at most 2 MB: show fewer layers, heads, steps "
            f"or words. Received: {size / 1e6:.1f} MB"
        )
    path = pathlib.Path(path)
    place = pathlib.Path(os.path.realpath(path))  # a link stays a link
    part = place.with_name(f".{secrets.token_hex(8)}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, place)
    finally:
        part.unlink(missing_ok=True)
    return path
