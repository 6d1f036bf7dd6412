"""Finds interchangeable words in stories and exchanges them.

In most tasks the names of people and places do not matter. Consistently exchanging
names in a story, its question and its answer then gives another valid story of the same
task. A thousand questions become many more without external data.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from keras_attention.datasets.babi.archive import TASKS, Example
from keras_attention.datasets.babi.vectors import Vocabulary

_FLIPS = 1000  # number of random exchanges in the permutation test
_LEVEL = 0.002  # p-value below which two words are not interchangeable
_LEAST = 20  # minimum number of stories with only one of the two words
_ALIKE = 0.3  # minimum share of a word's sentences that also occur with the other word

Features = Counter[Hashable]


def interchangeable(
    examples: Sequence[Example], seed: int = 0
) -> tuple[tuple[str, ...], ...]:
    """Finds groups of words that can be exchanged without changing the task.

    Two words belong together if exchanging them in random stories does not change the
    statistics of the stories (a permutation test). The statistics are the sentences of
    each word, the words that occur with it in a story, question or answer, and whether
    its sentence contains words of the question or of the answer.

    Args:
        examples: Questions of one task, in the order of their file.
        seed: Seed for the random exchanges.

    Returns:
        Groups of two or more words. The words of each group are sorted.

    Raises:
        ValueError: The examples come from several tasks.

    Example:
        ```python
        babi.interchangeable(babi.load(1))
        # (('bathroom', …), ('daniel', 'john', 'mary', 'sandra'), ('journeyed', …), …)
        ```
    """
    tasks = sorted({example.task for example in examples})
    if len(tasks) > 1:
        raise ValueError(f"`examples` must be of one task. Received: tasks={tasks}")
    stories = _by_story(examples)
    counts = [_features(story) for story in stories]
    contexts = _contexts(stories)
    generator = np.random.default_rng(seed)
    flips = generator.choice([-1.0, 1.0], (_FLIPS, len(stories)))
    words = sorted(contexts)
    alike = {
        pair
        for pair in itertools.combinations(words, 2)
        if _overlap(contexts[pair[0]], contexts[pair[1]]) >= _ALIKE
        and _same(pair, counts, flips)
    }
    return _groups(words, alike)


class Renamer:
    """Exchanges interchangeable words in arrays of stories.

    Args:
        groups: Maps each task to its groups of words; see `interchangeable`.
        vocabulary: Maps words to indices.
        variants: Number of precomputed random exchanges per task.
        seed: Seed for the random exchanges.
    """

    def __init__(
        self,
        groups: dict[int, tuple[tuple[str, ...], ...]],
        vocabulary: Vocabulary,
        variants: int = 500,
        seed: int = 0,
    ) -> None:
        self._generator = np.random.default_rng(seed)
        # Stacked tables of new indices; row 0 changes nothing.
        tables = [np.arange(len(vocabulary), dtype=np.int32)[None]]
        self._start = np.zeros(max(TASKS) + 1, int)
        self._count = np.ones(max(TASKS) + 1, int)
        for task, own in groups.items():
            self._start[task] = sum(map(len, tables))
            tables.append(self._table(own, vocabulary, variants))
            self._count[task] = len(tables[-1])
        self._rows = np.concatenate(tables)

    def __call__(
        self,
        tasks: np.ndarray,
        story: np.ndarray,
        question: np.ndarray,
        answers: np.ndarray,
        seed: int | Sequence[int] | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Exchanges words, independently in each example.

        Args:
            tasks: (N,) task number of each example.
            story: (N, M, L) integers.
            question: (N, L) integers.
            answers: (N,) integers.
            seed: Determines the exchanges of this call. None continues the random
                numbers of earlier calls.

        Returns:
            The story, question and answers after the exchange.
        """
        random = self._generator if seed is None else np.random.default_rng(seed)
        draws = random.integers(self._count[tasks])
        new = self._rows[self._start[tasks] + draws]  # (N, V)
        flat = story.reshape(len(story), math.prod(story.shape[1:]))
        return (
            np.take_along_axis(new, flat, axis=1).reshape(story.shape),
            np.take_along_axis(new, question, axis=1),
            np.take_along_axis(new, answers[:, None], axis=1)[:, 0],
        )

    def _table(
        self,
        groups: tuple[tuple[str, ...], ...],
        vocabulary: Vocabulary,
        variants: int,
    ) -> np.ndarray:
        """Returns up to `variants` rows of new indices, (·, V); row 0 is the identity.

        Each row maps the index of a word to the index of the word that replaces it.
        """
        rows = [np.arange(len(vocabulary), dtype=np.int32)]
        for _ in range(variants - 1):
            new = dict(
                itertools.chain.from_iterable(
                    zip(group, self._generator.permutation(group).tolist())
                    for group in groups
                )
            )
            row = [self._exchange(word, new) for word in vocabulary.words[2:]]
            # A list such as "apple,milk" is one word. An exchange is dropped if it
            # gives a list that is not in the vocabulary.
            if all(word in vocabulary for word in row):
                rows.append(np.array([0, 1, *vocabulary.encode(row)], np.int32))
        return np.stack(rows)

    @staticmethod
    def _exchange(word: str, new: dict[str, str]) -> str:
        return ",".join(new.get(part, part) for part in word.split(","))


def _by_story(examples: Sequence[Example]) -> list[list[Example]]:
    """Groups the questions by story."""
    stories: list[list[Example]] = []
    for example in examples:
        last = stories[-1][-1].story if stories else ()
        if last and example.story[: len(last)] == last:
            stories[-1].append(example)
        else:
            stories.append([example])
    return stories


def _contexts(stories: list[list[Example]]) -> dict[str, set[Hashable]]:
    """Returns for each word the sentences that contain it, with the word left blank."""
    found: dict[str, set[Hashable]] = defaultdict(set)
    for story in stories:
        sentences = {*story[-1].story, *(example.question for example in story)}
        for sentence in sentences:
            for word in set(sentence):
                found[word].add(_without(sentence, word))
    return found


def _features(story: list[Example]) -> dict[str, Features]:
    """Counts the features of each word in one story."""
    found: dict[str, Features] = defaultdict(Counter)
    facts = story[-1].story
    everything = {word for fact in facts for word in fact}
    for sentence in facts:
        for word in set(sentence):
            found[word]["in", _without(sentence, word)] += 1
    for word in everything:
        for other in everything - {word}:
            found[word]["with", other] += 1
    for example in story:
        _add_question(found, example)
    return found


def _add_question(found: dict[str, Features], example: Example) -> None:
    answer = example.answer or ""
    parts = set(answer.split(","))
    asked = set(example.question)
    told = {word for fact in example.story for word in fact}
    for word in asked:
        found[word]["asked", _without(example.question, word)] += 1
        for other in told - {word}:
            found[word]["asked of", other, _blank(answer, word)] += 1
    for word in parts:
        for other in (told | asked) - {word}:
            found[word]["answers", other] += 1
        for fact in example.story:
            found[word]["answers, told", _without(fact, word)] += 1
    for word in told:
        for other in asked - {word}:
            found[word]["told and asked", other, _blank(answer, word)] += 1
    for back, fact in enumerate(reversed(example.story)):
        shared = len(asked.intersection(fact))
        links = tuple(
            (place, example.question.index(word))
            for place, word in enumerate(fact)
            if word in asked
        )
        for place, word in enumerate(fact):
            role = bool(parts.intersection(fact)), shared, min(back, 3)
            found[word]["role", role] += 1
            found[word]["link", place, links, _blank(answer, word)] += 1


def _without(sentence: tuple[str, ...], word: str) -> tuple[str, ...]:
    return tuple("" if other == word else other for other in sentence)


def _blank(answer: str, word: str) -> str:
    return "" if answer == word else answer


def _overlap(one: set[Hashable], other: set[Hashable]) -> float:
    return len(one & other) / max(min(len(one), len(other)), 1)


def _same(
    pair: tuple[str, str], counts: list[dict[str, Features]], flips: np.ndarray
) -> bool:
    """Returns whether exchanging two words preserves the statistics of the stories."""
    one, other = pair
    kinds: dict[Hashable, int] = {}
    rows, columns, values = [], [], []
    for row, words in enumerate(counts):
        if one not in words and other not in words:
            continue
        for kind, value in _difference(words, one, other):
            rows.append(row)
            columns.append(kinds.setdefault(kind, len(kinds)))
            values.append(value)
    if len(set(rows)) < _LEAST:
        return False
    table = np.zeros((len(counts), len(kinds)))
    np.add.at(table, (rows, columns), values)
    used = np.abs(table).sum(axis=1) > 0
    table, flips = table[used], flips[:, used]
    scale = (table**2).sum(axis=0)
    real = table.sum(axis=0) ** 2 / scale
    samples = (flips @ table) ** 2 / scale
    total = (samples.sum(axis=1) >= real.sum()).mean()
    greatest = (samples.max(axis=1) >= real.max()).mean()
    return bool(min(total, greatest) > _LEVEL)


def _difference(
    words: dict[str, Features], one: str, other: str
) -> Iterator[tuple[Hashable, int]]:
    """Yields the features whose counts differ between two words in one story."""
    exchanged = {one: other, other: one}
    mine, theirs = words.get(one, Counter()), words.get(other, Counter())
    # Exchange the two words inside the features, too.
    mine = Counter({_map(k, exchanged): v for k, v in mine.items()})
    for kind in mine.keys() | theirs.keys():
        value = mine[kind] - theirs[kind]
        if value:
            yield kind, value


def _map(kind: Hashable, exchanged: dict[str, str]) -> Hashable:
    if isinstance(kind, tuple):
        return tuple(_map(part, exchanged) for part in kind)
    return exchanged.get(kind, kind) if isinstance(kind, str) else kind


def _groups(
    words: list[str], alike: set[tuple[str, str]]
) -> tuple[tuple[str, ...], ...]:
    """Returns groups of pairwise interchangeable words, largest first."""
    left, groups = list(words), []
    while left:
        best: list[str] = []
        for first in left:
            group = [first]
            for word in left:
                if all(tuple(sorted((word, w))) in alike for w in group):
                    group.append(word)
            best = max(best, group, key=len)
        if len(best) < 2:
            break
        groups.append(tuple(sorted(best)))
        left = [word for word in left if word not in best]
    return tuple(groups)
