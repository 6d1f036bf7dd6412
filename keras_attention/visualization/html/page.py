"""One interactive view, and views as one HTML file that opens without a network."""

from __future__ import annotations

import html
import json
import os
import pathlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

MOST_BYTES = 2_000_000
_DIGITS = 4  # of a weight; other numbers keep five significant digits
_ASSETS = pathlib.Path(__file__).parent / "assets"
_SCRIPTS = (
    "core.js",
    "hops.js",
    "heads.js",
    "alignment.js",
    "energy.js",
    "memory.js",
    "softmax.js",
    "define.js",
)
_SLOT = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True)
class View:
    """An interactive picture, for `to_html` and for notebooks.

    `hops_view`, `heads_view`, `alignment_view`, `energy_view`, `memory_view` and
    `softmax_view` make views. A notebook shows a view that is the value of a cell.

    Attributes:
        kind: "hops", "heads", "alignment", "energy", "memory" or "softmax".
        title: the title above the view.
        caption: one or two sentences below the title, or "".
        data: what the view shows, as lists, numbers and strings.
    """

    kind: str
    title: str
    caption: str
    data: dict[str, Any]

    def element(self, heading: bool = False) -> str:
        """Returns the HTML element `<attention-view>`, without the script that draws.

        Args:
            heading: whether the element shows the title and the caption.
        """
        content = {"title": self.title, "caption": self.caption, **self.data}
        text = json.dumps(
            content, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        for character, entity in (("&", "&amp;"), ("<", "&lt;"), ("'", "&#x27;")):
            text = text.replace(character, entity)
        shown = " heading" if heading else ""
        return (
            f"<attention-view kind=\"{self.kind}\"{shown} data='{text}'>"
            "</attention-view>"
        )

    def _repr_html_(self) -> str:
        """Shows the view in a notebook, in a frame of its own."""
        page = _document(self.title, self.caption, [self.element()])
        fit = "this.style.height=this.contentDocument.documentElement.scrollHeight+'px'"
        return (
            f'<iframe srcdoc="{html.escape(page)}" onload="{fit}" '
            'style="width:100%;height:600px;border:0"></iframe>'
        )


def shares(weights: np.ndarray) -> list[Any]:
    """Returns weights in [0, 1] as lists of numbers with four decimals."""
    return np.round(weights, _DIGITS).tolist()


def significant(values: Any) -> Any:
    """Returns any numbers as lists of numbers with five significant digits."""
    array = np.asarray(values, dtype="float64")
    if array.ndim == 0:
        return float(f"{array:.5g}")
    return [significant(item) for item in array]


def lines(name: str, text: str | None, default: str) -> str:
    """Returns a title or a caption as one string; raises for anything else."""
    if text is None:
        return default
    if not isinstance(text, str):
        raise ValueError(f"`{name}` must be a string. Received: {name}={text!r}")
    return text


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
    text = _document(
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


def _document(title: str, caption: str, elements: Sequence[str]) -> str:
    """Returns an HTML page with a title and a caption (texts) and elements of views."""
    parts = {
        "title": html.escape(title),
        "caption": f'<p class="caption">{html.escape(caption)}</p>\n'
        if caption
        else "",
        "views": "\n".join(elements),
    }
    return _SLOT.sub(lambda slot: parts[slot[1]], template())


@cache
def script() -> str:
    """Returns the script that draws `<attention-view>` elements."""
    style = "".join(map(_read, ("style.css", "views.css")))
    constant = f"const viewStyle = {json.dumps(style, ensure_ascii=False)};"
    return "\n".join([constant, *map(_read, _SCRIPTS)])


@cache
def template() -> str:
    """Returns a page with the slots `{{title}}`, `{{caption}}` and `{{views}}`."""
    return _read("page.html").replace("{{script}}", script())


def _read(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")
