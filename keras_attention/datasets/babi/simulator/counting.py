"""Tasks 5, 7 and 8: gifts, counts and lists of carried objects."""

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.simulator.random_source import RandomSource
from keras_attention.datasets.babi.simulator.world import (
    WINDOW,
    Fact,
    Question,
    Words,
    World,
    tell,
)

_EXCHANGE = ("go", "get", "drop", "give")
# A given object goes to the first person in this order who is present.
_CAST = {5: ("mary", "fred", "bill", "jeff"), 7: ("john", "mary", "sandra", "daniel")}
_NUMBERS = ("none", "one", "two", "three")


def story(task: int, random_source: RandomSource) -> list[Example]:
    """Writes a story of task 5, 7 or 8 with five questions."""
    if task == 8:
        return tell(task, World(random_source), _HandNotes(), _ask_which)
    world = World(random_source, people=_CAST[task], actions=_EXCHANGE)
    if task == 5:
        return tell(task, world, _GiftNotes(), _ask_gift)
    return tell(task, world, _HandNotes(), _ask_how_many)


class _GiftNotes:
    """Records when each object was last given."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.last: dict[str, int] = {}

    def add(self, fact: Fact) -> None:
        if fact.action == "give":
            self.last[fact.target] = len(self.facts)
        self.facts.append(fact)


def _ask_gift(notes: _GiftNotes, random_source: RandomSource) -> Question | None:
    """Task 5: asks who last gave a recently given object to whom."""
    recent = notes.facts[-WINDOW:]
    gifts = [fact.target for fact in recent if fact.action == "give"]
    if not gifts:
        return None
    index = notes.last[random_source.choose(gifts)]
    words, answer = _word_gift(notes.facts[index], random_source)
    return Question(words, answer, (index,))


def _word_gift(fact: Fact, random_source: RandomSource) -> tuple[Words, str]:
    """Returns a question about a gift, and its answer.

    A third of the questions ask for the object, the others ask for one of the people.
    """
    giver, _, name, recipient = fact
    form = random_source.below(6)
    if form < 2:
        return ("what", "did", giver, "give", "to", recipient), name
    if form == 2:
        return ("who", "gave", "the", name), giver
    if form == 3:
        return ("who", "gave", "the", name, "to", recipient), giver
    if form == 4:
        return ("who", "received", "the", name), recipient
    return ("who", "did", giver, "give", "the", name, "to"), recipient


class _HandNotes:
    """Records which objects each person carried and the facts that say so."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.events: dict[str, dict[str, list[int]]] = {}  # facts by person and object
        self.held: dict[str, dict[str, bool]] = {}  # by person and object

    def add(self, fact: Fact) -> None:
        if fact.action != "go":
            self._note(fact.person, fact.target, fact.action == "get")
        if fact.action == "give":
            self._note(fact.recipient, fact.target, True)
        self.facts.append(fact)

    def _note(self, person: str, name: str, held: bool) -> None:
        events = self.events.setdefault(person, {})
        events.setdefault(name, []).append(len(self.facts))
        self.held.setdefault(person, {})[name] = held

    def recent_hands(self) -> list[str]:
        """Returns who picked up, put down or gave away an object in the last facts."""
        recent = self.facts[-WINDOW:]
        return [fact.person for fact in recent if fact.action != "go"]


def _ask_how_many(notes: _HandNotes, random_source: RandomSource) -> Question | None:
    """Task 7: asks how many objects a person is carrying.

    All facts in which the person gets, drops, gives or receives an object are
    supporting facts.
    """
    people = notes.recent_hands()
    if not people:
        return None
    person = random_source.choose(people)
    number = sum(notes.held[person].values())
    facts = sorted(fact for facts in notes.events[person].values() for fact in facts)
    words = ("how", "many", "objects", "is", person, "carrying")
    return Question(words, _NUMBERS[number], tuple(facts))


def _ask_which(notes: _HandNotes, random_source: RandomSource) -> Question | None:
    """Task 8: asks which objects a person is carrying.

    The answer lists the objects in the order in which the person first picked them up.
    The supporting facts are grouped by object, in this order.
    """
    people = notes.recent_hands()
    if not people:
        return None
    person = random_source.choose(people)
    names = [name for name, held in notes.held[person].items() if held]
    facts = tuple(fact for facts in notes.events[person].values() for fact in facts)
    words = ("what", "is", person, "carrying")
    return Question(words, ",".join(names) or "nothing", facts)
