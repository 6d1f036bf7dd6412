"""Finds exchanges of several words at once that give another story of the same task.

A mirrored map is a map again: in path finding, *east* and *west* may be exchanged if
the answers' *e* and *w* are exchanged with them. Neither exchange is possible alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.statistics import Statistics

Exchange = tuple[tuple[str, str], ...]

_LARGEST = 6  # maximum number of words that are exchanged with each other


def joint_exchanges(
    examples: Sequence[Example], groups: Sequence[Sequence[str]] = (), seed: int = 0
) -> tuple[Exchange, ...]:
    """Finds joint exchanges of words that do not change the task.

    Candidates are exchanges of pairs of words with shared sentences, together with
    exchanges of pairs of words that only answers contain. A candidate is accepted by
    the permutation test of `interchangeable`. Candidates with few pairs are tested
    first; products of accepted exchanges and of exchanges in `groups` are left out.

    Args:
        examples: Questions of one task, in the order of their file.
        groups: Words that can be exchanged alone; see `interchangeable`.
        seed: Seed for the random exchanges of the test.

    Returns:
        Exchanges, each a tuple of pairs of words.

    Raises:
        ValueError: The examples come from several tasks.

    Example:
        ```python
        babi.joint_exchanges(babi.load(19))
        # ((('east', 'west'), ('e', 'w')), (('north', 'south'), ('n', 's')), …)
        ```
    """
    statistics = Statistics(examples, seed)
    answers = {w for e in examples if e.answer for w in e.answer.split(",")}
    said_only = sorted(answers.difference(statistics.words))
    if len(said_only) > _LARGEST:
        said_only = []
    accepted: list[Exchange] = []
    for words in _classes(statistics):
        known: list[Exchange] = [
            (pair,)
            for group in groups
            for pair in itertools.combinations(sorted({*group}.intersection(words)), 2)
        ]
        reached = _products(known, words)
        candidates = _matchings(words)
        if all(_images(told, words) in reached for told in candidates):
            continue
        # Groups that share no word with the class are equal in patterns.
        others = [group for group in groups if not {*group}.intersection(words)]
        patterns = Statistics(examples, seed, others)
        for told in candidates:
            if _images(told, words) in reached:
                continue
            for said in ((), *_matchings(said_only)):
                exchange = *told, *said
                mapping = as_mapping(exchange)
                if patterns.preserved(mapping) and statistics.preserved(mapping):
                    accepted.append(exchange)
                    reached = _products([*known, *accepted], words)
                    break
    return tuple(accepted)


def as_mapping(exchange: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Maps each word to the word that replaces it."""
    return dict(exchange) | {other: word for word, other in exchange}


def _classes(statistics: Statistics) -> Iterator[tuple[str, ...]]:
    """Yields classes of two to six words that share sentences, directly or not."""
    left = list(statistics.words)
    while left:
        words, new = [left[0]], [left.pop(0)]
        while new:
            first = new.pop()
            alike = [word for word in left if statistics.alike(first, word)]
            left = [word for word in left if word not in alike]
            words += alike
            new += alike
        if 2 <= len(words) <= _LARGEST:
            yield tuple(sorted(words))


def _matchings(words: Sequence[str]) -> list[Exchange]:
    """Returns all sets of disjoint pairs, small sets first, without the empty set."""

    def extended(left: Sequence[str]) -> Iterator[Exchange]:
        if not left:
            yield ()
            return
        first, others_left = left[0], left[1:]
        yield from extended(others_left)
        for other in others_left:
            others = [word for word in others_left if word != other]
            yield from (((first, other), *pairs) for pairs in extended(others))

    return sorted((pairs for pairs in extended(words) if pairs), key=len)


def _images(exchange: Exchange, words: Sequence[str]) -> tuple[str, ...]:
    new = as_mapping(exchange)
    return tuple(new.get(word, word) for word in words)


def _products(
    exchanges: Sequence[Exchange], words: tuple[str, ...]
) -> set[tuple[str, ...]]:
    """Returns the images of `words` under all products of exchanges."""
    reached, new = {words}, [words]
    while new:
        images = new.pop()
        for exchange in exchanges:
            mapping = as_mapping(exchange)
            product = tuple(mapping.get(word, word) for word in images)
            if product not in reached:
                reached.add(product)
                new.append(product)
    return reached
