"""Task 18: sizes, as in "Does the chocolate fit in the suitcase?"."""

from typing import NamedTuple

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.simulator.random_source import RandomSource
from keras_attention.datasets.babi.simulator.world import Words

_SWEETS: tuple[Words, ...] = (("chocolate",), ("box", "of", "chocolates"))
_BOXES: tuple[Words, ...] = (("box",), ("chest",), ("suitcase",), ("container",))
_BLOCK = 5  # facts told first, and questions asked after them
_TRIES = 100  # attempts before more facts are told


class _Fact(NamedTuple):
    """`big` is bigger than `small`."""

    big: Words
    small: Words


def story(task: int, random_source: RandomSource) -> list[Example]:
    """Writes a story of task 18: at least five facts and five questions.

    The sweets are smaller than the boxes, and the boxes have a random order. Each fact
    compares two random things. A question needs two facts. If a hundred attempts find
    fewer than five questions, five more facts and up to five more questions follow.
    """
    things = (*_SWEETS, *random_source.some(_BOXES, len(_BOXES)))  # smallest first
    facts: list[_Fact] = []
    sentences: list[Words] = []
    examples: list[Example] = []
    while True:
        for _ in range(_BLOCK):
            small, big = sorted(random_source.some(things, 2), key=things.index)
            facts.append(_Fact(big, small))
            sentences.append(_say(facts[-1], random_source))
        supports = _draw_supports(facts, random_source)
        for support in supports:
            words, answer = _ask(facts, support, random_source)
            examples.append(Example(task, tuple(sentences), words, answer, support))
        if len(supports) == _BLOCK:
            return examples


def _say(fact: _Fact, random_source: RandomSource) -> Words:
    if random_source.draw() < 0.5:
        return ("the", *fact.big, "is", "bigger", "than", "the", *fact.small)
    return ("the", *fact.small, "fits", "inside", "the", *fact.big)


def _draw_supports(
    facts: list[_Fact], random_source: RandomSource
) -> list[tuple[int, int]]:
    """Returns two facts for each of up to five questions; makes up to 100 attempts."""
    supports: list[tuple[int, int]] = []
    for _ in range(_TRIES):
        support = _draw_support(facts, random_source)
        if support is not None:
            supports.append(support)
        if len(supports) == _BLOCK:
            break
    return supports


def _draw_support(
    facts: list[_Fact], random_source: RandomSource
) -> tuple[int, int] | None:
    """Samples a fact and finds the first other fact about one of its things.

    Returns None unless the two facts imply which of the other two things is bigger.
    """
    index = random_source.below(len(facts))
    fact = facts[index]
    middle = random_source.choose(fact)
    for other, candidate in enumerate(facts):
        if other != index and middle in candidate:
            if middle == fact.small:
                return (index, other) if candidate.big == middle else None
            return (index, other) if candidate.small == middle else None
    return None


def _ask(
    facts: list[_Fact], support: tuple[int, int], random_source: RandomSource
) -> tuple[Words, str]:
    """Asks about two things, one from each fact; the facts share a third thing."""
    first, second = (facts[index] for index in support)
    if first.small == second.big:
        left, right, answer = first.big, second.small, "yes"
    else:
        left, right, answer = first.small, second.big, "no"
    if random_source.draw() < 0.5:
        return ("is", "the", *left, "bigger", "than", "the", *right), answer
    return ("does", "the", *right, "fit", "in", "the", *left), answer
