"""Tasks 1, 2, 3 and 6: current and past places of people and objects."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.simulator.random_source import RandomSource
from keras_attention.datasets.babi.simulator.world import (
    PLACES,
    WINDOW,
    Fact,
    Question,
    World,
    tell,
)


def story(task: int, random_source: RandomSource) -> list[Example]:
    """Writes a story of task 1, 2, 3 or 6 with five questions."""
    actions = ("go",) if task == 1 else ("go", "get", "drop")
    world = World(random_source, actions=actions)
    return tell(task, world, PlaceNotes(), _ASK[task], with_adverb=task != 3)


class Move(NamedTuple):
    """A person's destination and the index of the fact that states it."""

    fact: int
    place: str


@dataclass(slots=True)
class Trace:
    """What a reader knows about an object since its last pickup.

    Attributes:
        carrier: The person who picked up the object.
        event: The index of the fact that states the last pickup or drop of the object.
        carried: Whether the carrier still has the object.
        moves: The carrier's moves with the object.
        place: The move that reveals the object's place, or None if it is unknown.
    """

    carrier: str
    event: int
    carried: bool = True
    moves: list[Move] = field(default_factory=list)
    place: Move | None = None


class PlaceNotes:
    """The places of people and objects that a reader knows, with supporting facts.

    Attributes:
        facts: All facts so far.
        people: Each person's last move.
        objects: The `Trace` of each object that was picked up.
    """

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.people: dict[str, Move] = {}
        self.objects: dict[str, Trace] = {}

    def add(self, fact: Fact) -> None:
        """Adds the next fact: a person goes, picks up an object or puts it down."""
        index = len(self.facts)
        self.facts.append(fact)
        if fact.action == "go":
            self._follow(fact.person, Move(index, fact.target))
        elif fact.action == "get":
            self.objects[fact.target] = Trace(fact.person, index)
        else:
            trace = self.objects[fact.target]
            trace.carried = False
            trace.event = index
            trace.place = self.people.get(fact.person)

    def _follow(self, person: str, move: Move) -> None:
        self.people[person] = move
        for trace in self.objects.values():
            if trace.carried and trace.carrier == person:
                trace.moves.append(move)
                trace.place = move

    def recent_movers(self) -> list[str]:
        """Returns the people who moved in the last facts, once per move."""
        recent = self.facts[-WINDOW:]
        return [fact.person for fact in recent if fact.action == "go"]

    def recent_objects(self, answerable: Callable[[Trace], bool]) -> list[str]:
        """Returns the objects of the last facts, if `answerable`, once per mention."""
        return [
            fact.target
            for fact in self.facts[-WINDOW:]
            if fact.action != "go" and answerable(self.objects[fact.target])
        ]


def ask_person(person: str, notes: PlaceNotes) -> Question:
    """Asks where a person is; the person must have moved."""
    move = notes.people[person]
    return Question(("where", "is", person), move.place, (move.fact,))


def ask_object(name: str, notes: PlaceNotes) -> Question:
    """Asks where an object is; its place must be known."""
    trace = notes.objects[name]
    move = trace.place
    assert move is not None, name
    words = ("where", "is", "the", name)
    return Question(words, move.place, (trace.event, move.fact))


def _ask_1(notes: PlaceNotes, random_source: RandomSource) -> Question:
    return ask_person(random_source.choose(notes.recent_movers()), notes)


def _ask_2(notes: PlaceNotes, random_source: RandomSource) -> Question | None:
    names = notes.recent_objects(lambda trace: trace.place is not None)
    return ask_object(random_source.choose(names), notes) if names else None


def _ask_3(notes: PlaceNotes, random_source: RandomSource) -> Question | None:
    """Asks where an object was before its carrier moved to another place."""
    names = notes.recent_objects(lambda trace: len(trace.moves) > 1)
    if not names:
        return None
    name = random_source.choose(names)
    trace = notes.objects[name]
    last_visit = {move.place: index for index, move in enumerate(trace.moves)}
    second = random_source.choose([index for index in last_visit.values() if index > 0])
    before, after = trace.moves[second - 1], trace.moves[second]
    words = ("where", "was", "the", name, "before", "the", after.place)
    return Question(words, before.place, (trace.event, after.fact, before.fact))


def _ask_6(notes: PlaceNotes, random_source: RandomSource) -> Question | None:
    """Asks if someone is in a place; yes and no are equally likely."""
    movers = notes.recent_movers()
    if not movers:
        return None
    person = random_source.choose(movers)
    move = notes.people[person]
    place, answer = move.place, "yes"
    if random_source.draw() < 0.5:
        place, answer = random_source.other(PLACES, move.place), "no"
    return Question(("is", person, "in", "the", place), answer, (move.fact,))


_ASK: dict[int, Callable[[PlaceNotes, RandomSource], Question | None]] = {
    1: _ask_1,
    2: _ask_2,
    3: _ask_3,
    6: _ask_6,
}
