"""Ten digits as small drawings, the patterns of the Hopfield view.

They are drawn by hand for this page. They are no data set.
"""

from __future__ import annotations

import pathlib

import numpy as np

ROWS, COLUMNS = 14, 10
SIZE = ROWS * COLUMNS
STATES = {"#": 1.0, ".": -1.0, "?": 0.0}  # ink, paper, unknown
HALVES = ("lower half", "upper half", "right half", "left half", "nothing", "all")
_DRAWINGS = pathlib.Path(__file__).parent / "assets" / "digits.txt"


def digits() -> np.ndarray:
    """Returns the digits 0 to 9, (10, 14, 10): 1 for ink, −1 for paper."""
    rows = [line.split() for line in _DRAWINGS.read_text("utf-8").splitlines()]
    ink = np.array([[list(part) for part in row] for row in rows]) == "#"
    return np.where(ink.swapaxes(0, 1), 1.0, -1.0)  # (10, 14, 10)


def half(digit: int, hidden: str) -> str:
    """Returns a digit with an unknown part, one of `HALVES`: a character per neuron."""
    image = digits()[digit].copy()
    middle, centre = ROWS // 2, COLUMNS // 2
    parts = {
        "lower half": np.s_[middle:],
        "upper half": np.s_[:middle],
        "right half": np.s_[:, centre:],
        "left half": np.s_[:, :centre],
        "all": np.s_[:],
    }
    if hidden in parts:
        image[parts[hidden]] = 0.0
    names = {value: name for name, value in STATES.items()}
    return "".join(names[value] for value in image.ravel())
