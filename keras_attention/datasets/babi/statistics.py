"""Statistics of stories, and a test of whether an exchange of words preserves them.

The test is a permutation test. It exchanges the words in random stories and compares
how often each feature of the words occurs before and after the exchange.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_attention.datasets.babi.archive import Example

_FLIPS = 1000  # number of random exchanges in the permutation test
_LEVEL = 0.002  # p-value below which an exchange does not preserve the statistics
_LEAST = 20  # minimum number of stories that an exchange changes
_RARE = 10  # minimum number of stories with a feature; rarer ones prove nothing
_ALIKE = 0.3  # minimum share of a word's sentences that also occur with the other word

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
        entries: dict[Feature, list[tuple[int, int]]] = defaultdict(list)
        for row, own in enumerate(counts):
            for word, features in own.items():
                self._stories[word].add(row)
                for kind, count in features.items():
                    entries[word, kind].append((row, count))
        # By feature: the stories with this feature, and how often each contains it.
        self._entries = {key: np.array(own) for key, own in entries.items()}
        self._inside: dict[str, list[Feature]] = defaultdict(list)
        # Of two features with `_RARE` stories, one has at least half of them.
        for feature in [k for k, own in self._entries.items() if 2 * len(own) >= _RARE]:
            for word in set(_words(feature)):
                self._inside[word].append(feature)

    def alike(self, one: str, other: str) -> bool:
        """Returns whether two words occur in the same sentences."""
        mine, theirs = self._contexts[one], self._contexts[other]
        return _overlap(mine, theirs) >= _ALIKE

    def preserved(self, exchange: Mapping[str, str]) -> bool:
        """Returns whether an exchange of words preserves the statistics of the stories.

        Args:
            exchange: Maps words to words. If it maps a word to another one, it must map
                the other one back.
        """
        stories = {row for word in exchange for row in self._stories[word]}
        if len(stories) < _LEAST:
            return False
        changed: dict[Feature, Feature] = {}  # one of two features that are exchanged
        for word in exchange:
            for feature in self._inside[word]:
                new = _map(feature, exchange)
                if new != feature and new not in changed:
                    changed[feature] = new
        none = np.empty((0, 2), int)
        columns = []
        for pair in changed.items():
            mine, theirs = (self._entries.get(feature, none) for feature in pair)
            if len(mine) + len(theirs) >= _RARE:
                columns.append((mine, theirs))
        table = np.zeros((self._flips.shape[1], len(columns)), np.float32)
        for column, (mine, theirs) in enumerate(columns):
            table[mine[:, 0], column] += mine[:, 1]
            table[theirs[:, 0], column] -= theirs[:, 1]
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


def _patterns(story: list[Example], names: Mapping[str, int]) -> dict[str, Features]:
    """Counts the patterns of each word that is in no group, in one story."""
    found: dict[str, Features] = defaultdict(Counter)
    for example in story:
        places = {
            word: place
            for place, word in enumerate(example.question)
            if word in names
        }

        def pattern(words: Sequence[str]) -> tuple[Hashable, ...]:
            return tuple(
                ("place", places[word])
                if word in places
                else ("group", names[word])
                if word in names
                else word
                for word in words
            )

        asked = pattern(example.question)
        said = pattern((example.answer or "").split(","))
        for fact in example.story:
            kind = pattern(fact), asked, said
            for word in {*fact, *example.question}.difference(names):
                found[word][kind] += 1
    return found


def _without(sentence: tuple[str, ...], word: str) -> tuple[str, ...]:
    return tuple("" if other == word else other for other in sentence)


def _blank(answer: str, word: str) -> str:
    return "" if answer == word else answer


def _overlap(one: set[Hashable], other: set[Hashable]) -> float:
    return len(one & other) / max(min(len(one), len(other)), 1)


def exchange_word(word: str, exchange: Mapping[str, str]) -> str:
    """Exchanges a word, or each part of a list such as `"apple,milk"`."""
    return ",".join(exchange.get(part, part) for part in word.split(","))


def _map(kind: Any, exchange: Mapping[str, str]) -> Any:
    if isinstance(kind, tuple):
        return tuple(_map(part, exchange) for part in kind)
    return exchange_word(kind, exchange) if isinstance(kind, str) else kind


def _words(kind: Hashable) -> Iterator[str]:
    """Yields all words of a feature, and the parts of lists."""
    if isinstance(kind, tuple):
        for part in kind:
            yield from _words(part)
    elif isinstance(kind, str):
        yield from kind.split(",")
