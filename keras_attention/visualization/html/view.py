"""One interactive view: its data as JSON, and the HTML element that draws it."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attention.visualization.html.template import document

_DIGITS = 4  # of a weight; other numbers keep five significant digits


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
        page = document(self.title, self.caption, [self.element()])
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
