"""Task 20: questions about motives, such as "Why did Jason go to the kitchen?"."""

from dataclasses import dataclass

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.simulator.random_source import RandomSource
from keras_attention.datasets.babi.simulator.world import GET, Words, go

_PEOPLE = ("sumit", "yann", "jason", "antoine")
# For each state, the place that a person goes to and the object that they get there.
_GOALS = {
    "hungry": ("kitchen", "apple"),
    "thirsty": ("kitchen", "milk"),
    "bored": ("garden", "football"),
    "tired": ("bedroom", "pajamas"),
}


def story(task: int, random_source: RandomSource) -> list[Example]:
    """Writes a story of task 20, with a question after each fact.

    The first fact about a person tells their state, and the second their destination. A
    third fact tells which object they get, unless someone else already has it. The
    person who acts next is sampled at random, until nobody has anything left to do.
    """
    people = [_Person(name) for name in _PEOPLE]
    got: set[str] = set()
    sentences: list[Words] = []
    examples = []
    while people:
        person = random_source.choose(people)
        step = _step(person, got, len(sentences), random_source)
        if step is None:
            people.remove(person)
            continue
        sentence, question, answer = step
        sentences.append(sentence)
        told = (person.told,)
        examples.append(Example(task, tuple(sentences), question, answer, told))
    return examples


@dataclass(slots=True)
class _Person:
    name: str
    state: str = ""
    told: int = -1  # the fact that tells the state
    gone: bool = False


def _step(
    person: _Person, got: set[str], fact: int, random_source: RandomSource
) -> tuple[Words, Words, str] | None:
    """Returns a person's next action, a question about it, and the answer."""
    name = person.name
    if not person.state:
        person.state, person.told = random_source.choose(tuple(_GOALS)), fact
        place, _ = _GOALS[person.state]
        return (name, "is", person.state), ("where", "will", name, "go"), place
    place, thing = _GOALS[person.state]
    if not person.gone:
        person.gone = True
        question: Words = ("why", "did", name, "go", "to", "the", place)
        return go(name, place, random_source), question, person.state
    if thing in got:
        return None
    got.add(thing)
    question = ("why", "did", name, "get", "the", thing)
    words = (name, *random_source.choose(GET), "the", thing, "there")
    return words, question, person.state
