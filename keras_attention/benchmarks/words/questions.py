"""Questions for word vectors and their scores.

Shapes: Q questions, R runs, V words, D width.
"""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attention.ops import similarity

FOLDER = pathlib.Path(__file__).parent
NEAREST = 10  # number of nearest words that count for a pair
RESAMPLES = 10_000


class Questions(NamedTuple):
    """The fixed questions.

    Attributes:
        pairs: pairs of words, tested in both directions.
        analogies: tuples of four words.
    """

    pairs: list[list[str]]
    analogies: list[list[str]]


class Known(NamedTuple):
    """Booleans for the correctly answered questions.

    Attributes:
        pairs: (Q, 2), whether the second word is among the 10 nearest of the first, and
            vice versa.
        analogies: (Q,), whether the fourth word is the nearest.
    """

    pairs: np.ndarray
    analogies: np.ndarray


def load() -> Questions:
    """Loads the questions from the files in this folder."""
    return Questions(_lines("pairs.txt"), _lines("analogies.txt"))


def _lines(name: str) -> list[list[str]]:
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def ask(words: list[str], vectors: np.ndarray, questions: Questions) -> Known:
    """Returns which questions the vectors answer correctly.

    Args:
        words: V words.
        vectors: (V, D).
        questions: questions with these words.

    Raises:
        KeyError: a question has an unknown word.
    """
    place = {word: i for i, word in enumerate(words)}
    first, second = np.array([[place[w] for w in pair] for pair in questions.pairs]).T
    found = [
        (_nearest(vectors[one], vectors, NEAREST, one[:, None]) == other[:, None]).any(
            1
        )
        for one, other in ((first, second), (second, first))
    ]
    rows = np.array([[place[w] for w in line] for line in questions.analogies])
    a, b, c, d = rows.T
    corners = ops.convert_to_numpy(
        similarity.parallelogram(vectors[a], vectors[b], vectors[c])
    )  # (Q, D)
    answers = _nearest(corners, vectors, 1, rows[:, :3])[:, 0]
    return Known(np.stack(found, axis=1), answers == d)


def _nearest(
    queries: np.ndarray, table: np.ndarray, count: int, given: np.ndarray
) -> np.ndarray:
    """Returns the nearest rows of each query, without the given rows.

    The result is (Q, count), or (Q, V) with the given rows last if the table has fewer
    rows.
    """
    count = min(count, len(table))
    hidden = np.zeros((len(queries), len(table)), bool)
    np.put_along_axis(hidden, given, True, axis=1)
    return ops.convert_to_numpy(
        similarity.nearest_rows(queries, table, count, hidden)[1]
    )


def interval(known: np.ndarray, seed: int = 0) -> tuple[float, float, float]:
    """Returns the mean over all questions and its 95 % interval.

    The interval comes from 10,000 bootstrap samples of questions. Each question keeps
    its answers from all runs.

    Args:
        known: (R, Q) or (R, Q, 2), correctness as numbers, or differences of them.
        seed: the seed of the resampling.
    """
    each = known.reshape(*known.shape[:2], -1).mean((0, 2))  # (Q,)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(len(each), np.full(len(each), 1 / len(each)), RESAMPLES)
    low, high = np.quantile(counts @ each / len(each), [0.025, 0.975])
    return float(each.mean()), float(low), float(high)


def packed(known: Known) -> dict[str, str]:
    """Packs answers for JSON, one digit per answer."""
    return {
        name: "".join("01"[int(one)] for one in table.ravel())
        for name, table in known._asdict().items()
    }


def unpacked(kept: dict[str, Any]) -> Known:
    """Inverts `packed`."""
    pairs, analogies = (
        np.array([one == "1" for one in kept[name]]) for name in Known._fields
    )
    return Known(pairs.reshape(-1, 2), analogies)
