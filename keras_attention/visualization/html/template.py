"""The HTML page around views, and the script that draws them."""

from __future__ import annotations

import html
import json
import pathlib
import re
from collections.abc import Sequence
from functools import cache

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


def document(title: str, caption: str, elements: Sequence[str]) -> str:
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
