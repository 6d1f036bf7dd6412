"""The simulator of bAbI's tasks 1 to 3, held against a reader and the real files."""

import itertools
import os
import time
from collections import Counter

import numpy as np
import pytest

from keras_attention.datasets import babi

DATA = os.environ.get("KERAS_ATTENTION_DATA")
needs_data = pytest.mark.skipif(
    not DATA, reason="KERAS_ATTENTION_DATA names no folder with the bAbI archive"
)
TASKS = (1, 2, 3)
PLACES = {"bedroom", "bathroom", "kitchen", "office", "garden", "hallway"}
OBJECTS = {"apple", "football", "milk"}
PEOPLE = {"mary", "john", "sandra", "daniel"}
MOVES = {"went", "moved", "journeyed", "travelled"}
GETS = {"got", "took", "grabbed", "picked"}


def read(example):
    """Answers by rules: follows people, what they carry, and where it has been."""
    place, carrier, visited = {}, {}, {name: [] for name in OBJECTS}

    def note(thing, where):
        if where is not None and visited[thing][-1:] != [where]:
            visited[thing].append(where)

    for words in example.story:
        person, verb = words[:2]
        if verb in MOVES:
            place[person] = words[-1]
            for thing, holder in carrier.items():
                if holder == person:
                    note(thing, words[-1])
            continue
        (thing,) = OBJECTS.intersection(words)
        note(thing, place.get(person))
        carrier[thing] = person if verb in GETS else None
    question = example.question
    if question[:2] == ("where", "was"):
        trace, known = visited[question[3]], question[-1]
        last = max(i for i, where in enumerate(trace) if where == known)
        return trace[last - 1] if last else None
    if question[2] == "the":
        return visited[question[3]][-1]
    return place[question[2]]


def shape(words):
    """A sentence with names replaced by the kind of thing they name."""
    kinds = {"PERSON": PEOPLE, "PLACE": PLACES, "OBJECT": OBJECTS}
    return tuple(
        next((kind for kind, names in kinds.items() if word in names), word)
        for word in words
    )


def stories(examples):
    """The last question of each story: that which the next one does not extend."""
    for example, following in zip(examples, [*examples[1:], None], strict=True):
        if following is None or following.story[:2] != example.story[:2]:
            yield example


@pytest.fixture(scope="module", params=TASKS, ids="task{}".format)
def simulated(request):
    return request.param, babi.simulate(request.param, 5000, seed=3)


@pytest.fixture(scope="module")
def real(simulated):
    task, _ = simulated
    return babi.load(task) + babi.load(task, split="test")


def test_reader_answers_every_simulated_question(simulated):
    task, examples = simulated
    assert len(examples) == 5000
    assert {example.task for example in examples} == {task}
    assert [e.answer for e in examples] == [read(e) for e in examples]


@pytest.mark.parametrize("task", [1, 2])
def test_supporting_facts_suffice(task):
    """A story of the supporting facts alone gives the same answer."""
    for example in babi.simulate(task, 5000, seed=3):
        support = sorted(example.supporting_facts)
        assert len(set(support)) == task
        story = tuple(example.story[fact] for fact in support)
        alone = babi.Example(task, story, example.question, example.answer)
        assert read(alone) == example.answer


def check_place_before(example):
    """Task 3: the object's last event, the move asked for, and the move before."""
    event, after, before = example.supporting_facts
    person = example.story[event][0]
    thing, place = example.question[3], example.question[-1]
    assert event == max(
        fact
        for fact, words in enumerate(example.story)
        if thing in words and words[1] not in MOVES
    )
    moves = [
        fact
        for fact, words in enumerate(example.story)
        if words[0] == person and words[1] in MOVES
    ]
    assert moves[moves.index(after) - 1] == before < after
    assert example.story[after][-1] == place
    assert example.story[before][-1] == example.answer


def test_supporting_facts_of_task_3():
    for example in babi.simulate(3, 2000, seed=3):
        check_place_before(example)


@needs_data
def test_supporting_facts_of_the_real_task_3():
    for example in babi.load(3):
        check_place_before(example)


def test_stories_grow_by_pairs_of_facts(simulated):
    _, examples = simulated
    for first in range(0, len(examples), 5):
        story = examples[first : first + 5]
        for before, after in itertools.pairwise(story):
            assert after.story[: len(before.story)] == before.story
            assert len(after.story) > len(before.story)
        assert all(len(example.story) % 2 == 0 for example in story)


def test_seed_repeats():
    assert babi.simulate(2, 50, seed=5) == babi.simulate(2, 50, seed=5)
    assert babi.simulate(2, 50, seed=5) != babi.simulate(2, 50, seed=6)
    assert babi.simulate(2, 23, seed=5) == babi.simulate(2, 50, seed=5)[:23]
    generator = np.random.default_rng(5)
    assert babi.simulate(2, 50, seed=generator) == babi.simulate(2, 50, seed=5)
    assert babi.simulate(1, 0) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": 4}, "`task` must be 1, 2 or 3. Received: task=4"),
        ({"task": "1"}, "Received: task='1'"),
        ({"task": [1]}, r"Received: task=\[1\]"),
        ({"count": -1}, "`count` must be .* Received: count=-1"),
        ({"count": 2.5}, "Received: count=2.5"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        babi.simulate(**arguments)


def test_speed():
    rates = []
    for _ in range(3):
        start = time.perf_counter()
        babi.simulate(1, 5000)
        rates.append(5000 / (time.perf_counter() - start))
    assert max(rates) >= 10_000  # questions a second


def test_makes_vectors(simulated):
    _, examples = simulated
    vocabulary = babi.Vocabulary.from_examples(examples)
    size = max(len(example.story) for example in examples[:100])
    vectors = babi.vectorize(examples[:100], vocabulary, memory_size=size)
    for i, example in enumerate(examples[:100]):
        marked = np.flatnonzero(vectors.supporting[i])
        assert list(marked) == sorted(example.supporting_facts)


@needs_data
def test_reader_answers_the_real_files(real):
    right = sum(read(example) == example.answer for example in real)
    assert right >= 0.999 * len(real)


@needs_data
def test_sentences_are_those_of_the_real_files(simulated, real):
    _, examples = simulated
    for field in (lambda e: e.story, lambda e: (e.question,)):
        shapes = [
            {shape(words) for example in part for words in field(example)}
            for part in (examples, real)
        ]
        assert shapes[0] == shapes[1]
    vocabularies = [babi.Vocabulary.from_examples(part) for part in (examples, real)]
    assert vocabularies[0] == vocabularies[1]


def _distance(first, second):
    """Total variation between two samples' distributions."""
    counts = [Counter(sample) for sample in (first, second)]
    sizes = [sum(count.values()) for count in counts]
    return 0.5 * sum(
        abs(counts[0][key] / sizes[0] - counts[1][key] / sizes[1])
        for key in counts[0] | counts[1]
    )


@needs_data
def test_distributions_are_those_of_the_real_files(simulated, real):
    task, examples = simulated
    answers = [[example.answer for example in part] for part in (examples, real)]
    # Task 3's real training and test answers are 0.054 from each other.
    assert _distance(*answers) < {1: 0.05, 2: 0.05, 3: 0.08}[task]
    # How often each kind of sentence is told.
    kinds = [
        [shape(words) for example in stories(part) for words in example.story]
        for part in (examples, real)
    ]
    assert _distance(*kinds) < 0.03
    lengths = [[len(e.story) for e in stories(part)] for part in (examples, real)]
    np.testing.assert_allclose(
        np.quantile(lengths[0], [0.25, 0.5, 0.75]),
        np.quantile(lengths[1], [0.25, 0.5, 0.75]),
        rtol=0.15,
    )
    np.testing.assert_allclose(np.mean(lengths[0]), np.mean(lengths[1]), rtol=0.1)


@needs_data
def test_questions_look_back_as_far_as_in_the_real_files(simulated, real):
    """How many facts ago each supporting fact was told."""
    task, examples = simulated
    for rank in range(task):
        ages = [
            [min(len(e.story) - e.supporting_facts[rank], 12) for e in part]
            for part in (examples, real)
        ]
        assert _distance(*ages) < 0.06
