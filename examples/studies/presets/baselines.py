"""Plain baselines of the presets: what counts and lines of code reach without them."""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.text.words import tokenize

Row = tuple[np.ndarray, np.ndarray]  # columns and values of the features of a text


def linear(
    texts: Sequence[str], labels: Sequence[int], tests: Sequence[str]
) -> np.ndarray:
    """Returns the classes (M,) that a linear classifier gives to test texts.

    A support vector machine for each class, by dual coordinate descent, on words, pairs
    of words, and all sequences of two to five characters, weighted by tf-idf.

    Args:
        texts: N training texts.
        labels: (N,) their classes, from 0.
        tests: M texts.

    Reference:
        Hsieh et al., "A dual coordinate descent method for large-scale linear SVM"
        (2008), with squared hinge loss and C = 1.
    """
    counts = [_grams(text) for text in texts]
    frequency = collections.Counter(name for found in counts for name in found)
    scale = {
        name: (column, 1 + math.log((1 + len(texts)) / (1 + frequency[name])))
        for column, name in enumerate(frequency)
    }
    rows = [_row(found, scale) for found in counts]
    weights = [
        _separate(rows, np.where(np.equal(labels, c), 1, -1), len(scale) + 1)
        for c in range(max(labels) + 1)
    ]
    scores = [
        [own[columns] @ values for own in weights]
        for columns, values in (_row(_grams(text), scale) for text in tests)
    ]
    return np.argmax(scores, axis=1)


def _separate(rows: Sequence[Row], signs: np.ndarray, width: int) -> np.ndarray:
    """Returns the weights that give rows scores of these signs, (width,)."""
    weights, duals = np.zeros(width), np.zeros(len(rows))
    random = np.random.default_rng(0)
    for _ in range(10):
        for n in random.permutation(len(rows)):
            columns, values = rows[n]
            slack = signs[n] * (weights[columns] @ values) - 1 + duals[n] / 2
            new = max(duals[n] - slack / (values @ values + 1 / 2), 0.0)
            weights[columns] += (new - duals[n]) * signs[n] * values
            duals[n] = new
    return weights


def _grams(text: str) -> collections.Counter[Any]:
    words, letters = tokenize(text), f" {text.lower()} "
    counts: collections.Counter[Any] = collections.Counter(words)
    counts.update(itertools.pairwise(words))
    for n in range(2, 6):
        counts.update(
            ("letters", letters[i : i + n]) for i in range(len(letters) - n + 1)
        )
    return counts


def _row(counts: collections.Counter[Any], scale: dict[Any, tuple[int, float]]) -> Row:
    """Returns the features of a text at unit length, and one that is always 1."""
    known = [name for name in counts if name in scale]
    values = [(1 + math.log(counts[name])) * scale[name][1] for name in known]
    columns = [*(scale[name][0] for name in known), len(scale)]
    norm = max(math.hypot(*values), 1e-9)
    return np.array(columns), np.array([*(value / norm for value in values), 1.0])


def last_mention(story: Sequence[Sequence[str]], question: Sequence[str]) -> str:
    """Returns the last word of the last fact that has the question's last word."""
    facts = [fact for fact in story if question[-1] in fact]
    return (facts or story)[-1][-1]


class NGrams:
    """Probabilities of the next token by counts of three, two and one tokens.

    Each count loses 0.75, which goes to the shorter context (absolute discounting,
    interpolated).

    Args:
        rows: sentences as lists of tokens.
        size: V, the number of tokens.
    """

    def __init__(self, rows: Sequence[Sequence[int]], size: int) -> None:
        self._size = size
        self._counts: collections.Counter[Any] = collections.Counter()
        self._totals: collections.Counter[Any] = collections.Counter()
        for row in rows:
            for i in range(1, len(row)):
                for n in range(min(i, 2) + 1):
                    self._counts[tuple(row[i - n : i + 1])] += 1
                    self._totals[tuple(row[i - n : i])] += 1
        self._kinds = collections.Counter(gram[:-1] for gram in self._counts)

    def probability(self, context: Sequence[int], token: int) -> float:
        """Returns the probability of a token after at most two others."""
        context = tuple(context)
        shorter = 1 / self._size
        if context:
            shorter = self.probability(context[1:], token)
        total = self._totals[context]
        if not total:
            return shorter
        counted = max(self._counts[*context, token] - 0.75, 0)
        return (counted + 0.75 * self._kinds[context] * shorter) / total


def word_vectors(texts: Sequence[str], words: Sequence[str]) -> np.ndarray:
    """Returns positive pointwise mutual information with words at most two apart."""
    place = {word: n for n, word in enumerate(words)}
    counts = np.zeros((len(words), len(words)), np.float32)
    for text in texts:
        row = [place.get(word) for word in tokenize(text)]
        for distance in (1, 2):
            for a, b in zip(row, row[distance:]):
                if a is not None and b is not None:
                    counts[a, b] += 1
                    counts[b, a] += 1
    share = (counts.sum(0) + 1e-9) / counts.sum()
    ratio = counts / counts.sum() / (share[:, None] * share)
    return np.log(np.maximum(ratio, 1))


def between(rows: np.ndarray, size: int) -> np.ndarray:
    """Returns log p of two neighbouring tokens in rows (N, T), (V, V).

    The counts are smoothed with the frequencies of the tokens.
    """
    pairs = np.zeros((size, size), np.float32)
    np.add.at(pairs, (rows[:, :-1].ravel(), rows[:, 1:].ravel()), 1)
    pairs[0] = pairs[:, 0] = 0  # padding
    share = pairs.sum(0) / pairs.sum()
    smooth = pairs + share + 1e-6
    return np.log(smooth / smooth.sum(1, keepdims=True))


def nearest_text(texts: Sequence[str], tests: Sequence[str]) -> list[int]:
    """Returns for each test text the place of the text with the most similar words.

    Similar is the cosine of counts of words, weighted by their rarity.
    """
    rows = [[*dict.fromkeys(tokenize(text))] for text in texts]
    frequency = collections.Counter(word for row in rows for word in row)
    rarity = {w: math.log(len(rows) / count) for w, count in frequency.items()}
    where = collections.defaultdict(list)
    for n, row in enumerate(rows):
        norm = math.hypot(*(rarity[word] for word in row)) or 1.0
        for word in row:
            where[word].append((n, rarity[word] / norm))
    found = []
    for test in tests:
        scores = collections.defaultdict(float, {0: 0.0})
        for word in dict.fromkeys(tokenize(test)):
            for n, value in where.get(word, ()):
                scores[n] += value * rarity[word]
        found.append(max(scores, key=lambda n: scores[n]))
    return found
