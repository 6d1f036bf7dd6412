"""The baseline on MetaQA: a logistic regression from word bigrams to relation paths."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

import keras
import numpy as np

Path = tuple[int, ...]  # relations, one per hop


def regression(
    questions: np.ndarray,
    paths: Sequence[Path | None],
    asked: np.ndarray,
    first_end: Callable[[int, Path], int | None],
) -> np.ndarray:
    """Returns the answers of a logistic regression to the questions `asked`.

    The regression predicts a path of relations from the word bigrams of the question.
    Among the paths that exist in the memory, it takes the most likely one. The first
    entity at the end of this path is the answer.

    Args:
        questions: (N, L), the words of the training questions.
        paths: the path of each training question; None to leave out the question.
        asked: (Q, L), the words of the questions to answer.
        first_end: from the number of a question in `asked` and a path, the first entity
            at its end; None if the path does not exist.

    Returns:
        The answers (Q,); −1 if no path exists.
    """
    known = [(i, path) for i, path in enumerate(paths) if path is not None]
    classes = sorted({path for _, path in known})
    index = {path: c for c, path in enumerate(classes)}
    target = np.array([index[path] for _, path in known])
    words = questions[[i for i, _ in known]]
    features = Counter(pair for row in words for pair in bigrams(row))
    columns = {pair: i for i, pair in enumerate(sorted(features))}
    model = keras.Sequential(
        [keras.Input((len(columns),)), keras.layers.Dense(len(classes))]
    )
    model.compile(
        keras.optimizers.Adam(0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(counts(words, columns), target, batch_size=64, epochs=20, verbose=0)
    logits = model.predict(counts(asked, columns), batch_size=500, verbose=0)
    answers = []
    for n, row in enumerate(np.argsort(-logits, 1)):
        ends = (first_end(n, classes[c]) for c in row)
        answers.append(next((end for end in ends if end is not None), -1))
    return np.array(answers)


def bigrams(words: np.ndarray) -> list[tuple[int, int]]:
    """Returns the pairs of adjacent words. A 0 is added at each end."""
    row = [0, *words[words != 0].tolist(), 0]
    return list(itertools.pairwise(row))


def counts(questions: np.ndarray, columns: dict[tuple[int, int], int]) -> np.ndarray:
    """Counts the known bigrams in each question, (N, features)."""
    table = np.zeros((len(questions), len(columns)), np.float32)
    for row, words in zip(table, questions):
        for pair in bigrams(words):
            if pair in columns:
                row[columns[pair]] += 1
    return table
