"""Answers to bAbI questions by rules, from the sentences alone, for each task."""

import functools
import itertools
from collections import defaultdict

import pytest
from calling import needs_data

from keras_attention.datasets import babi

SOURCES = ["simulated", pytest.param("real", marks=needs_data)]
GO = {"went", "moved", "journeyed", "travelled"}
GET = {"got", "took", "grabbed", "picked"}
DROP = {"dropped", "left", "discarded", "put"}
GIVE = {"gave", "handed", "passed"}
PEOPLE = {
    *("mary", "john", "sandra", "daniel", "fred", "bill", "jeff", "julie"),
    *("gertrude", "winona", "jessica", "emily"),
    *("lily", "bernhard", "greg", "julius", "brian"),
    *("sumit", "yann", "jason", "antoine"),
}
PLACES = {
    *("bedroom", "bathroom", "kitchen", "office", "garden", "hallway"),
    *("school", "park", "cinema"),
}
OBJECTS = {"apple", "football", "milk", "pajamas"}
STATES = {"hungry", "thirsty", "bored", "tired"}
COLORS = {"gray", "white", "yellow", "green"}
SINGULAR = {"mice": "mouse", "wolves": "wolf", "cats": "cat", "sheep": "sheep"}
OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}
SIDES = {"above": (0, 1), "below": (0, -1), "left": (-1, 0), "right": (1, 0)}
SHAPES = (
    *("pink rectangle", "blue square", "red square", "yellow square", "red sphere"),
)
BOXES = ("box", "chest", "suitcase", "container")
TIMES = ("yesterday", "morning", "afternoon", "evening")


@functools.cache
def real_examples():
    """All questions of the 1k files, by task."""
    found = defaultdict(list)
    for split in ("train", "test"):
        for example in babi.load("all", split=split):
            found[example.task].append(example)
    return found


@functools.cache
def questions(source, task):
    """Two thousand questions of a task, `"real"` or `"simulated"`."""
    if source == "real":
        return real_examples()[task]
    return babi.simulate(task, 2000, seed=3)


def stories(examples):
    """The questions of each story: one goes on where it holds all that was before."""
    found = []
    for before, example in zip([None, *examples], examples):
        if before is None or example.story[: len(before.story)] != before.story:
            found.append([])
        found[-1].append(example)
    return found


def only(names, words):
    """The one of the names that is among the words."""
    (name,) = [word for word in words if word in names]
    return name


def action(words):
    """What a sentence of the world of people and objects tells; None where nothing."""
    for name, verbs in (("go", GO), ("get", GET), ("drop", DROP), ("give", GIVE)):
        if verbs.intersection(words):
            return name
    return None


# Tasks 1, 2, 3 and 6


def follow(story):
    """Where people are, and the places where objects have been."""
    place, carrier, visited = {}, {}, defaultdict(list)

    def note(thing, where):
        if where is not None and visited[thing][-1:] != [where]:
            visited[thing].append(where)

    for words in story:
        person = words[0]
        if action(words) == "go":
            place[person] = words[-1]
            for thing, holder in carrier.items():
                if holder == person:
                    note(thing, words[-1])
            continue
        thing = only(OBJECTS, words)
        note(thing, place.get(person))
        carrier[thing] = person if action(words) == "get" else None
    return place, visited


def read_places(example):
    place, visited = follow(example.story)
    question = example.question
    if question[0] == "is":
        return "yes" if place[question[1]] == question[-1] else "no"
    if question[1] == "was":
        trace, known = visited[question[3]], question[-1]
        last = max(i for i, where in enumerate(trace) if where == known)
        return trace[last - 1] if last else None
    if question[2] == "the":
        return visited[question[3]][-1]
    return place[question[2]]


# Tasks 5, 7 and 8


def read_gift(example):
    """The last giving that agrees with all that the question names."""
    question = example.question
    known = {}
    if question[0] == "what":
        wanted, known = "object", {"giver": question[2], "taker": question[5]}
    elif question[1] == "did":
        wanted, known = "taker", {"giver": question[2], "object": question[5]}
    else:
        wanted = "taker" if question[1] == "received" else "giver"
        known = {"object": question[3]}
        if question[-2] == "to":
            known["taker"] = question[-1]
    for words in reversed(example.story):
        if action(words) == "give":
            gift = {"giver": words[0], "object": words[3], "taker": words[5]}
            if known.items() <= gift.items():
                return gift[wanted]
    return None


def read_hands(example):
    """Counts or lists what someone carries, in the order of its first getting."""
    person = example.question[-2]
    held = {}
    for words in example.story:
        kind = action(words)
        if kind == "go":
            continue
        if words[0] == person:
            held[only(OBJECTS, words)] = kind == "get"
        elif kind == "give" and words[-1] == person:
            held[only(OBJECTS, words)] = True
    names = [name for name, still in held.items() if still]
    if example.question[0] == "how":
        return ("none", "one", "two", "three")[len(names)]
    return ",".join(names) or "nothing"


# Tasks 9 to 13


def subjects(story):
    """Whom each sentence is about; a pronoun, about those of the one before."""
    people = ()
    for words in story:
        people = tuple(word for word in words if word in PEOPLE) or people
        yield people


def last_about(example, person):
    """The last sentence about someone."""
    pairs = zip(example.story, subjects(example.story), strict=True)
    return [words for words, people in pairs if person in people][-1]


def read_whether(example):
    person, place = example.question[1], example.question[-1]
    words = last_about(example, person)
    if place not in words or {"not", "no"}.intersection(words):
        return "no"
    return "maybe" if "either" in words else "yes"


def read_where(example):
    return last_about(example, example.question[2])[-1]


# Task 14


def read_time(example):
    """Where someone was at the time before: the last visit if there are two."""
    person, known = example.question[2], example.question[-1]
    place = {}
    for words in example.story:
        if person in words:
            place[TIMES.index(only(TIMES, words))] = only(PLACES, words)
    visits = [time for time in place if place[time] == known and time - 1 in place]
    return place[max(visits) - 1]


# Tasks 15 and 16


def read_fear(example):
    fears, kinds = {}, {}
    for words in example.story:
        if "afraid" in words:
            fears[SINGULAR[words[0]]] = SINGULAR[words[-1]]
        else:
            kinds[words[0]] = words[-1]
    return fears[kinds[example.question[2]]]


def read_color(example):
    """The color of the last one named of the same kind whose color is told."""
    colors = {words[0]: words[-1] for words in example.story if words[-1] in COLORS}
    kinds = {words[0]: words[-1] for words in example.story if words[-2] == "a"}
    kind = kinds[example.question[-1]]
    mates = [name for name in kinds if kinds[name] == kind and name in colors]
    return colors[mates[-1]]


# Tasks 17 and 18


@functools.lru_cache(maxsize=2**16)
def phrases(words):
    """Words, with names of two or three words made one."""
    text = " ".join(words)
    for name in (*SHAPES, "box of chocolates"):
        text = text.replace(name, name.replace(" ", "_"))
    return tuple(text.split())


def things(words):
    """The two names that a sentence compares, each after "the"."""
    pairs = itertools.pairwise(phrases(words))
    return [name for the, name in pairs if the == "the" and name in KIND]


def read_side(example):
    """Sets up the shapes on a grid, and compares."""
    steps = []
    for words in example.story:
        first, second = things(words)
        x, y = SIDES[only(SIDES, words)]
        steps += [(second, first, x, y), (first, second, -x, -y)]
    asked, reference = things(example.question)
    spot = {reference: (0, 0)}
    for _ in example.story:
        for known, new, x, y in steps:
            if known in spot:
                spot.setdefault(new, (spot[known][0] + x, spot[known][1] + y))
    x, y = SIDES[only(SIDES, example.question)]
    along = spot[asked][0] * x + spot[asked][1] * y
    return "yes" if along > 0 else "no"


def read_size(example):
    smaller = defaultdict(set)  # thing: those known to be smaller
    for words in example.story:
        first, second = things(words)
        big, small = (first, second) if "bigger" in words else (second, first)
        smaller[big].add(small)
    first, second = things(example.question)
    if "fit" in example.question:
        first, second = second, first
    reached, fresh = set(), {first}
    while fresh:
        fresh = set().union(*(smaller[thing] for thing in fresh)) - reached
        reached |= fresh
    return "yes" if second in reached else "no"


# Tasks 4 and 19


def roads(story):
    """(from, direction): to, both ways."""
    found = {}
    for words in story:
        subject, direction, reference = words[1], words[3], words[6]
        found[reference, direction] = subject
        found[subject, OPPOSITE[direction]] = reference
    return found


def read_neighbour(example):
    question = example.question
    direction = only(OPPOSITE, question)
    if question[2] == "the":  # what is the kitchen north of?
        direction = OPPOSITE[direction]
    return roads(example.story)[only(PLACES, question), direction]


def read_way(example):
    """Two steps that lead from the one place to the other."""
    start, end = (word for word in example.question if word in PLACES)
    found = roads(example.story)
    ways = [
        f"{first[0]},{second[0]}"
        for first in OPPOSITE
        for second in OPPOSITE
        if found.get((found.get((start, first)), second)) == end
    ]
    return ways[0] if len(ways) == 1 else None


# Task 20

GOALS = {
    "hungry": "kitchen",
    "thirsty": "kitchen",
    "bored": "garden",
    "tired": "bedroom",
}


def read_motive(example):
    person = example.question[2]
    state = last_state(example.story, person)
    return GOALS[state] if example.question[0] == "where" else state


def last_state(story, person):
    told = [words[-1] for words in story if words[0] == person and len(words) == 3]
    return told[-1]


READERS = {
    **dict.fromkeys((1, 2, 3, 6), read_places),
    4: read_neighbour,
    5: read_gift,
    **dict.fromkeys((7, 8), read_hands),
    **dict.fromkeys((9, 10), read_whether),
    **dict.fromkeys((11, 12, 13), read_where),
    14: read_time,
    15: read_fear,
    16: read_color,
    17: read_side,
    18: read_size,
    19: read_way,
    20: read_motive,
}


def read(example):
    """The answer that follows from the story, by the task's rules."""
    return READERS[example.task](example)


KINDS = {
    "PERSON": PEOPLE,
    "PLACE": PLACES,
    "OBJECT": OBJECTS,
    "STATE": STATES,
    "KIND": {"mouse", "wolf", "cat", "lion", "rhino", "frog", "swan"},
    "KINDS": {"mice", "wolves", "cats"},
    "COLOR": COLORS,
    "DIRECTION": set(OPPOSITE),
    "SHAPE": {name.replace(" ", "_") for name in (*SHAPES, "triangle")},
    "THING": {*("chocolate", "box_of_chocolates"), *BOXES},
}
KIND = {name: kind for kind, names in KINDS.items() for name in names}
VERBS = {"GO": GO, "GET": GET, "DROP": DROP, "GIVE": GIVE}
VERB = {verb: kind for kind, verbs in VERBS.items() for verb in verbs}


@functools.lru_cache(maxsize=2**16)
def shape(words):
    """A sentence with names replaced by the kind of thing they name."""
    return tuple(KIND.get(word, word) for word in phrases(words))


def roles(example):
    """The supporting facts, in order, with what they share with question and answer.

    Names in the question are called after their place in it, the answer `ANSWER`,
    other names after their kind, and verbs that mean the same alike.
    """
    names = {}
    for word in phrases(example.question):
        if word in KIND:
            names.setdefault(word, f"ASKED{len(names)}")
    for part in example.answer.split(","):
        names.setdefault(part, "ANSWER")
    return tuple(
        tuple(
            VERB.get(word, names.get(word, KIND.get(word, word)))
            for word in phrases(example.story[fact])
            if word not in ("there", "back", "up", "down")
        )
        for fact in example.supporting_facts
    )
