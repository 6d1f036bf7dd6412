"""The picture of a block puzzle and of what a memory holds of its goals."""

import io

import numpy as np
import pytest
from figures import assert_in_sight

from studies.blocks.drawing import plot_puzzle

pytest.importorskip("matplotlib")

BOARDS = [[[1, 2], [4, 3], [5]], [[1], [4, 3, 2], [5]]]
CONSTRAINTS = ["A: 1 above 2", "Q: 5 below 3", "Q: 2 right 1"]
WRITES = np.eye(3, 7)
READS = np.array([[0.1, 0.5, 0.4], [0.0, 0.25, 0.75]])


def texts(figure):
    axes = [text for ax in figure.axes for text in (*ax.texts, ax.xaxis.label)]
    return [text.get_text() for text in (*figure.texts, *axes)]


def test_boards_writes_and_reads_are_drawn():
    figure = plot_puzzle(
        BOARDS,
        CONSTRAINTS,
        WRITES,
        READS,
        actions=["left to middle", "pass"],
        asked=[False, True, True],
        title="A $puzzle$",
    )
    maps = [ax.images[0].get_array() for ax in figure.axes if ax.images]
    np.testing.assert_array_equal(maps[0], WRITES)
    for shown, shares in zip(maps[1:], READS, strict=True):
        np.testing.assert_array_equal(shown[:, 0], shares)
    scales = [ax.images[0].get_clim() for ax in figure.axes if ax.images]
    assert scales == [(0, 1), (0, 0.75), (0, 0.75)]
    found = texts(figure)
    assert any("up to 1." in text and "up to 0.75." in text for text in found)
    for text in (*CONSTRAINTS, "left to middle", "pass", "A $puzzle$"):
        assert text in found
    bold = {t.get_text() for t in figure.texts if t.get_weight() == "bold"}
    assert bold == {*CONSTRAINTS[1:], "A $puzzle$"}
    # Each block is where its column and its row say.
    squares = [ax for ax in figure.axes if not ax.images]
    for ax, board in zip(squares, BOARDS, strict=True):
        placed = {
            (int(text.get_position()[0]), int(text.get_position()[1])): text.get_text()
            for text in ax.texts
        }
        assert placed == {
            (column, row): str(block)
            for column, stack in enumerate(board)
            for row, block in enumerate(stack)
        }
    figure.savefig(io.BytesIO(), format="png")


def test_nothing_is_drawn_outside_of_the_figure():
    figure = plot_puzzle(BOARDS[:1], ["A long constraint: 1 above 2"], [[1]], [[1]])
    assert_in_sight(figure, figure.texts)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"boards": []}, "`boards` must hold 1 to 12 boards. Received: 0"),
        ({"boards": [[[1], [2]]] * 2}, "`boards` must have three columns"),
        ({"boards": [[[1, 2, 3, 4], [], []]] * 2}, "at most three blocks"),
        ({"constraints": []}, "`constraints` must hold at least one"),
        ({"writes": np.eye(2)}, r"`writes` must be numbers from 0 to 1 of shape \(3,"),
        ({"reads": 2 * READS}, "`reads` must be numbers from 0 to 1"),
        ({"reads": READS + np.nan}, "`reads` must be numbers from 0 to 1"),
        ({"reads": READS[:1]}, r"of shape \(2, 3\)"),
        ({"actions": ["pass"]}, "`actions` must have 2 entries. Received: 1"),
        ({"asked": [True]}, "`asked` must have 3 entries. Received: 1"),
    ],
)
def test_wrong_arguments(changed, error):
    given = {
        "boards": BOARDS,
        "constraints": CONSTRAINTS,
        "writes": WRITES,
        "reads": READS,
    }
    with pytest.raises(ValueError, match=error):
        plot_puzzle(**{**given, **changed})
