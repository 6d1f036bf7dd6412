"""The heat map that the plots share, with text around it.

Lengths are in inches, font sizes in points.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from keras_attention.visualization.sheet import (
    GRID,
    INK,
    MUTED,
    NOTE_SIZE,
    Figure,
    Sheet,
    matplotlib_or_error,
    text_width,
)

MARKER = "\u25b6"  # a triangle that marks a row

_TEXT_SIZE = 10.5
_NUMBER_SIZE = 9.5
_LINE = 0.19  # height of a line of text
_PAD = 0.15  # around the figure
_MARK = "#b34700"
COLORMAP = "Blues"


class Table(NamedTuple):
    """The content of a figure: shares (rows, columns) and the text around them."""

    shares: np.ndarray  # floats in [0, 1]
    rows: list[str]  # one label per row, of one or more lines
    columns: list[str]  # one label per column
    cell_width: float
    unit: str  # written after each number
    marked: list[bool]  # one boolean per row
    above: list[str]  # bold lines above the table
    below: list[str]  # bold lines below the table
    notes: list[str]  # small lines at the bottom


def draw(table: Table, ax: Any) -> Figure:
    """Draws the table in `ax`, or in a new figure of the right size."""
    heights = [0.12 + _LINE * (1 + text.count("\n")) for text in table.rows]
    edges = np.concatenate([[0.0], np.cumsum(heights)])  # (rows + 1,)
    labels = max(text_width(text, _TEXT_SIZE) for text in table.rows) + 0.12
    margin = labels + (0.2 if any(table.marked) else 0.0)
    widest = max(text_width(text, _TEXT_SIZE) for text in table.columns)
    turned = widest > table.cell_width - 0.06
    heading = (widest if turned else _LINE) + 0.08
    if ax is None:
        ax = _new_axes(table, edges[-1], margin, heading)
    _draw_cells(ax, table, edges)
    for column, text in enumerate(table.columns):
        x, rotation = (column + 0.5) / len(table.columns), 90 if turned else 0
        style = {"ha": "center", "va": "bottom", "rotation": rotation}
        _write(ax, text, (x, 1.0), (0.0, 0.05), **style)
    _draw_rows(ax, table, edges, labels)
    _draw_captions(ax, table, margin, heading)
    return ax.figure


def _new_axes(table: Table, height: float, margin: float, heading: float) -> Any:
    width = len(table.columns) * table.cell_width
    texts = [(text, _TEXT_SIZE, True) for text in table.above + table.below]
    texts += [(text, NOTE_SIZE, False) for text in table.notes]
    widest = max(text_width(*text) for text in texts)
    total_width = max(margin + width, widest) + 2 * _PAD
    above = _PAD + _above_height(table) + heading
    below = len(table.below) * (_LINE + 0.03) + (0.06 if table.below else 0.0)
    below = _PAD + (below + len(table.notes) * _LINE + 0.08)
    sheet = Sheet(total_width, above + height + below)
    return sheet.axes(_PAD + margin, above, width, height)


def _above_height(table: Table) -> float:
    return len(table.above) * (_LINE + 0.03) + (0.08 if table.above else 0.0)


def _draw_cells(ax: Any, table: Table, edges: np.ndarray) -> None:
    colormap = matplotlib_or_error().colormaps[COLORMAP]
    columns = np.arange(len(table.columns) + 1) * table.cell_width
    ax.pcolormesh(
        columns,
        edges,
        table.shares,
        cmap=colormap,
        vmin=0.0,
        vmax=1.0,
        edgecolors=GRID,
        linewidth=0.6,
    )
    ax.set_facecolor("white")
    ax.set_xlim(0.0, columns[-1])
    ax.set_ylim(edges[-1], 0.0)
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_color(GRID)
    for (row, column), share in np.ndenumerate(table.shares):
        ax.text(
            (column + 0.5) * table.cell_width,
            (edges[row] + edges[row + 1]) / 2,
            f"{100 * share:.0f}{table.unit}",
            color=_number_color(share, colormap),
            size=_NUMBER_SIZE,
            ha="center",
            va="center",
        )


def _number_color(share: float, colormap: Any) -> str:
    """Returns black or white, whichever contrasts more with the cell; gray for zero."""
    if share < 0.005:
        return MUTED
    return "black" if _luminance(colormap(float(share))) > 0.179 else "white"


def _luminance(color: Any) -> float:
    """Returns the relative luminance of an sRGB color, as defined by WCAG 2."""
    channels = np.asarray(color[:3])
    linear = np.where(
        channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
    )
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _write(
    ax: Any,
    text: str,
    corner: tuple[float, float],
    offset: tuple[float, float],
    **style: Any,
) -> None:
    """Writes text at an offset in inches from a point in `ax`; "$" is literal."""
    style = {"size": _TEXT_SIZE, "color": INK, **style}
    ax.annotate(
        text,
        xy=corner,
        xycoords=("axes fraction", style.pop("y_coordinates", "axes fraction")),
        xytext=(72 * offset[0], 72 * offset[1]),
        textcoords="offset points",
        annotation_clip=False,
        parse_math=False,
        **style,
    )


def _draw_rows(ax: Any, table: Table, edges: np.ndarray, labels: float) -> None:
    for row, text in enumerate(table.rows):
        place = (0.0, (edges[row] + edges[row + 1]) / 2)
        style = {"va": "center", "y_coordinates": "data"}
        _write(ax, text, place, (-labels, 0.0), ha="left", **style)
        if table.marked[row]:
            style["color"] = _MARK
            _write(ax, MARKER, place, (-labels - 0.2, 0.0), ha="left", **style)


def _draw_captions(ax: Any, table: Table, margin: float, heading: float) -> None:
    y = heading + _above_height(table)
    for text in table.above:
        y -= _LINE + 0.03
        place = (-margin, y)
        _write(ax, text, (0.0, 1.0), place, weight="bold", va="bottom")
    y = -0.1
    for text in table.below:
        _write(ax, text, (0.0, 0.0), (-margin, y), weight="bold", va="top")
        y -= _LINE + 0.03
    y -= 0.06 if table.below else 0.0
    for text in table.notes:
        color = _MARK if text.startswith(MARKER) else MUTED
        style = {"size": NOTE_SIZE, "color": color, "va": "top"}
        _write(ax, text, (0.0, 0.0), (-margin, y), **style)
        y -= _LINE
