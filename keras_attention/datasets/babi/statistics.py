"""Statistics of stories, and a test of whether an exchange of words preserves them.

The test is a permutation test. It exchanges the words in random stories and compares
how often each feature of the words occurs before and after the exchange.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np

from keras_attention.datasets.babi.archive import Example

_FLIPS = 1000  # number of random exchanges in the permutation test
_LEVEL = 0.002  # p-value below which an exchange does not preserve the statistics
_LEAST = 20  # minimum number of stories that an exchange changes
_RARE = 10  # minimum number of stories with a feature; rarer ones prove nothing
_ALIKE = 0.3  # minimum share of a word's sentences that also occur with the other word

# The first part of a feature is in capitals, so that it equals no word of a story.
Features = Counter[Hashable]
Feature = tuple[str, Hashable]


class Statistics:
    """Features of the words of one task, story by story.

    Without `groups`, the features are the sentences of each word, the words that occur
    with it in a story, question or answer, and whether its sentence contains words of
    the question or of the answer.

    With `groups`, the features are patterns: a fact with its question and answer. A
    pattern has the place in the question for each word of a group that the question
    contains, and the number of the group for each other word of a group.

    Args:
        examples: Questions of one task, in the order of their file.
        seed: Seed for the random exchanges.
        groups: Groups of words that are equal in patterns, or None.

    Attributes:
        words: All words, sorted.

    Raises:
        ValueError: The examples come from several tasks.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        seed: int = 0,
        groups: Sequence[Sequence[str]] | None = None,
    ) -> None:
        tasks = sorted({example.task for example in examples})
        if len(tasks) > 1:
            raise ValueError(f"`examples` must be of one task. Received: tasks={tasks}")
        stories = _by_story(examples)
        if groups is None:
            counts = [_features(story) for story in stories]
        else:
            names = {word: n for n, group in enumerate(groups) for word in group}
            counts = [_patterns(story, names) for story in stories]
        self._contexts = _contexts(stories)
        self.words = sorted(self._contexts)
        generator = np.random.default_rng(seed)
        flips = generator.choice([-1.0, 1.0], (_FLIPS, len(stories)))
        self._flips = flips.astype(np.float32)
        self._stories: dict[str, set[int]] = defaultdict(set)
        rows_of: dict[Feature, list[tuple[int, int]]] = defaultdict(list)
        for row, features_of in enumerate(counts):
            for word, features in features_of.items():
                self._stories[word].add(row)
                for kind, count in features.items():
                    rows_of[word, kind].append((row, count))
        # Most features occur in one story only. They prove nothing.
        rows_of = {key: places for key, places in rows_of.items() if len(places) > 1}
        self._frequency = np.array([len(places) for places in rows_of.values()], int)
        self._entries = np.array(
            [
                (number, *place)
                for number, places in enumerate(rows_of.values())
                for place in places
            ],
            int,
        ).reshape(-1, 3)  # feature, story, count
        self._tokens: dict[Hashable, int] = {None: 0}
        flat = [
            [self._tokens.setdefault(token, len(self._tokens)) for token in _flat(key)]
            for key in rows_of
        ]
        longest = max(map(len, flat), default=0)
        self._features = np.zeros((len(flat), longest), int)
        for tokens, numbers in zip(self._features, flat):
            tokens[: len(numbers)] = numbers
        # A feature is found by a random number, the sum over its tokens.
        self._random = generator.integers(
            0, 2**64, (longest, len(self._tokens) + 1), np.uint64, endpoint=False
        )
        self._keys = self._key(self._features)
        self._order = np.argsort(self._keys)

    def _key(self, features: np.ndarray) -> np.ndarray:
        return self._random[np.arange(features.shape[1]), features].sum(1)

    def alike(self, word: str, other: str) -> bool:
        """Returns whether two words occur in the same sentences."""
        mine, theirs = self._contexts[word], self._contexts[other]
        return len(mine & theirs) / max(min(len(mine), len(theirs)), 1) >= _ALIKE

    def preserved(self, exchange: Mapping[str, str]) -> bool:
        """Returns whether an exchange of words preserves the statistics of the stories.

        Args:
            exchange: Maps words to words. If it maps a word to another one, it must map
                the other one back.
        """
        stories = {row for word in exchange for row in self._stories[word]}
        if len(stories) < _LEAST:
            return False
        image = np.arange(len(self._tokens) + 1)  # the last stands for new words
        for word, new in exchange.items():
            if word in self._tokens:
                image[self._tokens[word]] = self._tokens.get(new, len(self._tokens))
        first, other = self._exchanged(image)
        frequency = self._frequency[first].copy()
        frequency[other >= 0] += self._frequency[other[other >= 0]]
        first, other = first[frequency >= _RARE], other[frequency >= _RARE]
        table = np.zeros((self._flips.shape[1], len(first)), np.float32)
        feature, row, count = self._entries.T
        for sign, features in ((1, first), (-1, other)):
            column = np.full(len(self._keys), -1)
            column[features[features >= 0]] = np.flatnonzero(features >= 0)
            known = column[feature] >= 0
            table[row[known], column[feature[known]]] += sign * count[known]
        table = table[:, table.any(axis=0)]
        if not table.size:
            return True
        used = table.any(axis=1)
        table, flips = table[used], self._flips[:, used]
        scale = (table**2).sum(axis=0)
        real = table.sum(axis=0) ** 2 / scale
        samples = (flips @ table) ** 2 / scale
        total = (samples.sum(axis=1) >= real.sum()).mean()
        greatest = (samples.max(axis=1) >= real.max()).mean()
        return bool(min(total, greatest) > _LEVEL)

    def _exchanged(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns pairs of features that are exchanged; -1 if no story has the second.

        Args:
            image: The number of the token that replaces each token.
        """
        changed = np.flatnonzero((image[self._features] != self._features).any(1))
        keys = self._key(image[self._features[changed]])
        at = np.searchsorted(self._keys, keys, sorter=self._order)
        nearest = self._order[np.minimum(at, len(self._order) - 1)]
        other = np.where(self._keys[nearest] == keys, nearest, -1)
        first = (other < 0) | (changed < other)  # each pair once
        return changed[first], other[first]


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
    contexts: dict[str, set[Hashable]] = defaultdict(set)
    for story in stories:
        sentences = {*story[-1].story, *(example.question for example in story)}
        for sentence in sentences:
            for word in set(sentence):
                contexts[word].add(_without(sentence, word))
    return contexts


def _features(story: list[Example]) -> dict[str, Features]:
    """Counts the features of each word in one story."""
    counts: dict[str, Features] = defaultdict(Counter)
    facts = story[-1].story
    everything = {word for fact in facts for word in fact}
    for sentence in facts:
        for word in set(sentence):
            counts[word]["IN", _without(sentence, word)] += 1
    for word in everything:
        for other in everything - {word}:
            counts[word]["WITH", other] += 1
    for example in story:
        _add_question(counts, example)
    return counts


def _add_question(counts: dict[str, Features], example: Example) -> None:
    answer = example.answer or ""
    parts = set(answer.split(","))
    asked = set(example.question)
    told = {word for fact in example.story for word in fact}
    for word in asked:
        counts[word]["ASKED", _without(example.question, word)] += 1
        for other in told - {word}:
            counts[word]["ASKED OF", other, _blank(answer, word)] += 1
    for word in parts:
        for other in (told | asked) - {word}:
            counts[word]["ANSWERS", other] += 1
        for fact in example.story:
            counts[word]["ANSWERS, TOLD", _without(fact, word)] += 1
    for word in told:
        for other in asked - {word}:
            counts[word]["TOLD AND ASKED", other, _blank(answer, word)] += 1
    for back, fact in enumerate(reversed(example.story)):
        shared = len(asked.intersection(fact))
        links = tuple(
            (place, example.question.index(word))
            for place, word in enumerate(fact)
            if word in asked
        )
        for place, word in enumerate(fact):
            role = bool(parts.intersection(fact)), shared, min(back, 3)
            counts[word]["ROLE", role] += 1
            counts[word]["LINK", place, links, _blank(answer, word)] += 1


def _patterns(story: list[Example], names: Mapping[str, int]) -> dict[str, Features]:
    """Counts the patterns of each word that is in no group, in one story."""
    counts: dict[str, Features] = defaultdict(Counter)
    for example in story:
        classes: dict[str, Hashable] = {
            word: ("GROUP", name) for word, name in names.items()
        }
        for place, word in enumerate(example.question):
            if word in names:
                classes[word] = "PLACE", place
        asked = _pattern(example.question, classes)
        said = _pattern((example.answer or "").split(","), classes)
        for fact in example.story:
            kind = _pattern(fact, classes), asked, said
            for word in {*fact, *example.question}.difference(names):
                counts[word][kind] += 1
    return counts


def _pattern(
    words: Sequence[str], classes: Mapping[str, Hashable]
) -> tuple[Hashable, ...]:
    return tuple(classes.get(word, word) for word in words)


def _without(sentence: tuple[str, ...], word: str) -> tuple[str, ...]:
    return tuple("" if other == word else other for other in sentence)


def _blank(answer: str, word: str) -> str:
    return "" if answer == word else answer


def exchange_word(word: str, exchange: Mapping[str, str]) -> str:
    """Exchanges a word, or each part of a list such as `"apple,milk"`."""
    return ",".join(exchange.get(part, part) for part in word.split(","))


def _flat(kind: Hashable) -> Iterator[Hashable]:
    """Yields the words of a feature, the parts of lists, and marks of its structure.

    Marks are no strings, so that no exchange changes them.
    """
    if isinstance(kind, tuple):
        yield 0, "("
        for part in kind:
            yield from _flat(part)
        yield 0, ")"
    elif isinstance(kind, str):
        yield from kind.split(",")
        yield 0, ","
    else:
        yield 0, repr(kind)
