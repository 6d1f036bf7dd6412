"""The segments of the facts of a `LargeMemory`, and checks of its arguments.

Shapes: N facts, L words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keras_attention.layers.base.checked import check_ids
from keras_attention.models.base.candidate_index import CandidateIndex


def joined_facts(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Joins facts (n, L) of several lengths L; the shorter ones are padded with 0."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.shape[1] for part in parts)
    padded = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts]
    return np.concatenate(padded)


def cut(segments: list[np.ndarray], sizes: list[int]) -> Iterator[np.ndarray]:
    """Yields the facts of `segments` in segments of other sizes.

    Args:
        segments: facts (n, L), consecutive.
        sizes: the number of facts of each new segment, at least 1; their sum is N.
    """
    starts = np.cumsum([0, *map(len, segments)]).tolist()
    stop = 0
    for size in sizes:
        start, stop = stop, stop + size
        yield joined_facts(
            [
                segment[max(start - first, 0) : stop - first]
                for segment, first in zip(segments, starts)
                if first < stop and start < first + len(segment)
            ]
        )


def check_size(index: CandidateIndex | None, size: int) -> None:
    """Raises a ValueError if the index has another number of facts."""
    if index is not None and index.size != size:
        raise ValueError(
            "`index` must be an index of the same facts. Received: "
            f"index.size={index.size}, len(facts)={size}"
        )


def check_append(index: Any, size: int) -> None:
    """Raises a ValueError if facts cannot be added to an index."""
    if index is not None and not hasattr(index, "append"):
        raise ValueError(
            "`index` must have the method `append` to add facts to its memory. "
            f"Received: index={index!r}"
        )
    check_size(index, size)


def check_questions(questions: np.ndarray, vocabulary_size: int) -> np.ndarray:
    """Checks that the questions are ids (B, L) and returns them as an array."""
    questions = np.asarray(questions)
    if questions.ndim != 2 or questions.dtype.kind not in "iu":
        raise ValueError(
            "`questions` must be integers (questions, words). Received: "
            f"questions.shape={questions.shape}, questions.dtype={questions.dtype}"
        )
    check_ids("questions", questions, vocabulary_size)
    return questions
