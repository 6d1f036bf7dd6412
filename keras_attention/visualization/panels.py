"""Figures of an image in several panels, each overlaid with a map of weights.

Lengths are in inches, font sizes in points.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.visualization.sheet import MUTED, NOTE_SIZE, Figure, Sheet

_SIDE = 1.5  # longer side of a panel
_GAP = 0.15  # between and around panels
_LABEL = 0.28  # space for the word above a panel and the number below
_LINE = 0.24  # line of the heading
_MOST = 8  # panels per row
_COLOR = (0.95, 0.1, 0.0)
_OPACITY = 0.8  # opacity of the largest weight
_NOTE = "Red: attention, on a scale of each panel's own; below, the largest weight."


def draw_panels(
    image: np.ndarray, maps: np.ndarray, words: list[str], heading: list[str]
) -> Figure:
    """Draws the image (rows, columns) alone, then with the map of each word.

    The maps (T, rows, columns) are on a coarser grid. All numbers are in [0, 1].
    """
    scale = _SIDE / max(image.shape)
    height, width = (scale * n for n in image.shape)
    across = min(_MOST, 1 + len(words))
    down = -(-(1 + len(words)) // across)
    total_width = max(across * (width + _GAP) + _GAP, 5.2)
    top = _GAP + _LINE * len(heading)
    total_height = top + down * (height + 2 * _LABEL) + _LINE + _GAP
    sheet = Sheet(total_width, total_height)
    for n, line in enumerate(heading):
        sheet.write(_GAP, _GAP + n * _LINE, line, weight="bold")
    for n in range(1 + len(words)):
        row, column = divmod(n, across)
        x = _GAP + column * (width + _GAP)
        y = top + row * (height + 2 * _LABEL) + _LABEL
        ax = sheet.axes(x, y, width, height)
        _draw_panel(ax, image, maps[n - 1] if n else None, words[n - 1] if n else "")
    y = total_height - _GAP / 2
    sheet.write(_GAP, y, _NOTE, size=NOTE_SIZE, color=MUTED, va="baseline")
    return sheet.figure


def _draw_panel(
    ax: Any, image: np.ndarray, weights: np.ndarray | None, word: str
) -> None:
    rows, columns = image.shape
    extent = (0, columns, rows, 0)
    ax.imshow(image, cmap="gray", vmin=0.0, vmax=1.0, extent=extent)
    ax.set_xticks([])
    ax.set_yticks([])
    if weights is None:
        return
    ax.imshow(overlay(weights, image.shape), extent=extent)
    ax.set_title(word, size=11, pad=4, parse_math=False)
    ax.set_xlabel(
        f"{100 * weights.max():.0f} %", size=NOTE_SIZE, labelpad=3, color=MUTED
    )


def overlay(weights: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Upsamples weights (rows, columns) smoothly to one color of varying opacity.

    The RGBA floats have the rows and columns of `shape`.
    """
    down = _interpolation(weights.shape[0], shape[0])
    across = _interpolation(weights.shape[1], shape[1])
    weights = down @ weights @ across.T
    colored = np.empty((*weights.shape, 4))
    colored[..., :3] = _COLOR
    colored[..., 3] = _OPACITY * weights / (weights.max() or 1.0)
    return colored


def _interpolation(count: int, size: int) -> np.ndarray:
    """Returns the matrix (size, count) of linear interpolation between cell centers."""
    middles = (np.arange(count) + 0.5) / count
    wanted = (np.arange(size) + 0.5) / size
    return np.stack([np.interp(wanted, middles, line) for line in np.eye(count)], -1)
