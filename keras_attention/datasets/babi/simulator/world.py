"""People who walk between places and pick up, put down and give objects."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.simulator.random_source import RandomSource

PEOPLE = ("mary", "john", "sandra", "daniel")
PLACES = ("bedroom", "bathroom", "kitchen", "office", "garden", "hallway")
OBJECTS = ("apple", "football", "milk")
GO = (("moved",), ("went",), ("journeyed",), ("travelled",), ("went", "back"))
GET = (("got",), ("took",), ("grabbed",), ("picked", "up"))
DROP = (("dropped",), ("left",), ("discarded",), ("put", "down"))
GIVE = ("gave", "handed", "passed")

QUESTIONS = 5  # per story
WINDOW = 5  # number of last facts that a question may be about
_FACTS_BETWEEN = 2  # facts told before each attempt to ask
_ADVERB = 0.2  # probability of an optional "there" at the end of a sentence

Words = tuple[str, ...]


class Fact(NamedTuple):
    """An action of a person."""

    person: str
    action: str  # "go", "get", "drop" or "give"
    target: str  # a place or an object
    recipient: str = ""  # who receives a given object


class Question(NamedTuple):
    """The fields of an `Example` that follow `task` and `story`, in their order."""

    words: Words
    answer: str
    supporting_facts: tuple[int, ...]


class Notes(Protocol):
    """A reader's knowledge of a story after each fact."""

    def add(self, fact: Fact) -> None:
        """Adds the next fact."""


_Notes = TypeVar("_Notes", bound=Notes)


class World:
    """The true places of people and objects.

    `actions` are among "go", "get", "drop" and "give". The first of `people` who is
    present receives a given object.
    """

    def __init__(
        self,
        random_source: RandomSource,
        people: Sequence[str] = PEOPLE,
        places: Sequence[str] = PLACES,
        actions: Sequence[str] = ("go", "get", "drop"),
    ) -> None:
        self.random_source = random_source
        self.people = people
        self.places = places
        self.actions = actions
        self.place = {
            name: random_source.choose(places) for name in (*people, *OBJECTS)
        }
        self.carrier: dict[str, str | None] = dict.fromkeys(OBJECTS)

    def act(self) -> Fact:
        """Samples a person and an action until one is possible, and performs it."""
        while True:
            person = self.random_source.choose(self.people)
            action = self.random_source.choose(self.actions)
            fact = self._gift() if action == "give" else self._deed(person, action)
            if fact is not None:
                self._do(fact)
                return fact

    def _deed(self, person: str, action: str) -> Fact | None:
        targets = self._targets(person, action)
        if not targets:
            return None
        target = self.random_source.choose(targets)
        if action == "go" and target == self.place[person]:
            return None
        return Fact(person, action, target)

    def _targets(self, person: str, action: str) -> Sequence[str]:
        if action == "go":
            return self.places
        if action == "drop":
            return [name for name in OBJECTS if self.carrier[name] == person]
        return [
            name
            for name in OBJECTS
            if self.carrier[name] is None and self.place[name] == self.place[person]
        ]

    def _gift(self) -> Fact | None:
        """Returns the first possible gift, in a fixed order of objects and of people.

        The real files use the same order.
        """
        for name in OBJECTS:
            giver = self.carrier[name]
            if giver is None:
                continue
            for person in self.people:
                if person != giver and self.place[person] == self.place[giver]:
                    return Fact(giver, "give", name, person)
        return None

    def _do(self, fact: Fact) -> None:
        person, action, target, recipient = fact
        if action == "go":
            self.place[person] = target
        elif action == "get":
            self.carrier[target] = person
        elif action == "give":
            self.carrier[target] = recipient
        else:
            self.carrier[target] = None
            self.place[target] = self.place[person]


def go(person: str, place: str, random_source: RandomSource) -> Words:
    """Writes a sentence in which someone goes to a place."""
    return (person, *random_source.choose(GO), "to", "the", place)


def say(fact: Fact, random_source: RandomSource, with_adverb: bool = True) -> Words:
    """Writes a fact; `with_adverb`, each sentence of a pickup ends in "there"."""
    person, action, target, recipient = fact
    if action == "go":
        return go(person, target, random_source)
    if action == "give":
        return (person, random_source.choose(GIVE), "the", target, "to", recipient)
    adverb = (action == "get" and with_adverb) or random_source.draw() < _ADVERB
    verb = random_source.choose(GET if action == "get" else DROP)
    return (person, *verb, "the", target, *(("there",) if adverb else ()))


def tell(
    task: int,
    world: World,
    notes: _Notes,
    ask: Callable[[_Notes, RandomSource], Question | None],
    with_adverb: bool = True,
) -> list[Example]:
    """Writes a story with five questions; tries to ask after every second fact.

    `world` generates the facts, `notes` records them, and `ask` returns a question that
    the notes can answer, or None.
    """
    examples: list[Example] = []
    sentences: list[Words] = []
    while len(examples) < QUESTIONS:
        for _ in range(_FACTS_BETWEEN):
            fact = world.act()
            notes.add(fact)
            sentences.append(say(fact, world.random_source, with_adverb))
        question = ask(notes, world.random_source)
        if question is not None:
            examples.append(Example(task, tuple(sentences), *question))
    return examples
