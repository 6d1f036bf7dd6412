"""Attention weights of several heads, side by side.

Lengths are in inches, font sizes in points. Shapes: H heads, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.visualization.plots import (
    _captions,
    _check_texts,
    _check_weights,
    _note_left_out,
)
from keras_attention.visualization.sheet import (
    GRID,
    INK,
    MUTED,
    NOTE_SIZE,
    Figure,
    Sheet,
    text_width,
)
from keras_attention.visualization.table import COLORMAP

_CELL = 0.24  # one weight
_PAD = 0.15  # around the figure and its labels
_LINE = 0.22  # height of a title or a note
_TEXT = 9.5
_MOST = 4  # heads per row


def plot_heads(
    weights: Any,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    query_label: str = "query",
    key_label: str = "key",
    titles: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Draws the attention weights of each head as a grid of query and key tokens.

    Each head has a panel, with four panels per row. Rows are query tokens, columns are
    key tokens, and larger weights have a darker blue, on one scale for all heads. Empty
    tokens (padding) are left out. `plot_alignment` shows the numbers of a single head.

    Args:
        weights: Array (H, T, S) of floats in [0, 1].
        query_tokens: At most T strings, for the rows from the top.
        key_tokens: At most S strings, for the columns from the left.
        query_label: Label of the rows, for example `"English"`.
        key_label: Label of the columns, for example `"German"`.
        titles: H strings, the titles of the panels. Defaults to "head 1" and so on.
        title: A title above the figure.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: If the weights are not an (H, T, S) array of numbers in [0, 1], if
            there are no tokens or more tokens than rows or columns, or if the numbers
            of titles and heads differ.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    figure = plot_heads(
        [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [1.0, 0.0]]],
        ["a", "house"],
        ["ein", "Haus"],
    )
    figure.savefig("heads.png")
    ```
    """
    weights = _check_heads(weights)
    heads, length, keys = weights.shape
    rows = _check_texts("query_tokens", query_tokens, "row", length)
    columns = _check_texts("key_tokens", key_tokens, "column", keys)
    if titles is None:
        titles = [f"head {head + 1}" for head in range(heads)]
    if isinstance(titles, str) or len(titles) != heads:
        raise ValueError(
            "`titles` must be a sequence, one string a head. "
            f"Received: titles={titles!r}, {heads} head(s)"
        )
    shown = [n for n, text in enumerate(rows) if text]
    seen = [n for n, text in enumerate(columns) if text]
    notes = [
        f"Rows: {query_label}. Columns: {key_label}.",
        "Cells: the row's weight of each column, from white, 0 %, to the darkest blue, "
        "100 %.",
    ]
    left_out = np.sum(np.delete(weights[:, shown], seen, axis=2), axis=2)  # (H, T)
    notes += _note_left_out(left_out, "row", "columns without a token")
    return _draw(
        weights[:, shown][:, :, seen],
        [rows[n] for n in shown],
        [columns[n] for n in seen],
        list(titles),
        [] if title is None else _captions(None, title),
        notes,
    )


def _check_heads(weights: Any) -> np.ndarray:
    weights = np.asarray(weights, dtype="float64")
    if weights.ndim != 3 or 0 in weights.shape:
        raise ValueError(
            "`weights` must be an array (H, T, S), heads by queries by keys, none of "
            f"them 0; of a batch, one sample. Received: weights.shape={weights.shape}"
        )
    flat = weights.reshape(-1, weights.shape[-1])  # (H·T, S)
    return _check_weights(flat, "(H, T, S)").reshape(weights.shape)


def _draw(
    weights: np.ndarray,
    rows: list[str],
    columns: list[str],
    titles: list[str],
    heading: list[str],
    notes: list[str],
) -> Figure:
    """Draws the panels in a figure of the right size."""
    heads, length, keys = weights.shape
    left = max(text_width(text, _TEXT) for text in rows) + 0.1
    top = max(text_width(text, _TEXT) for text in columns) + 0.1
    width = max(keys * _CELL, *(text_width(text, _TEXT, True) for text in titles))
    height = length * _CELL
    across = min(_MOST, heads)
    down = -(-heads // across)
    least = [text_width(text, _TEXT, True) for text in heading]
    least += [text_width(text, NOTE_SIZE) for text in notes]
    total_width = max(across * (left + width + _PAD), *least) + 2 * _PAD
    above = _PAD + _LINE * len(heading)
    panel = _LINE + top + height + _PAD
    total_height = above + down * panel + _LINE * len(notes) + _PAD / 2
    sheet = Sheet(total_width, total_height)
    bold = {"size": _TEXT, "weight": "bold", "color": INK}
    for n, line in enumerate(heading):
        sheet.write(_PAD, _PAD + n * _LINE, line, **bold)
    for head in range(heads):
        row, column = divmod(head, across)
        x = _PAD + column * (left + width + _PAD) + left
        y = above + row * panel
        sheet.write(x, y, titles[head], **bold)
        ax = sheet.axes(x, y + _LINE + top, keys * _CELL, height)
        _draw_head(ax, weights[head], rows, columns)
    for n, note in enumerate(notes):
        y = above + down * panel + n * _LINE
        sheet.write(_PAD, y, note, size=NOTE_SIZE, color=MUTED)
    return sheet.figure


def _draw_head(
    ax: Any, weights: np.ndarray, rows: list[str], columns: list[str]
) -> None:
    length, keys = weights.shape
    ax.pcolormesh(
        weights, cmap=COLORMAP, vmin=0.0, vmax=1.0, edgecolors=GRID, linewidth=0.5
    )
    ax.set_xlim(0, keys)
    ax.set_ylim(length, 0)
    for spine in ax.spines.values():
        spine.set_color(GRID)
    style = {"size": _TEXT, "color": INK, "parse_math": False}
    ax.set_yticks(np.arange(length) + 0.5, rows, **style)
    ax.set_xticks(np.arange(keys) + 0.5, columns, rotation=90, **style)
    ax.xaxis.tick_top()
    ax.tick_params(length=0, pad=3)
