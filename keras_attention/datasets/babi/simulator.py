"""A simulator of bAbI's tasks 1, 2 and 3, with the sentences of the real files.

People walk between places, pick objects up and put them down. After every second
fact a question is asked, if one can be answered; five questions make a story. The
rules below were inferred from the released files, which they match in sentences,
vocabulary, answers, supporting facts and length; the random draws are other ones.

Weston et al., 2015, https://arxiv.org/abs/1502.05698, sections 3 and 4.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np

from keras_attention.datasets.babi.archive import Example

PEOPLE = ("mary", "john", "sandra", "daniel")
PLACES = ("bedroom", "bathroom", "kitchen", "office", "garden", "hallway")
OBJECTS = ("apple", "football", "milk")
_GO = (("moved",), ("went",), ("journeyed",), ("travelled",), ("went", "back"))
_GET = (("got",), ("took",), ("grabbed",), ("picked", "up"))
_DROP = (("dropped",), ("left",), ("discarded",), ("put", "down"))

QUESTIONS_PER_STORY = 5
_FACTS_BETWEEN = 2  # facts told before each attempt to ask
_WINDOW = 5  # a question is about one of the last facts, so many of them
_THERE = 0.2  # how often "there" ends a sentence where it may be left out

_T = TypeVar("_T")


def simulate(
    task: int = 1,
    count: int = 1000,
    seed: int | Sequence[int] | np.random.SeedSequence | np.random.Generator = 0,
) -> list[Example]:
    """Makes questions of task 1, 2 or 3.

    1: "Where is Mary?" (one supporting fact). 2: "Where is the milk?" (two).
    3: "Where was the milk before the office?" (three).

    Args:
        task: 1, 2 or 3.
        count: How many questions. Stories have five each; the last may have fewer.
        seed: A seed of `numpy.random.default_rng`. A seed gives the same questions
            each time.

    Returns:
        A list of `count` `Example`s.

    Raises:
        ValueError: Another `task`, or a `count` below 0.

    Example:
        ```python
        examples = simulate(task=2, count=1000, seed=7)
        ```
    """
    if not isinstance(task, int) or task not in _ASK:
        raise ValueError(f"`task` must be 1, 2 or 3. Received: task={task!r}")
    if not isinstance(count, int) or count < 0:
        raise ValueError(
            f"`count` must be a whole number of at least 0. Received: count={count!r}"
        )
    dice = _Dice(np.random.default_rng(seed))
    examples: list[Example] = []
    while len(examples) < count:
        questions = min(QUESTIONS_PER_STORY, count - len(examples))
        examples.extend(_story(task, questions, dice))
    return examples


class _Fact(NamedTuple):
    person: str
    action: str  # "go", "get" or "drop"
    target: str  # a place or an object


class _Move(NamedTuple):
    fact: int  # index of the fact that tells it
    place: str


class _Question(NamedTuple):
    words: tuple[str, ...]
    answer: str
    supporting_facts: tuple[int, ...]


def _story(task: int, questions: int, dice: "_Dice") -> list[Example]:
    world = _World(dice)
    notes = _Notes()
    actions = ("go",) if task == 1 else ("go", "get", "drop")
    examples: list[Example] = []
    sentences: list[tuple[str, ...]] = []
    while len(examples) < questions:
        for _ in range(_FACTS_BETWEEN):
            fact = world.act(actions)
            notes.add(fact)
            sentences.append(_say(fact, task, dice))
        question = _ASK[task](notes, dice)
        if question is not None:
            examples.append(Example(task, tuple(sentences), *question))
    return examples


class _Dice:
    """Uniform draws, taken from a NumPy generator in blocks."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._block: list[float] = []

    def draw(self) -> float:
        if not self._block:
            self._block = self._generator.random(4096).tolist()
        return self._block.pop()

    def choose(self, options: Sequence[_T]) -> _T:
        return options[int(self.draw() * len(options))]


class _World:
    """Who and what is where, whether told or not."""

    def __init__(self, dice: _Dice) -> None:
        self.dice = dice
        self.place = {name: dice.choose(PLACES) for name in PEOPLE + OBJECTS}
        self.carrier: dict[str, str | None] = dict.fromkeys(OBJECTS)

    def act(self, actions: Sequence[str]) -> _Fact:
        """Draws a person and an action until the two can be, and does it."""
        while True:
            person = self.dice.choose(PEOPLE)
            action = self.dice.choose(actions)
            targets = self._targets(person, action)
            if not targets:
                continue
            target = self.dice.choose(targets)
            if action == "go":
                if target == self.place[person]:
                    continue
                self.place[person] = target
            elif action == "get":
                self.carrier[target] = person
            else:
                self.carrier[target] = None
                self.place[target] = self.place[person]
            return _Fact(person, action, target)

    def _targets(self, person: str, action: str) -> Sequence[str]:
        if action == "go":
            return PLACES
        if action == "drop":
            return [name for name in OBJECTS if self.carrier[name] == person]
        return [
            name
            for name in OBJECTS
            if self.carrier[name] is None and self.place[name] == self.place[person]
        ]


@dataclass(slots=True)
class _Object:
    """What a reader knows of an object since it was last picked up."""

    carrier: str
    event: int  # the fact that tells of its getting or dropping, the later one
    carried: bool = True
    moves: list[_Move] = field(default_factory=list)  # with it in hand
    place: _Move | None = None  # the move that tells where it is; none until one does


class _Notes:
    """What a reader knows after each fact, and which facts say so."""

    def __init__(self) -> None:
        self.facts: list[_Fact] = []
        self.people: dict[str, _Move] = {}  # each person's last move
        self.objects: dict[str, _Object] = {}

    def add(self, fact: _Fact) -> None:
        index = len(self.facts)
        self.facts.append(fact)
        if fact.action == "go":
            move = _Move(index, fact.target)
            self.people[fact.person] = move
            for known in self.objects.values():
                if known.carried and known.carrier == fact.person:
                    known.moves.append(move)
                    known.place = move
        elif fact.action == "get":
            self.objects[fact.target] = _Object(fact.person, index)
        else:
            known = self.objects[fact.target]
            known.carried = False
            known.event = index
            known.place = self.people.get(fact.person)

    def recent(self) -> list[_Fact]:
        return self.facts[-_WINDOW:]

    def recent_objects(self, answerable: Callable[[_Object], bool]) -> list[str]:
        """Objects of recent facts, as often as they come, if they are answerable."""
        return [
            fact.target
            for fact in self.recent()
            if fact.action != "go" and answerable(self.objects[fact.target])
        ]


def _ask_person(notes: _Notes, dice: _Dice) -> _Question:
    """Task 1: where is someone of the recent facts?"""
    person = dice.choose(notes.recent()).person
    move = notes.people[person]
    return _Question(("where", "is", person), move.place, (move.fact,))


def _ask_object(notes: _Notes, dice: _Dice) -> _Question | None:
    """Task 2: where is an object whose place since its last event is known?"""
    names = notes.recent_objects(lambda known: known.place is not None)
    if not names:
        return None
    name = dice.choose(names)
    known = notes.objects[name]
    move = known.place
    assert move is not None, name  # only objects with a known place are in `names`
    words = ("where", "is", "the", name)
    return _Question(words, move.place, (known.event, move.fact))


def _ask_place_before(notes: _Notes, dice: _Dice) -> _Question | None:
    """Task 3: of two moves with the object in hand, where did the second begin?"""
    names = notes.recent_objects(lambda known: len(known.moves) > 1)
    if not names:
        return None
    name = dice.choose(names)
    known = notes.objects[name]
    last_visit = {move.place: index for index, move in enumerate(known.moves)}
    second = dice.choose([index for index in last_visit.values() if index > 0])
    before, after = known.moves[second - 1], known.moves[second]
    words = ("where", "was", "the", name, "before", "the", after.place)
    return _Question(words, before.place, (known.event, after.fact, before.fact))


_ASK: dict[int, Callable[[_Notes, _Dice], _Question | None]] = {
    1: _ask_person,
    2: _ask_object,
    3: _ask_place_before,
}


def _say(fact: _Fact, task: int, dice: _Dice) -> tuple[str, ...]:
    person, action, target = fact
    if action == "go":
        return (person, *dice.choose(_GO), "to", "the", target)
    if action == "get":
        there = task == 2 or dice.draw() < _THERE
        verb = dice.choose(_GET)
    else:
        there = dice.draw() < _THERE
        verb = dice.choose(_DROP)
    return (person, *verb, "the", target, *(("there",) if there else ()))
