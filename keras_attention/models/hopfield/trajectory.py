"""What `AssociativeMemory` returns of a retrieval.

Shapes: T states, P places of the table of patterns, D width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Trajectory(NamedTuple):
    """How queries came to rest, as NumPy arrays.

    Attributes:
        states: (K + 1, ..., T, D), the queries and what each of K steps made of them.
        energies: (K + 1, ..., T), of these states.
        steps: int (..., T), how many steps each took until it was at rest, or all.
        at_rest: bool (..., T), whether a query's last step was within the tolerance.
    """

    states: np.ndarray
    energies: np.ndarray
    steps: np.ndarray
    at_rest: np.ndarray
