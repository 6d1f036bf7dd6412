"""Finds interchangeable words in stories and exchanges them.

In most tasks the names of people and places do not matter. Consistently exchanging
names in a story, its question and its answer then gives another valid story of the same
task. A thousand questions become many more without external data.
"""

from __future__ import annotations

import itertools
import math
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from keras_attention.datasets.babi.archive import TASKS, Example
from keras_attention.datasets.babi.joint_exchanges import Exchange, as_mapping
from keras_attention.datasets.babi.statistics import Statistics, exchange_word
from keras_attention.datasets.babi.vectors import Vocabulary


def interchangeable(
    examples: Sequence[Example], seed: int = 0
) -> tuple[tuple[str, ...], ...]:
    """Finds groups of words that can be exchanged without changing the task.

    Two words belong together if exchanging them in random stories does not change the
    statistics of the stories (a permutation test, see `statistics.py`). First, the
    statistics are the sentences of each word, the words that occur with it in a story,
    question or answer, and whether its sentence contains words of the question or of
    the answer. The groups are then tested again by patterns: a fact with its question
    and answer, in which the words of other groups are equal.

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
    statistics = Statistics(examples, seed)
    alike = [
        pair
        for pair in itertools.combinations(statistics.words, 2)
        if statistics.alike(*pair) and statistics.preserved(as_mapping([pair]))
    ]
    groups = _groups(statistics.words, alike)
    # The pairs of a group are tested again, by what facts say about questions.
    accepted = []
    for group in groups:
        others = [other for other in groups if other != group]
        patterns = Statistics(examples, seed, others)
        accepted += [
            pair
            for pair in itertools.combinations(group, 2)
            if patterns.preserved(as_mapping([pair]))
        ]
    return _groups(statistics.words, accepted)


class Renamer:
    """Exchanges interchangeable words in arrays of stories.

    Args:
        groups: Maps each task to its groups of words; see `interchangeable` and
            `find_exchanges`.
        vocabulary: Maps words to indices. It must have all words of `groups` and
            `joint`. The phrases of `find_exchanges` are words after `join_phrases`, so
            the examples of the vocabulary and of the arrays must first go through it.
        variants: Number of precomputed random exchanges per task.
        seed: Seed for the random exchanges.
        joint: Maps each task to its joint exchanges; see `joint_exchanges`.

    Raises:
        ValueError: `groups` or `joint` is no such dict, or one of their words is
            neither in the vocabulary nor part of a list in it, such as "apple,milk".

    Example:
        ```python
        examples = babi.simulate(17, 1000)
        phrases, groups, joint = babi.find_exchanges(examples)
        joined = babi.join_phrases(examples, phrases)
        vocabulary = babi.Vocabulary.from_examples(joined)
        rename = babi.Renamer({17: groups}, vocabulary, joint={17: joint})
        ```
    """

    def __init__(
        self,
        groups: dict[int, tuple[tuple[str, ...], ...]],
        vocabulary: Vocabulary,
        variants: int = 500,
        seed: int = 0,
        joint: dict[int, tuple[Exchange, ...]] | None = None,
    ) -> None:
        joint = joint or {}
        if not _is_by_task(groups, _is_group):
            raise ValueError(
                "`groups` must be a dict from tasks 1 to 20 to groups of words; for "
                "the result `found` of `find_exchanges`, pass {task: found.groups} and "
                f"joint={{task: found.joint}}. Received: groups={reprlib.repr(groups)}"
            )
        if not _is_by_task(joint, _is_exchange):
            raise ValueError(
                "`joint` must be a dict from tasks 1 to 20 to exchanges, which are "
                "tuples of pairs of words, such as {task: find_exchanges(…).joint}. "
                f"Received: joint={reprlib.repr(joint)}"
            )
        known = {part for word in vocabulary.words for part in word.split(",")}
        for task, alike in groups.items():
            _check_known("groups", task, itertools.chain(*alike), known)
        for task, exchanges in joint.items():
            pairs = itertools.chain(*exchanges)
            _check_known("joint", task, itertools.chain(*pairs), known)
        self._generator = np.random.default_rng(seed)
        # Stacked tables of new indices; row 0 changes nothing.
        tables = [np.arange(len(vocabulary), dtype=np.int32)[None]]
        self._start = np.zeros(max(TASKS) + 1, int)
        self._count = np.ones(max(TASKS) + 1, int)
        for task in groups.keys() | joint.keys():
            self._start[task] = sum(map(len, tables))
            exchanges_of_task = groups.get(task, ()), joint.get(task, ())
            tables.append(self._table(*exchanges_of_task, vocabulary, variants))
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
        joint: tuple[Exchange, ...],
        vocabulary: Vocabulary,
        variants: int,
    ) -> np.ndarray:
        """Returns up to `variants` rows of new indices, (·, V); row 0 is the identity.

        Each row maps the index of a word to the index of the word that replaces it.
        """
        rows = [np.arange(len(vocabulary), dtype=np.int32)]
        for _ in range(variants - 1):
            new: dict[str, str] = {}
            for group in groups:
                new.update(zip(group, self._generator.permutation(group).tolist()))
            for exchange in self._random_order(joint):
                other = as_mapping(exchange)
                old = {word: new.get(word, word) for word in (*new, *other)}
                new = {word: other.get(image, image) for word, image in old.items()}
            row = [exchange_word(word, new) for word in vocabulary.words[2:]]
            # A list such as "apple,milk" is one word. An exchange is dropped if it
            # gives a list that is not in the vocabulary.
            if all(word in vocabulary for word in row):
                rows.append(np.array([0, 1, *vocabulary.encode(row)], np.int32))
        return np.stack(rows)

    def _random_order(self, joint: tuple[Exchange, ...]) -> list[Exchange]:
        """Returns a random half of the exchanges, twice, in random order."""
        twice = [joint[n] for n in self._generator.permutation(len(joint))] * 2
        return [exchange for exchange in twice if self._generator.random() < 0.5]


def _is_by_task(by_task: Any, is_entry: Callable[[Any], bool]) -> bool:
    """Returns whether `given` maps tasks to collections of such entries."""
    return isinstance(by_task, Mapping) and all(
        isinstance(task, Integral)
        and task in TASKS
        and isinstance(entries, Collection)
        and all(map(is_entry, entries))
        for task, entries in by_task.items()
    )


def _is_group(entry: Any) -> bool:
    is_sequence = isinstance(entry, Sequence) and not isinstance(entry, str)
    return is_sequence and all(isinstance(word, str) for word in entry)


def _is_exchange(entry: Any) -> bool:
    is_sequence = isinstance(entry, Sequence) and not isinstance(entry, str)
    return is_sequence and all(_is_group(pair) and len(pair) == 2 for pair in entry)


def _check_known(name: str, task: int, words: Iterable[str], known: set[str]) -> None:
    for word in words:
        if word not in known:
            raise ValueError(
                f"`{name}` must hold words of `vocabulary`. A phrase such as "
                "'red_square' is one if `join_phrases` joined it in the examples of "
                f"the vocabulary. Received: {word!r} of task {task}"
            )


def _groups(
    words: list[str], alike: Collection[tuple[str, str]]
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
