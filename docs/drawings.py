"""Draws boxes, arrows, matrices and text as SVG, for the drawings of the guides.

A module `docs/drawings_*.py` has functions that return a `Drawing`, and a dict
`DRAWINGS` from the path of each picture, such as `guides/dnc.svg`, to its function. The
build draws all of them. A drawing has a white ground, also in the dark.
"""

import importlib
import re
import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parent
INK, SOFT = "#222222", "#666666"
BLUE, ORANGE, GREEN, GREY = "#dbe7ff", "#ffe3c2", "#d9f2d9", "#f0f0f0"
_MARK = re.compile(r"([_^])\{([^}]*)\}")  # x_{i}: a subscript; x^{2}: a superscript


class Drawing:
    """A picture that grows by boxes, arrows, matrices and lines of text.

    Args:
        width: in pixels.
        height: in pixels.
    """

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.parts: list[str] = []
        self.heads = {INK: "head"}  # from the color of an arrow to its marker's id

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *lines: str,
        fill: str = "white",
        dashed: bool = False,
        size: int = 14,
    ) -> None:
        """Adds a rounded box at (x, y), its upper left corner, with lines of text."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" '
            f'fill="{fill}" stroke="{INK}"{dash}/>'
        )
        first = y + height / 2 - (len(lines) - 1) * size * 0.65
        for number, line in enumerate(lines):
            self.text(x + width / 2, first + number * size * 1.3, line, size=size)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: int = 14,
        anchor: str = "middle",
        color: str = INK,
        bold: bool = False,
    ) -> None:
        """Adds a line of text around the height y; `_{i}` and `^{2}` are shifted."""
        weight = ' font-weight="bold"' if bold else ""
        shifted = _shifted(text, size)
        self.parts.append(
            f'<text x="{x:g}" y="{y + 0.35 * size:g}" font-size="{size}" '
            f'text-anchor="{anchor}" fill="{color}"{weight}>{shifted}</text>'
        )

    def arrow(
        self,
        *points: tuple[float, float],
        dashed: bool = False,
        head: bool = True,
        color: str = INK,
    ) -> None:
        """Adds a line through points, with a head at the last one."""
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
        self.path(path, dashed, head, color)

    def path(
        self, path: str, dashed: bool = False, head: bool = True, color: str = INK
    ) -> None:
        """Adds a line that SVG describes, such as a curve."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        end = ""
        if head:
            marker = self.heads.setdefault(color, f"head{len(self.heads)}")
            end = f' marker-end="url(#{marker})"'
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{color}" stroke-width="1.4"'
            f"{dash}{end}/>"
        )

    def matrix(
        self,
        x: float,
        y: float,
        rows: Sequence[Sequence[float | str]],
        cell: tuple[float, float] = (18, 18),
        color: tuple[int, int, int] = (70, 120, 220),
        size: int = 12,
    ) -> None:
        """Adds cells: numbers from 0 to 1 are shades of the color, text is written."""
        wide, high = cell
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                share = 0.15 if isinstance(value, str) else float(value)
                shade = [round(255 - share * (255 - part)) for part in color]
                left, top = x + j * wide, y + i * high
                self.parts.append(
                    f'<rect x="{left:g}" y="{top:g}" width="{wide:g}" '
                    f'height="{high:g}" fill="rgb{tuple(shade)}" stroke="#888888"/>'
                )
                if isinstance(value, str):
                    self.text(left + wide / 2, top + high / 2, value, size)

    def svg(self) -> str:
        """The picture as the text of a file."""
        heads = "".join(_head(marker, color) for color, marker in self.heads.items())
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" '
            f'height="{self.height}" viewBox="0 0 {self.width} {self.height}" '
            f'font-family="Helvetica, Arial, sans-serif">\n<defs>{heads}</defs>\n'
            '<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def _head(marker: str, color: str) -> str:
    """The head of the arrows of a color."""
    return (
        f'<marker id="{marker}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{color}"/>'
        "</marker>"
    )


def _shifted(text: str, size: int) -> str:
    """Escaped text, with its sub- and superscripts as SVG has them."""

    def shift(found: re.Match[str]) -> str:
        down = round((0.25 if found[1] == "_" else -0.4) * size, 1)
        small = f'<tspan dy="{down}" font-size="{0.72 * size:g}">{found[2]}</tspan>'
        return f'{small}<tspan dy="{-down}">\u200b</tspan>'

    return _MARK.sub(shift, escape(text, quote=False))


def drawings() -> dict[str, Callable[[], Drawing]]:
    """All drawings of the guides, by the path of their picture."""
    if str(DOCS) not in sys.path:  # the modules import this one
        sys.path.append(str(DOCS))
    found: dict[str, Callable[[], Drawing]] = {}
    for path in sorted(DOCS.glob("drawings_*.py")):
        found |= importlib.import_module(path.stem).DRAWINGS
    return found
