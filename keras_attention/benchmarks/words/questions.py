"""What vectors of words are asked, and how much of it they know.

Shapes: Q questions, R runs, V words, D width.
"""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attention.ops import similarity

FOLDER = pathlib.Path(__file__).parent
NEAREST = 10  # words that a pair may be among
RESAMPLES = 10_000


class Questions(NamedTuple):
    """What was written down.

    Attributes:
        pairs: of two words each, asked both ways.
        analogies: of four words each.
    """

    pairs: list[list[str]]
    analogies: list[list[str]]


class Known(NamedTuple):
    """Which of the questions were answered, booleans.

    Attributes:
        pairs: (Q, 2), whether the second is among the 10 nearest of the first, and the
            other way round.
        analogies: (Q,), whether the fourth word is the nearest of all.
    """

    pairs: np.ndarray
    analogies: np.ndarray


def load() -> Questions:
    """The questions, from the files beside this one."""
    return Questions(_lines("pairs.txt"), _lines("analogies.txt"))


def _lines(name: str) -> list[list[str]]:
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def ask(words: list[str], vectors: np.ndarray, questions: Questions) -> Known:
    """Which of the questions the vectors answer.

    Args:
        words: V words.
        vectors: (V, D).
        questions: of these words.

    Raises:
        KeyError: for a question with another word.
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
    """The nearest rows of each query, without those that were given.

    (Q, count), or (Q, V) where the table has fewer rows; there, those that were given
    come last.
    """
    count = min(count, len(table))
    hidden = np.zeros((len(queries), len(table)), bool)
    np.put_along_axis(hidden, given, True, axis=1)
    return ops.convert_to_numpy(
        similarity.nearest_rows(queries, table, count, hidden)[1]
    )


def interval(known: np.ndarray, seed: int = 0) -> tuple[float, float, float]:
    """The mean over all that was asked, with the bounds of its 95 % interval.

    Questions are drawn again, 10,000 times; each keeps its answers of all runs.

    Args:
        known: (R, Q) or (R, Q, 2), numbers: right or wrong, or differences of these.
        seed: of the drawing.
    """
    each = known.reshape(*known.shape[:2], -1).mean((0, 2))  # (Q,)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(len(each), np.full(len(each), 1 / len(each)), RESAMPLES)
    low, high = np.quantile(counts @ each / len(each), [0.025, 0.975])
    return float(each.mean()), float(low), float(high)


def packed(known: Known) -> dict[str, str]:
    """As JSON keeps it: a digit an answer."""
    return {
        name: "".join("01"[int(one)] for one in table.ravel())
        for name, table in known._asdict().items()
    }


def unpacked(kept: dict[str, Any]) -> Known:
    """What `packed` was given."""
    pairs, analogies = (
        np.array([one == "1" for one in kept[name]]) for name in Known._fields
    )
    return Known(pairs.reshape(-1, 2), analogies)
