"""The simulator of the 20 bAbI tasks: answers, stories, seeds, counts and errors."""

import time

import numpy as np
import pytest
from babi_readers import read, stories

from keras_attention.datasets import babi

# Of task 5's questions "What did Mary give to Fred?", a few come after Mary gave Fred
# something else, too: here 0.20 %, as in the real files.
AMBIGUOUS = {5: 0.005}
# Two stories of two facts, one after another, may be the same.
QUESTIONS = {
    4: {1, 2},
    15: {4},
    16: {1},
    17: {8},
    18: {5, 6, 7, 8, 9},
    19: {1},
    20: {8, 9, 10, 11, 12},
}


@pytest.fixture(scope="module", params=babi.TASKS, ids="task{}".format)
def simulated(request):
    return request.param, babi.simulate(request.param, 2000, seed=3)


def test_reader_answers_every_simulated_question(simulated):
    task, examples = simulated
    assert len(examples) == 2000
    assert {example.task for example in examples} == {task}
    wrong = [e for e in examples if read(e) != e.answer]
    assert len(wrong) <= AMBIGUOUS.get(task, 0) * len(examples)


def test_stories_have_as_many_questions_as_the_real_ones(simulated):
    task, examples = simulated
    whole = stories(examples)[:-1]  # the last may be cut
    counts = {len(story) for story in whole}
    assert counts <= QUESTIONS.get(task, {5})
    assert sum(len(story) for story in whole) > len(examples) - 20


def test_supporting_facts_are_of_the_story(simulated):
    _, examples = simulated
    for example in examples:
        facts = example.supporting_facts
        assert facts
        assert len(set(facts)) == len(facts)
        assert all(0 <= fact < len(example.story) for fact in facts)


def test_seed_repeats(simulated):
    task, examples = simulated
    assert babi.simulate(task, 50, seed=3) == examples[:50]
    assert babi.simulate(task, 23, seed=3) == examples[:23]
    assert babi.simulate(task, 50, seed=6) != examples[:50]
    generator = np.random.default_rng(3)
    assert babi.simulate(task, 50, seed=generator) == examples[:50]
    assert babi.simulate(task, 0) == []


def test_makes_vectors(simulated):
    _, examples = simulated
    vocabulary = babi.Vocabulary.from_examples(examples)
    size = max(len(example.story) for example in examples[:100])
    vectors = babi.vectorize(examples[:100], vocabulary, memory_size=size)
    for i, example in enumerate(examples[:100]):
        marked = np.flatnonzero(vectors.supporting[i])
        assert list(marked) == sorted(example.supporting_facts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": 0}, "`task` must be from 1 to 20. Received: task=0"),
        ({"task": 21}, "`task` must be from 1 to 20. Received: task=21"),
        ({"task": "1"}, "Received: task='1'"),
        ({"task": [1]}, r"Received: task=\[1\]"),
        ({"task": True}, "Received: task=True"),
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
