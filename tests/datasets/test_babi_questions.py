"""The forms of questions in training, and how others differ from them."""

import json

import pytest

from keras_attention.datasets import babi
from keras_attention.datasets.babi.archive import Example


def example(question, *story):
    return Example(1, tuple(map(babi.tokenize, story)), babi.tokenize(question), "x")


TRAINING = [
    example("Where is John?", "John ran.", "Mary sat."),
    example("Where is Mary?", "Mary sat."),
    example("Is John in the park?", "John ran."),
    example("Is Mary in the zoo?", "Mary sat.", "John ran.", "Mary sat."),
    example("Is Mary in the park?", "Mary sat."),
]


def test_words_that_vary_share_a_form():
    forms = babi.question_forms(TRAINING)
    assert forms == [
        {
            "words": [["is"], ["john", "mary"], ["in"], ["the"], ["park", "zoo"]],
            "in_story": [1],
            "sentences": 3,
        },
        {
            "words": [["where"], ["is"], ["john", "mary"]],
            "in_story": [2],
            "sentences": 2,
        },
    ]
    assert json.loads(json.dumps(forms)) == forms


@pytest.mark.parametrize(
    ("question", "story", "said"),
    [
        ("where is john", ["John sat."], []),
        ("is john in the zoo", ["John sat."], []),
        ("where is the zoo", ["John sat."], ["no question of this form: where is the"]),
        ("where john is", ["John sat."], ["no question of this form: where john is?"]),
        ("where is mary", ["John sat."], ["The story does not mention mary."]),
        ("where is mary", ["Mary sat."] * 3, ["has 3 sentences. In training,"]),
        (
            "where is mary",
            ["John sat."] * 3,
            ["does not mention mary", "such a question had at most 2."],
        ),
    ],
)
def test_differences(question, story, said):
    forms = babi.question_forms(TRAINING)
    found = babi.differences(example(question, *story), forms)
    assert len(found) == len(said)
    for message, part in zip(found, said):
        assert part in message
        assert "`" not in message  # the live page shows it


@pytest.mark.parametrize("task", [1, 4, 8, 16, 19])
def test_new_questions_of_a_task_are_known(task):
    forms = babi.question_forms(babi.simulate(task, 300, seed=0))
    new = babi.simulate(task, 100, seed=1)
    assert sum(bool(babi.differences(asked, forms)) for asked in new) <= 5
