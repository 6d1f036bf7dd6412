"""The answers of a `HopReader`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class HopAnswers(NamedTuple):
    """The answers of a `HopReader`. N questions, H hops, K answers per question.

    Attributes:
        entities: int64 (N, K), the entities with the largest probabilities, best first;
            −1 after the last candidate.
        probabilities: float32 (N, K), their probabilities; 0 after the last candidate.
        facts: int64 (N, H), the rows of the facts that lead from the question's entity
            to the best answer, one per hop; −1 without an answer.
        read: int64 (N, H), the number of facts in the memory of each hop.
        cut: int64 (N, H), the number of candidate facts that did not fit.
    """

    entities: np.ndarray
    probabilities: np.ndarray
    facts: np.ndarray
    read: np.ndarray
    cut: np.ndarray
