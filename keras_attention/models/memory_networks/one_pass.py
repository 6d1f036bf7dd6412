"""The pass of a `MemNN` over its facts in NumPy, block by block."""

from __future__ import annotations

import numpy as np


def last_of_one_pass(
    times: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray,
    x: int,
    best: tuple[int, np.float32] | None,
) -> tuple[int, np.float32] | None:
    """Computes `ops.ranking.one_pass` for one row, for one block after the other.

    The pass runs from the newest memory to the oldest; each step is a better memory.

    Args:
        times: the times at which the memories of a block were written, ascending
            integers (n,), all below those of earlier blocks.
        similar: s_O(x, mᵢ), float32 (n,).
        weights: the weights of the three time features, (3,).
        x: the time at which the query was written.
        best: the time and the similarity of the best memory of earlier blocks; None at
            first.

    Returns:
        The time and the similarity of the best memory so far; None for no memory.
    """
    left = len(times)
    if best is None and left:
        left -= 1
        best = times[left], similar[left]
    older = weights[0] * (x < times) if left else weights[:0]
    while left and best is not None:
        bonus = weights[1] * (x < best[0]) + weights[2]
        ahead = similar[:left] - best[1] + (older[:left] + bonus) > 0
        if not ahead.any():
            break
        left = int(left - 1 - ahead[::-1].argmax())
        best = times[left], similar[left]
    return best if best is None else (int(best[0]), best[1])
