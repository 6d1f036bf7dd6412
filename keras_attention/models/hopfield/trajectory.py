"""The trajectory of a retrieval by `AssociativeMemory`.

Shapes: T states, P rows of the pattern table, D width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Trajectory(NamedTuple):
    """The states of queries during a retrieval, as NumPy arrays.

    Attributes:
        states: (K + 1, ..., T, D), the queries and their states after each of K steps.
        energies: (K + 1, ..., T), the energies of these states.
        steps: int (..., T), the number of steps until each query converged, or K.
        at_rest: bool (..., T), whether a query converged: its last step was within the
            tolerance.
    """

    states: np.ndarray
    energies: np.ndarray
    steps: np.ndarray
    at_rest: np.ndarray
