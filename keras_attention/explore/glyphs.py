"""Ten digits as small drawings, the patterns of the Hopfield view.

They are drawn by hand for this page. They are no data set.
"""

from __future__ import annotations

import pathlib

import numpy as np

ROWS, COLUMNS = 14, 10
_DRAWINGS = pathlib.Path(__file__).parent / "assets" / "digits.txt"


def digits() -> np.ndarray:
    """Returns the digits 0 to 9, (10, 14, 10): 1 for ink, −1 for paper."""
    rows = [line.split() for line in _DRAWINGS.read_text("utf-8").splitlines()]
    ink = np.array([[list(part) for part in row] for row in rows]) == "#"
    return np.where(ink.swapaxes(0, 1), 1.0, -1.0)  # (10, 14, 10)
