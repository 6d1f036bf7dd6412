"""Figures of a block puzzle: what is remembered of each goal, and the moves.

Lengths are in inches, font sizes in points. In shapes, M is the number of memory slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.visualization.sheet import GRID, INK, MUTED, Figure, Sheet

_SIDE = 3  # columns and rows of a board
_BOARD = 1.1  # side of a board
_ROW = 0.2  # height of a row of a heat map
_SLOT = 0.2  # width of a slot
_GAP = 0.3
_TITLE = 0.55  # space above the boards and the slots
_NOTE = 0.3
_LEAST = 7.2  # width of the note
_MOST = 12  # boards per figure
_ASKED = "#b34700"
_COLORS = ("#9ecae1", "#fdd0a2", "#a1d99b", "#fcaeb0", "#cbc2e3", "#d9c3b0")


def plot_puzzle(
    boards: Sequence[Sequence[Sequence[int]]],
    constraints: Sequence[str],
    writes: Any,
    reads: Any,
    actions: Sequence[str] | None = None,
    asked: Sequence[bool] | None = None,
    title: str | None = None,
) -> Figure:
    """Draws the boards of a played puzzle beside what the memory holds and reads.

    Each row is a constraint, in the order in which the network read them. On the left,
    orange shows the slots to which the constraint was written. On the right, there is
    one column per board, with the board above it. Blue shows the share of the read
    content that was written at this constraint. The darkest orange and blue are the
    largest numbers, which the figure tells.

    Args:
        boards: 1 to 12 boards: three columns from left to right, each with the numbers
            of its blocks from the bottom.
        constraints: Labels such as "A: 1 above 2".
        writes: Floats (constraints, M) from 0 to 1, the write weights at each
            constraint.
        reads: Floats (boards, constraints) from 0 to 1, the share of each constraint in
            what is read at each board, before the action.
        actions: One label per board, the action after it.
        asked: One boolean per constraint, True for those of the requested goal.
        title: A title above the figure.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there are no boards, more than 12 boards, or no constraints; if a
            board does not have three columns of at most three blocks; if an array has
            another shape or numbers outside [0, 1]; or if the number of `actions` or
            `asked` differs from that of the boards or constraints.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    boards = [[[1, 2], [], [3]], [[1], [2], [3]]]
    reads = [[0.9, 0.1], [0.8, 0.2]]
    figure = plot_puzzle(boards, ["A: 2 left 3", "B: 2 above 1"], np.eye(2), reads)
    ```
    """
    _check_boards(boards)
    if not constraints:
        raise ValueError("`constraints` must hold at least one. Received: none")
    writes = _check_shares("writes", writes, (len(constraints), None))
    reads = _check_shares("reads", reads, (len(boards), len(constraints)))
    actions = [""] * len(boards) if actions is None else [*actions]
    marked = [False] * len(constraints) if asked is None else [*map(bool, asked)]
    for name, entries, count in (
        ("actions", actions, len(boards)),
        ("asked", marked, len(constraints)),
    ):
        if len(entries) != count:
            raise ValueError(
                f"`{name}` must have {count} entries. Received: {len(entries)}"
            )
    label = 0.3 + 0.085 * max(map(len, constraints))
    rows, slots = _ROW * len(constraints), _SLOT * writes.shape[1]
    top = (0.35 if title else 0.1) + _BOARD + _TITLE
    width = label + slots + _GAP + len(boards) * (_BOARD + 0.15) + 0.1
    width = max(width, _LEAST)
    height = top + rows + _NOTE
    sheet = Sheet(width, height)
    if title:
        sheet.write(0.1, 0.1, title, weight="bold")
    most, most_read = float(writes.max()), float(reads.max())
    _draw_map(sheet.axes(label, top, slots, rows), writes, "Oranges", most)
    sheet.write(label, top - 0.08, "slots written to", size=9, va="bottom")
    for row, (text, mark) in enumerate(zip(constraints, marked, strict=True)):
        sheet.write(
            label - 0.08,
            top + (row + 0.5) * _ROW,
            text,
            ha="right",
            va="center",
            size=9.5,
            color=_ASKED if mark else INK,
            weight="bold" if mark else "normal",
        )
    for n, board in enumerate(boards):
        x = label + slots + _GAP + n * (_BOARD + 0.15)
        _draw_board(
            sheet.axes(x, top - _BOARD - 0.3, _BOARD, _BOARD), board, actions[n]
        )
        ax = sheet.axes(x, top, _BOARD, rows)
        _draw_map(ax, reads[n][:, None], "Blues", most_read)
    note = (
        f"Orange: write weights, up to {most:.2g}. Blue: share of what is read before "
        f"the action below the board, up to {most_read:.2g}."
    )
    sheet.write(0.1, height - 0.08, note, size=8.5, color=MUTED, va="baseline")
    return sheet.figure


def _draw_board(ax: Any, board: Sequence[Sequence[int]], action: str) -> None:
    ax.set_xlim(0, _SIDE)
    ax.set_ylim(0, _SIDE)
    for column, stack in enumerate(board):
        for row, block in enumerate(stack):
            color = _COLORS[(block - 1) % len(_COLORS)]
            ax.bar(column + 0.5, 0.9, 0.9, bottom=row + 0.05, color=color)
            ax.text(
                column + 0.5,
                row + 0.5,
                str(block),
                ha="center",
                va="center",
                size=10,
                color=INK,
            )
    ax.set_xticks([])
    ax.set_yticks([])
    for name, spine in ax.spines.items():
        spine.set_visible(name == "bottom")
    ax.set_xlabel(action, size=8.5, labelpad=2, parse_math=False)


def _draw_map(ax: Any, shares: np.ndarray, colors: str, most: float) -> None:
    most = most or 1.0  # if all are 0
    ax.imshow(
        shares, cmap=colors, vmin=0, vmax=most, aspect="auto", interpolation="nearest"
    )
    ax.set_xticks([])
    ax.set_yticks([])
    for row in range(1, len(shares)):
        ax.axhline(row - 0.5, color="white", linewidth=1)
    for spine in ax.spines.values():
        spine.set_color(GRID)


def _check_boards(boards: Sequence[Sequence[Sequence[int]]]) -> None:
    if not 1 <= len(boards) <= _MOST:
        raise ValueError(
            f"`boards` must hold 1 to {_MOST} boards. Received: {len(boards)}"
        )
    for board in boards:
        if len(board) != _SIDE or any(len(stack) > _SIDE for stack in board):
            raise ValueError(
                "`boards` must have three columns of at most three blocks. "
                f"Received: {board!r}"
            )


def _check_shares(name: str, values: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    shares = np.asarray(values, dtype="float64")
    fits = shares.ndim == len(shape) and 0 not in shares.shape
    fits = fits and all(m in (None, n) for n, m in zip(shares.shape, shape))
    # Sums of rounded weights may exceed 1 a little.
    if not fits or not ((shares >= 0) & (shares <= 1 + 1e-3)).all():
        raise ValueError(
            f"`{name}` must be numbers from 0 to 1 of shape {shape}. "
            f"Received: {name}.shape={shares.shape}"
        )
    return shares
