"""New figures, and figures whose parts are placed in inches.

A figure is a plain `matplotlib.figure.Figure`, so pyplot keeps no reference to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure
else:
    Figure = Any  # matplotlib is only imported when a figure is made

INK, MUTED, GRID = "#1a1a1a", "#5f5f5f", "#c9d3de"
COLORS = ("#1f5fa8", "#c4491d", "#2f8f4e", "#7a4fa3")  # of curves
NOTE_SIZE = 9.0  # points


class Sheet:
    """A figure, in inches, whose parts are placed from its upper left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.figure = new_figure(width, height)
        self.width, self.height = width, height

    def axes(self, x: float, y: float, width: float, height: float) -> Any:
        """Adds axes of a size, with their upper left corner at (x, y)."""
        bottom = (self.height - y - height) / self.height
        size = width / self.width, height / self.height
        return self.figure.add_axes((x / self.width, bottom, *size))

    def write(self, x: float, y: float, text: str, **style: Any) -> None:
        """Writes text with its upper left corner at (x, y); "$" is literal."""
        style = {"va": "top", "parse_math": False, **style}
        self.figure.text(x / self.width, 1 - y / self.height, text, **style)


def new_figure(width: float, height: float, layout: Any = None) -> Figure:
    """Returns an empty white figure of a size in inches."""
    matplotlib_or_error()
    from matplotlib import figure
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    size = (width, height)
    new = figure.Figure(figsize=size, dpi=120, facecolor="white", layout=layout)
    FigureCanvasAgg(new)
    return new


def new_plot(
    width: float, height: float, title: str | None = None
) -> tuple[Figure, Any]:
    """Returns a new figure with a title, and its axes."""
    figure = new_figure(width, height, "constrained")
    ax = figure.add_subplot()
    if title is not None:
        ax.set_title(title, loc="left", fontsize=10, fontweight="bold")
    return figure, ax


def matplotlib_or_error() -> Any:
    """Imports matplotlib, or raises an ImportError that says how to install it."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            "Pictures need matplotlib. Install it with: "
            'pip install "keras-attention-family[viz]"'
        ) from error
    return matplotlib


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Returns an upper estimate of the width of `text` in inches.

    The estimate adds 4 % to the glyph outlines. Drawn text is aligned to pixels and may
    be wider than its outlines.
    """
    matplotlib_or_error()
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font = FontProperties(size=size, weight="bold" if bold else "normal")
    measure = TextToPath().get_text_width_height_descent
    lines = text.split("\n")
    return 1.04 * max(measure(line, font, False)[0] for line in lines) / 72
