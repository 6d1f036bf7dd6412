"""Tasks 9 to 13: people's moves with negation, indefinite knowledge and coreference."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.simulator.random_source import RandomSource
from keras_attention.datasets.babi.simulator.world import (
    GO,
    PEOPLE,
    PLACES,
    QUESTIONS,
    WINDOW,
    Question,
    Words,
    go,
)

OTHER_PEOPLE = ("fred", "bill", "julie", "mary")
OTHER_PLACES = ("bedroom", "kitchen", "office", "school", "park", "cinema")
_NOT = (("not",), ("no", "longer"))
_NEXT = (("then",), ("after", "that"), ("afterwards",), ("following", "that"))
_PRONOUNS = {"mary": "she", "sandra": "she", "john": "he", "daniel": "he"}


def story(task: int, random_source: RandomSource) -> list[Example]:
    """Writes a story of task 9 to 13: two facts and a question, five times."""
    cast = (OTHER_PEOPLE, OTHER_PLACES) if task == 10 else (PEOPLE, PLACES)
    walkers = _Walkers(random_source, *cast)
    tell_two, ask = _TELL[task], _ASK[task]
    examples = []
    for _ in range(QUESTIONS):
        tell_two(walkers)
        question = ask(walkers)
        sentences = tuple(fact.words for fact in walkers.facts)
        examples.append(Example(task, sentences, *question))
    return examples


class _Told(NamedTuple):
    """A fact: its words, its people, and the place that it states or denies."""

    words: Words
    people: tuple[str, ...]
    place: str
    kind: str  # "in", "not in" or "either"
    decoy: str = ""  # the second place for "either"


class _Walkers:
    """The true places of all people, and the facts that the reader knows about them."""

    def __init__(
        self, random_source: RandomSource, people: Sequence[str], places: Sequence[str]
    ) -> None:
        self.random_source = random_source
        self.people = people
        self.places = places
        self.place = {name: random_source.choose(places) for name in people}
        self.facts: list[_Told] = []
        self.mentions: list[str] = []  # the people of all facts, in order
        self.last: dict[str, int] = {}  # the last fact about each person

    def move(self, *people: str) -> str:
        """Moves people to a place where none of them is."""
        here = [self.place[name] for name in people]
        target = self.random_source.other(self.places, *here)
        for name in people:
            self.place[name] = target
        return target

    def tell(self, fact: _Told) -> None:
        for name in fact.people:
            self.last[name] = len(self.facts)
            self.mentions.append(name)
        self.facts.append(fact)

    def recent(self) -> tuple[str, int]:
        """Returns a recently mentioned person and the last fact about them."""
        person = self.random_source.choose(self.mentions[-WINDOW:])
        return person, self.last[person]


def _tell_denials(walkers: _Walkers) -> None:
    """Task 9: a fact may say that someone is no longer in a place."""
    for _ in range(2):
        person = walkers.random_source.choose(walkers.people)
        left = walkers.place[person]
        place = walkers.move(person)
        kind = walkers.random_source.draw()
        if kind < 0.75:
            _tell_plainly(walkers, person, place, goes=kind < 0.5)
        else:
            denied = walkers.random_source.choose(_NOT)
            words = (person, "is", *denied, "in", "the", left)
            walkers.tell(_Told(words, (person,), left, "not in"))


def _tell_choices(walkers: _Walkers) -> None:
    """Task 10: a fact may place someone in one of two places.

    The second place is sampled from all places. As in the real files, it sometimes
    equals the first.
    """
    for _ in range(2):
        person = walkers.random_source.choose(walkers.people)
        place = walkers.move(person)
        kind = walkers.random_source.draw()
        if kind < 0.75:
            _tell_plainly(walkers, person, place, goes=kind < 0.5)
            continue
        decoy = walkers.random_source.choose(walkers.places)
        first, second = (place, decoy) if kind < 0.875 else (decoy, place)
        words = (person, *f"is either in the {first} or the {second}".split())
        walkers.tell(_Told(words, (person,), place, "either", decoy))


def _tell_plainly(walkers: _Walkers, person: str, place: str, goes: bool) -> None:
    words: Words = (person, "is", "in", "the", place)
    if goes:
        words = go(person, place, walkers.random_source)
    walkers.tell(_Told(words, (person,), place, "in"))


def _tell_pronoun(walkers: _Walkers) -> None:
    """Task 11: the second fact refers to the person of the first as "he" or "she"."""
    person = walkers.random_source.choose(walkers.people)
    place = walkers.move(person)
    words = go(person, place, walkers.random_source)
    walkers.tell(_Told(words, (person,), place, "in"))
    _tell_next(walkers, _PRONOUNS[person], (person,))


def _tell_pairs(walkers: _Walkers) -> None:
    """Task 12: each fact is about two people."""
    for _ in range(2):
        _tell_pair(walkers)


def _tell_they(walkers: _Walkers) -> None:
    """Task 13: the second fact refers to the two people of the first as "they"."""
    _tell_next(walkers, "they", _tell_pair(walkers))


def _tell_pair(walkers: _Walkers) -> tuple[str, ...]:
    random_source = walkers.random_source
    first, second = random_source.some(walkers.people, 2)
    place = walkers.move(first, second)
    words = (first, "and", second, *random_source.choose(GO), "to", "the", place)
    walkers.tell(_Told(words, (first, second), place, "in"))
    return first, second


def _tell_next(walkers: _Walkers, pronoun: str, people: tuple[str, ...]) -> None:
    place = walkers.move(*people)
    sentence = go(pronoun, place, walkers.random_source)
    words = (*walkers.random_source.choose(_NEXT), *sentence)
    walkers.tell(_Told(words, people, place, "in"))


def _ask_whether(walkers: _Walkers) -> Question:
    """Tasks 9 and 10: asks if someone is in a place.

    In half of the questions, this is the place that the last fact about the person
    states. If that fact says that the person is not in a place, the question always
    asks about that place. If the person is in one of two places, the answer is "maybe"
    for both places, even if the two are equal.
    """
    person, index = walkers.recent()
    fact = walkers.facts[index]
    place = fact.place
    if fact.kind != "not in" and walkers.random_source.draw() < 0.5:
        place = walkers.random_source.other(walkers.places, place)
    words = ("is", person, "in", "the", place)
    return Question(words, _judge(fact, place), (index,))


def _judge(fact: _Told, place: str) -> str:
    if fact.kind == "not in" or place not in (fact.place, fact.decoy):
        return "no"
    return "maybe" if fact.kind == "either" else "yes"


def _ask_where(walkers: _Walkers) -> Question:
    """Task 12: asks where someone is."""
    person, index = walkers.recent()
    return Question(("where", "is", person), walkers.facts[index].place, (index,))


def _ask_where_next(walkers: _Walkers) -> Question:
    """Tasks 11 and 13: asks where someone is; the names are in the fact before."""
    words, answer, (index,) = _ask_where(walkers)
    return Question(words, answer, (index - 1, index))


_TELL: dict[int, Callable[[_Walkers], None]] = {
    9: _tell_denials,
    10: _tell_choices,
    11: _tell_pronoun,
    12: _tell_pairs,
    13: _tell_they,
}
_ASK: dict[int, Callable[[_Walkers], Question]] = {
    9: _ask_whether,
    10: _ask_whether,
    11: _ask_where_next,
    12: _ask_where,
    13: _ask_where_next,
}
