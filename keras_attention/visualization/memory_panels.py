"""Layout and drawing of the panels of a memory figure."""

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

_CELL = 0.15  # size of a step and of a panel's row
_PAD = 0.15  # around the figure
_GAP = 0.12  # between panels
_LINE = 0.2  # height of a title or a note
_TEXT = 8.5
_VALUE = (0.1, 0.1, 0.1)


class Panel(NamedTuple):
    """A panel with rows over time, or with the words of slots next to such a panel."""

    title: str
    cells: np.ndarray  # rows × columns: floats, or colors with 3 channels
    rows: list[str]  # one label per row; "" for none
    color: tuple[float, float, float] | None = _VALUE  # None: signed values
    low: float = 0.0
    high: float = 1.0


def draw_panels(
    panels: list[Panel],
    words: Panel | None,
    behind: int,
    labels: list[str],
    heading: list[str],
    notes: list[str],
) -> Figure:
    """Draws panels, and words beside one of them, in a figure of the size they need."""
    left = max([text_width(row, _TEXT) for panel in panels for row in panel.rows]) + 0.1
    left += _PAD
    across = panels[0].cells.shape[1] * _CELL
    beside = left + max(across, text_width(panels[behind].title, _TEXT, True))
    side = 0.0
    if words is not None:
        beside += 0.3
        side = max(words.cells.shape[1] * _CELL, text_width(words.title, _TEXT, True))
    widths = [
        beside + side,
        *(left + text_width(panel.title, _TEXT, True) for panel in panels),
        *(_PAD + text_width(text, _TEXT + 1, True) for text in heading),
        *(_PAD + text_width(text, NOTE_SIZE) for text in notes),
    ]
    total_width = max(widths) + _PAD
    under = (
        max(text_width(text, _TEXT) for text in labels) + 0.25
    )  # below the last panel
    heights = [_LINE + len(panel.rows) * _CELL + _GAP for panel in panels]
    above = _PAD + len(heading) * (_LINE + 0.03)
    total_height = above + sum(heights) + under + len(notes) * _LINE + _PAD
    sheet = Sheet(total_width, total_height)

    def place(panel: Panel, x: float, y: float, width: float) -> Any:
        """Draws a panel: its title at (x, y) and its cells below."""
        sheet.write(x, y, panel.title, size=_TEXT, weight="bold", color=INK)
        ax = sheet.axes(x, y + _LINE, width, len(panel.rows) * _CELL)
        _draw_panel(ax, panel)
        return ax

    for n, line in enumerate(heading):
        y = _PAD + n * _LINE
        sheet.write(_PAD, y, line, size=_TEXT + 1, weight="bold", color=INK)
    y = above
    for n, panel in enumerate(panels):
        ax = place(panel, left, y, across)
        if n == behind and words is not None:  # the first panel with slots
            place(words, beside, y, words.cells.shape[1] * _CELL)
        y += heights[n]
    _draw_steps(ax, labels)
    y += under
    for n, note in enumerate(notes):
        sheet.write(_PAD, y + n * _LINE, note, size=NOTE_SIZE, color=MUTED)
    return sheet.figure


def _draw_panel(ax: Any, panel: Panel) -> None:
    rows, columns = panel.cells.shape[:2]
    shown: dict[str, Any] = {"extent": (0, columns, rows, 0), "aspect": "auto"}
    if panel.cells.ndim == 2:
        shown.update(cmap=_colormap(panel.color), vmin=panel.low, vmax=panel.high)
    ax.imshow(panel.cells, interpolation="nearest", **shown)
    for n in range(1, rows):
        ax.axhline(n, color=GRID, linewidth=0.3)
    for n in range(1, columns):
        ax.axvline(n, color=GRID, linewidth=0.3)
    for spine in ax.spines.values():
        spine.set_color(GRID)
    style = {"size": _TEXT, "color": INK, "parse_math": False}
    ax.set_yticks(np.arange(rows) + 0.5, panel.rows, **style)
    ax.set_xticks([])
    ax.tick_params(length=0, pad=3)


def _colormap(color: tuple[float, float, float] | None) -> Any:
    """Returns a colormap from white to a color; for None, blue to white to red."""
    if color is None:
        return matplotlib_or_error().colormaps["RdBu_r"]
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("ink", [(1.0, 1.0, 1.0), color])


def _draw_steps(ax: Any, labels: list[str]) -> None:
    """Draws labels below the last panel. Without labels, numbers every fifth step."""
    style = {"size": _TEXT, "color": INK, "parse_math": False}
    if any(labels):
        ax.set_xticks(np.arange(len(labels)) + 0.5, labels, rotation=90, **style)
        return
    numbers = [n for n in range(1, len(labels) + 1) if n == 1 or n % 5 == 0]
    ax.set_xticks([n - 0.5 for n in numbers], [str(n) for n in numbers], **style)
