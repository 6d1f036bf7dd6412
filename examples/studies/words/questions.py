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
NEAREST = 10  # A pair is known if one word is among so many nearest words of the other.
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
    """Which questions were answered correctly, as booleans.

    Attributes:
        pairs: (Q, 2), whether the second word is among the 10 nearest words of the
            first, and whether the first is among the 10 nearest of the second.
        analogies: (Q,), whether the fourth word is the nearest word to the point that
            the other three words give.
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
        questions: questions that contain only these words.

    Raises:
        KeyError: a question has a word that is not in `words`.
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
    """Returns the rows of `table` nearest to each query, except the rows `given`.

    The result is (Q, count). If the table has fewer than `count` rows, it is (Q, V).
    If too few rows are left, the rows `given` come last.
    """
    count = min(count, len(table))
    hidden = np.zeros((len(queries), len(table)), bool)
    np.put_along_axis(hidden, given, True, axis=1)
    return ops.convert_to_numpy(
        similarity.nearest_rows(queries, table, count, hidden)[1]
    )


def interval(known: np.ndarray, seed: int = 0) -> tuple[float, float, float]:
    """Returns the mean over all questions and the bounds of its 95 % interval.

    The interval comes from 10,000 bootstrap samples of the questions. A question is
    sampled together with its answers from all runs.

    Args:
        known: (R, Q) or (R, Q, 2). 1 for correct answers and 0 for others, or
            differences between two such arrays.
        seed: the seed of the resampling.
    """
    each = known.reshape(*known.shape[:2], -1).mean((0, 2))  # (Q,)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(len(each), np.full(len(each), 1 / len(each)), RESAMPLES)
    low, high = np.quantile(counts @ each / len(each), [0.025, 0.975])
    return float(each.mean()), float(low), float(high)


def packed(known: Known) -> dict[str, str]:
    """Packs the answers for JSON, with one digit per answer."""
    return {
        name: "".join("01"[int(one)] for one in table.ravel())
        for name, table in known._asdict().items()
    }


def unpacked(kept: dict[str, Any]) -> Known:
    """Returns the `Known` that `packed` turned into `kept`."""
    pairs, analogies = (
        np.array([one == "1" for one in kept[name]]) for name in Known._fields
    )
    return Known(pairs.reshape(-1, 2), analogies)
