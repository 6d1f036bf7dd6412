"""The simulator of the 20 bAbI tasks, held against the real files."""

import pytest
from babi_readers import read, real_examples, roles, shape, stories
from calling import needs_data
from distances import chance, total_variation

from keras_attention.datasets import babi

pytestmark = needs_data
# How often the reader answers as the file does; see `AMBIGUOUS` for task 5.
READ_RIGHT = {5: 0.995}

# Where the real files are farther from themselves: task 3's training and test answers
# are 0.054 from each other, task 15's 0.125.
LIMITS = {(3, "answers"): 0.08, (15, "answers"): 0.05}


@pytest.fixture(scope="module", params=babi.TASKS, ids="task{}".format)
def real(request):
    return real_examples()[request.param]


@pytest.fixture(scope="module")
def simulated(real):
    return babi.simulate(real[0].task, 4 * len(real), seed=0)


def test_reader_answers_the_real_files(real):
    right = sum(read(example) == example.answer for example in real)
    assert right >= READ_RIGHT.get(real[0].task, 1.0) * len(real)


def test_sentences_are_those_of_the_real_files(real, simulated):
    for field in (lambda e: e.story, lambda e: (e.question,)):
        shapes = [
            {shape(words) for example in part for words in field(example)}
            for part in (simulated, real)
        ]
        assert shapes[0] == shapes[1]
    vocabularies = [babi.Vocabulary.from_examples(part) for part in (simulated, real)]
    # Task 8's lists of three objects are rare: not all orders come in the real files.
    words = [{w for w in v.words if w.count(",") < 2} for v in vocabularies]
    assert words[0] == words[1]


def ages(example):
    """How many facts ago each of the first three supporting facts was told."""
    told = len(example.story)
    return tuple(min(told - fact, 12) for fact in example.supporting_facts[:3])


# Of each question, each fact and each story.
STATISTICS = {
    "answers": lambda part: [example.answer for example in part],
    "questions": lambda part: [shape(example.question) for example in part],
    "facts_told": lambda part: [len(example.story) // 4 for example in part],
    "ages": lambda part: [ages(example) for example in part],
    "supporting_facts": lambda part: [roles(example) for example in part],
    "facts": lambda part: [
        shape(words) for story in stories(part) for words in story[-1].story
    ],
    "questions_per_story": lambda part: [len(story) for story in stories(part)],
}


@pytest.mark.parametrize("statistic", STATISTICS)
def test_distributions_are_those_of_the_real_files(real, simulated, statistic):
    """Within twice the distance that chance makes one expect.

    Questions of one story hang together, as many are about the same people and
    facts: a story is taken to be worth two of them.
    """
    found, made = (STATISTICS[statistic](part) for part in (real, simulated))
    size = len(found)
    if statistic != "facts":
        size = min(size, 2 * len(stories(real)))
    limit = LIMITS.get((real[0].task, statistic), 2 * chance(made, size) + 0.001)
    assert total_variation(found, made) <= limit
