"""Task 14: people's places at different times of two days, told out of order."""

from typing import NamedTuple

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.simulator.coreference import (
    OTHER_PEOPLE,
    OTHER_PLACES,
)
from keras_attention.datasets.babi.simulator.random_source import RandomSource
from keras_attention.datasets.babi.simulator.world import (
    QUESTIONS,
    WINDOW,
    Question,
    Words,
    go,
)

_TIMES = (
    ("yesterday",),
    ("this", "morning"),
    ("this", "afternoon"),
    ("this", "evening"),
)
_FACTS_BETWEEN = 2


def story(task: int, random_source: RandomSource) -> list[Example]:
    """Writes a story of task 14 with shuffled visits before each question.

    Two visits are sampled for each question. Before the first question, sampling
    continues until someone has made two visits. The visits since the last question are
    then told in a shuffled order, in which no visit keeps its index.
    """
    diary = _Diary(random_source)
    sentences: list[Words] = []
    examples: list[Example] = []
    while len(examples) < QUESTIONS:
        for _ in range(_FACTS_BETWEEN):
            diary.go_on()
        if not diary.askable():
            continue
        for index in diary.tell():
            sentences.append(_say(diary.visits[index], random_source))
        examples.append(Example(task, tuple(sentences), *diary.ask()))
    return examples


class _Visit(NamedTuple):
    person: str
    time: int  # an index into _TIMES
    place: str


class _Diary:
    """All visits of people to places, in sampling order."""

    def __init__(self, random_source: RandomSource) -> None:
        self.random_source = random_source
        self.visits: list[_Visit] = []
        self.made: dict[tuple[str, int], int] = {}  # visit by person and time
        self.told: dict[int, int] = {}  # the fact that tells each visit

    def go_on(self) -> None:
        """Samples the next visit of a person, one time step after their last visit."""
        while True:
            person = self.random_source.choose(OTHER_PEOPLE)
            time = sum((person, earlier) in self.made for earlier in range(4))
            if time < len(_TIMES):
                break
        before = [self.visits[self.made[person, time - 1]].place] if time else []
        place = self.random_source.other(OTHER_PLACES, *before)
        self.made[person, time] = len(self.visits)
        self.visits.append(_Visit(person, time, place))

    def askable(self) -> list[_Visit]:
        """Returns the recent visits that follow another visit of the same person."""
        return [visit for visit in self.visits[-WINDOW:] if visit.time > 0]

    def tell(self) -> list[int]:
        """Returns the untold visits in the order of telling."""
        first = len(self.told)
        untold = list(range(first, len(self.visits)))
        self.random_source.cycle(untold)
        for fact, visit in enumerate(untold, first):
            self.told[visit] = fact
        return untold

    def ask(self) -> Question:
        """Asks where a person was before their last visit to a place."""
        person, _, place = self.random_source.choose(self.askable())
        visits = [v for v in self.visits if v.person == person and v.place == place]
        time = max(visit.time for visit in visits)
        after, before = self.made[person, time], self.made[person, time - 1]
        words = ("where", "was", person, "before", "the", place)
        support = (self.told[after], self.told[before])
        return Question(words, self.visits[before].place, support)


def _say(visit: _Visit, random_source: RandomSource) -> Words:
    time = _TIMES[visit.time]
    sentence = go(visit.person, visit.place, random_source)
    return (*time, *sentence) if random_source.draw() < 0.5 else (*sentence, *time)
