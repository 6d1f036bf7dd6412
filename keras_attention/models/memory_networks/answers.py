"""The answers of a `LargeMemory`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Answers(NamedTuple):
    """The answers of a `LargeMemory`.

    Attributes:
        words: int64 (B,), the predicted words.
        facts: int64 (B, K), the retrieved facts; −1 after the last fact.
        scored: int64 (B,), the number of facts scored in all hops.
    """

    words: np.ndarray
    facts: np.ndarray
    scored: np.ndarray
