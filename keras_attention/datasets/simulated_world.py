"""The simulated world of Weston et al., 2014: four people, three objects, five rooms.

People go from room to room, get objects and drop them; the questions ask where someone
or something is. `difficulty` sets how far back the answer may lie. Weston et al.,
*Memory Networks*, 2014, https://arxiv.org/abs/1410.3916, section 5.2.

```python
from keras_attention.datasets import simulated_world

train = simulated_world.simulate(difficulty=5, questions="actor+object")
```
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.simulator.random_source import RandomSource
from keras_attention.datasets.babi.simulator.world import (
    OBJECTS,
    PEOPLE,
    PLACES,
    Fact,
    Words,
    World,
    say,
)
from keras_attention.datasets.choices import check_choice
from keras_attention.datasets.sizes import check_size

_ROOMS = PLACES[:5]
_KINDS = {
    "actor": ("actor",),
    "actor+before": ("actor", "before"),
    "actor+object": ("actor", "object"),
    "actor+object+before": ("actor", "object", "before"),
}
_STATEMENTS_PER_STORY = 35
_STATEMENTS, _QUESTIONS = 7, 3  # ratio of statements to questions
_HARDEST = 10
_WAITING = 10  # number of sampled questions that wait for a fitting story


def simulate(
    count: int = 3000,
    difficulty: int = 1,
    questions: str = "actor",
    seed: int | Sequence[int] | np.random.SeedSequence | np.random.Generator = 0,
) -> list[Example]:
    """Simulates stories and questions about them.

    There are seven statements for every three questions. By default, there are 3,000
    questions and 7,000 statements, as in the paper. For each question, an age from 1 to
    `difficulty` is sampled. The newest statement that the answer needs has this age;
    the last statement of the story has age 1.

    The paper uses difficulty 1 and 5 and counts from the last mention of a person or
    object. This module makes four choices of its own: it uses the names of bAbI, a
    story has 35 statements, each kind of question is equally frequent, and questions
    with "before" are only about people.

    Args:
        count: Number of questions.
        difficulty: An integer from 1 to 10.
        questions: `"actor"`: "Where is Mary?", answered by one statement.
            `"actor+object"`: also "Where is the milk?", answered by two.
            `"actor+before"` and `"actor+object+before"`: also "Where was Mary before
            the office?", answered by two. The question is about Mary's last move to
            the office.
        seed: Seed for `numpy.random.default_rng`. The same seed gives the same
            questions.

    Returns:
        A list of `count` babi `Example`s. `task` is 1 for questions about a person and
        2 for questions about an object, like the first two bAbI tasks; it is 3 for
        questions with "before". The supporting facts of an object are its last pickup
        or drop and the move that determines its place. Those of "before" are the move
        to the named room and the person's move before it.

    Raises:
        ValueError: `count` is below 0, `difficulty` is out of range, or `questions` is
            unknown.

    Example:
        ```python
        examples = simulate(count=300, difficulty=5, seed=7)
        ```
    """
    check_size("count", count, least=0)
    if not isinstance(difficulty, int) or not 1 <= difficulty <= _HARDEST:
        raise ValueError(
            f"`difficulty` must be a whole number from 1 to {_HARDEST}. "
            f"Received: difficulty={difficulty!r}"
        )
    check_choice("questions", questions, _KINDS, f"one of {list(_KINDS)}")
    random_source = RandomSource(np.random.default_rng(seed))
    asker = _Asker(random_source, _KINDS[questions], difficulty)
    examples: list[Example] = []
    statements = 0
    while len(examples) < count:
        world = World(random_source, PEOPLE, _ROOMS)
        notes = _Notes()
        story: list[Words] = []
        for _ in range(_STATEMENTS_PER_STORY):
            fact = world.act()
            notes.add(fact)
            story.append(say(fact, random_source, with_adverb=False))
            statements += 1
            due = statements * _QUESTIONS // _STATEMENTS > len(examples)
            known = asker.choose(notes) if due else None
            if known is not None:
                examples.append(_ask(known, tuple(story)))
    return examples[:count]


class _Known(NamedTuple):
    kind: str  # "actor", "object" or "before"
    name: str
    room: str
    facts: tuple[int, ...]  # facts that support the room
    later: str = ""  # of "before": the room after it


class _Notes:
    """A reader's knowledge: the last moves and the state of the objects."""

    def __init__(self) -> None:
        self.count = 0
        self.moves: dict[str, tuple[int, str]] = {}  # person: fact and room
        # Person and room: the last move there and the person's move before it
        self.before: dict[tuple[str, str], tuple[int, int, str]] = {}
        self.events: dict[str, int] = {}  # object: last pickup or drop
        self.holders: dict[str, str] = {}  # object: carrier
        self.left: dict[str, tuple[int, str] | None] = {}  # object: carrier's move

    def add(self, fact: Fact) -> None:
        person, action, target, _ = fact
        if action == "go":
            if person in self.moves:
                self.before[person, target] = self.count, *self.moves[person]
            self.moves[person] = self.count, target
        else:
            self.events[target] = self.count
            if action == "get":
                self.holders[target] = person
            else:
                self.left[target] = self.moves.get(self.holders.pop(target))
        self.count += 1

    def known(self) -> list[_Known]:
        """Returns all that a question may ask for."""
        askable = [
            _Known("actor", person, room, (fact,))
            for person, (fact, room) in self.moves.items()
        ]
        for name in OBJECTS:
            if name in self.holders:
                move = self.moves.get(self.holders[name])
            else:
                move = self.left.get(name)
            if move is not None:
                fact, room = move
                askable.append(_Known("object", name, room, (self.events[name], fact)))
        for (person, later), (new, old, room) in self.before.items():
            askable.append(_Known("before", person, room, (new, old), later))
        return askable


class _Asker:
    """Samples questions; impossible ones wait until the story allows them."""

    def __init__(
        self, random_source: RandomSource, kinds: Sequence[str], difficulty: int
    ) -> None:
        self.random_source = random_source
        self.kinds = kinds
        self.difficulty = difficulty
        self.waiting: list[tuple[str, int]] = []  # kind and age

    def choose(self, notes: _Notes) -> _Known | None:
        """Returns the next question, or None if no waiting question is possible yet."""
        while len(self.waiting) < _WAITING:
            kind = self.random_source.choose(self.kinds)
            self.waiting.append((kind, 1 + self.random_source.below(self.difficulty)))
        known = notes.known()
        for index, (kind, age) in enumerate(self.waiting):
            last = notes.count - age
            fitting = [k for k in known if k.kind == kind and max(k.facts) == last]
            if fitting:
                del self.waiting[index]
                return self.random_source.choose(fitting)
        return None


def _ask(known: _Known, story: tuple[Words, ...]) -> Example:
    if known.kind == "actor":
        words: Words = ("where", "is", known.name)
        return Example(1, story, words, known.room, known.facts)
    if known.kind == "before":
        words = ("where", "was", known.name, "before", "the", known.later)
        return Example(3, story, words, known.room, known.facts)
    words = ("where", "is", "the", known.name)
    return Example(2, story, words, known.room, known.facts)
