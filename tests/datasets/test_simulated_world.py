"""The simulated world of memory networks: answers, difficulty, sizes and errors."""

import itertools
from collections import Counter

import numpy as np
import pytest
from babi_readers import OBJECTS, action, read, stories
from distances import chance, total_variation

from keras_attention.datasets import babi, simulated_world

ROOMS = {"bedroom", "bathroom", "kitchen", "office", "garden"}
SETTINGS = list(itertools.product((1, 5, 10), ("actor", "actor+object")))


@pytest.fixture(scope="module", params=SETTINGS, ids=str)
def world(request):
    difficulty, questions = request.param
    return *request.param, simulated_world.simulate(3000, difficulty, questions, seed=3)


def test_people_objects_rooms_and_actions(world):
    *_, examples = world
    told = [words for story in stories(examples) for words in story[-1].story]
    assert {words[0] for words in told} == {"mary", "john", "sandra", "daniel"}
    assert {action(words) for words in told} == {"go", "get", "drop"}
    words = {word for sentence in told for word in sentence}
    assert words & OBJECTS == {"apple", "football", "milk"}
    assert {words[-1] for words in told if action(words) == "go"} == ROOMS
    assert {example.answer for example in examples} == ROOMS


def test_reader_answers_every_question(world):
    *_, examples = world
    assert [read(example) for example in examples] == [e.answer for e in examples]


def test_supporting_facts_suffice(world):
    _, questions, examples = world
    for example in examples:
        support = sorted(example.supporting_facts)
        assert len(set(support)) == example.task
        story = tuple(example.story[fact] for fact in support)
        alone = babi.Example(example.task, story, example.question, example.answer)
        assert read(alone) == example.answer
        if example.task == 2:
            assert example.question[-1] in example.story[example.supporting_facts[0]]
    kinds = Counter(len(example.question) - 2 for example in examples)
    assert kinds == Counter(example.task for example in examples)
    assert set(kinds) == ({1} if questions == "actor" else {1, 2})
    if questions == "actor+object":
        assert abs(kinds[1] - kinds[2]) < 0.1 * len(examples)


def test_difficulty_is_how_far_back_the_last_needed_statement_lies(world):
    """Each number up to the difficulty is as frequent as another, for each kind."""
    difficulty, _, examples = world
    for task in {example.task for example in examples}:
        ages = [
            len(example.story) - max(example.supporting_facts)
            for example in examples
            if example.task == task
        ]
        even = range(1, difficulty + 1)
        assert set(ages) == set(even)
        assert total_variation(ages, even) <= 2 * chance(even, len(ages))


def visits(example, person):
    """The moves of a person: the statement and the room."""
    return [
        (number, words[-1])
        for number, words in enumerate(example.story)
        if words[0] == person and action(words) == "go"
    ]


@pytest.mark.parametrize("difficulty", [1, 5])
def test_where_someone_was_before_a_room(difficulty):
    kinds = "actor+object+before"
    examples = simulated_world.simulate(1500, difficulty, kinds, seed=3)
    tasks = Counter(example.task for example in examples)
    assert all(abs(tasks[task] - 500) < 60 for task in (1, 2, 3))
    ages = []
    for example in examples:
        if example.task != 3:
            assert read(example) == example.answer
            continue
        where, was, person, before, the, room = example.question
        assert (where, was, before, the) == ("where", "was", "before", "the")
        moves = visits(example, person)
        there = max(i for i, (_, goal) in enumerate(moves) if goal == room)
        (fact, answer), (move, _) = moves[there - 1], moves[there]
        assert there > 0
        assert (example.answer, example.supporting_facts) == (answer, (move, fact))
        ages.append(len(example.story) - move)
    even = range(1, difficulty + 1)
    assert total_variation(ages, even) <= 2 * chance(even, len(ages))
    alone = simulated_world.simulate(300, difficulty, "actor+before", seed=3)
    assert {example.task for example in alone} == {1, 3}


def test_seven_statements_for_three_questions(world):
    *_, examples = world
    assert len(examples) == 3000
    told = sorted(stories(examples), key=len)
    assert max(len(story[-1].story) for story in told) <= 35
    assert abs(35 * len(told) - 7000) <= 70
    for before, after in itertools.pairwise(examples):
        if after.story[: len(before.story)] == before.story:
            assert len(after.story) > len(before.story)


def test_seed_repeats(world):
    difficulty, questions, examples = world
    make = simulated_world.simulate
    assert make(60, difficulty, questions, seed=3) == examples[:60]
    assert make(60, difficulty, questions, seed=4) != examples[:60]
    generator = np.random.default_rng(3)
    assert make(60, difficulty, questions, seed=generator) == examples[:60]
    assert make(0, difficulty, questions) == []


def test_defaults_are_the_paper_s():
    examples = simulated_world.simulate()
    assert len(examples) == 3000
    assert {example.task for example in examples} == {1}
    assert {len(e.story) - e.supporting_facts[0] for e in examples} == {1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": -1}, "`count` must be .* Received: count=-1"),
        ({"count": 2.5}, "Received: count=2.5"),
        ({"difficulty": 0}, "`difficulty` must be .* from 1 to 10. Received: diff"),
        ({"difficulty": 11}, "Received: difficulty=11"),
        ({"difficulty": 1.5}, "Received: difficulty=1.5"),
        ({"questions": ["actor"]}, r"Received: questions=\['actor'\]"),
        (
            {"questions": "object"},
            r"must be one of \['actor', 'actor\+b.*. Received: q",
        ),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        simulated_world.simulate(**arguments)
