"""Tasks 4 and 19: relative positions of places, and paths between them."""

from collections.abc import Sequence
from typing import NamedTuple

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.simulator.random_source import RandomSource
from keras_attention.datasets.babi.simulator.world import PLACES, Words

_OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}
_DIRECTIONS = tuple(_OPPOSITE)
_PASSAGES = 5  # facts of a story of task 19


def story(task: int, random_source: RandomSource) -> list[Example]:
    """Writes a story of task 4 or 19 with one question."""
    return [_neighbour(task, random_source) if task == 4 else _way(task, random_source)]


class _Fact(NamedTuple):
    """`subject` lies in `direction` from `object`."""

    subject: str
    direction: str
    object: str

    def turned(self) -> "_Fact":
        return _Fact(self.object, _OPPOSITE[self.direction], self.subject)

    def words(self) -> Words:
        return ("the", self.subject, "is", self.direction, "of", "the", self.object)


def _tell(facts: Sequence[_Fact], random_source: RandomSource) -> list[_Fact]:
    """Returns the facts in random order, some of them inverted.

    A place and one of its neighbors are sampled until all facts are told. The place
    becomes the subject of the sentence. Places with few neighbors therefore come
    earlier and are more often subjects.
    """
    around: dict[str, list[int]] = {}
    for index, fact in enumerate(facts):
        around.setdefault(fact.subject, []).append(index)
        around.setdefault(fact.object, []).append(index)
    places = tuple(around)
    told: dict[int, _Fact] = {}
    while len(told) < len(facts):
        place = random_source.choose(places)
        index = random_source.choose(around[place])
        if index not in told:
            fact = facts[index]
            told[index] = fact if fact.subject == place else fact.turned()
    return list(told.values())


def _neighbour(task: int, random_source: RandomSource) -> Example:
    """Tells the order of three places in a row and asks which is next to another."""
    before, middle, after = random_source.some(PLACES, 3)
    direction = random_source.choose(_DIRECTIONS)
    row = [_Fact(before, direction, middle), _Fact(middle, direction, after)]
    facts = _tell(row, random_source)
    index = random_source.below(len(facts))
    answer, direction, place = facts[index]
    words: Words = ("what", "is", direction, "of", "the", place)
    if random_source.draw() < 0.5:
        words = ("what", "is", "the", place, _OPPOSITE[direction], "of")
    story = tuple(fact.words() for fact in facts)
    return Example(task, story, words, answer, (index,))


def _way(task: int, random_source: RandomSource) -> Example:
    """Tells a path of two steps and three more adjacent places; asks for the path.

    The directions from a place to its neighbors differ. As in the real files, two
    places may have the same position.
    """
    names = random_source.some(PLACES, len(PLACES))
    start, middle, end = names[:3]
    first = random_source.choose(_DIRECTIONS)
    second = random_source.other(_DIRECTIONS, _OPPOSITE[first])
    path = [_Fact(middle, first, start), _Fact(end, second, middle)]
    used = {(fact.object, fact.direction) for fact in path}
    used |= {(fact.subject, _OPPOSITE[fact.direction]) for fact in path}
    exits = [(p, d) for p in names[:3] for d in _DIRECTIONS if (p, d) not in used]
    chosen = random_source.some(exits, _PASSAGES - len(path))
    blind = [_Fact(name, d, p) for name, (p, d) in zip(names[3:], chosen)]
    facts = _tell(path + blind, random_source)
    support = tuple(_index(fact, facts) for fact in path)
    words = ("how", "do", "you", "go", "from", "the", start, "to", "the", end)
    story = tuple(fact.words() for fact in facts)
    return Example(task, story, words, f"{first[0]},{second[0]}", support)


def _index(fact: _Fact, facts: Sequence[_Fact]) -> int:
    """Returns the index of a fact or of its inverse."""
    return facts.index(fact) if fact in facts else facts.index(fact.turned())
