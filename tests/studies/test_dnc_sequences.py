"""Stories word by word: steps, answers, questions of one story, errors."""

import numpy as np
import pytest

from keras_attention.datasets import babi
from studies.dnc import sequences

STORY = """\
1 Mary went to the kitchen.
2 Where is Mary?\tkitchen\t1
3 Mary got the milk.
4 What is Mary carrying?\tapple,milk\t3
1 John is here.
2 Where is John?\there\t1
"""


def told(data, vocabulary, row):
    return vocabulary.decode(data["inputs"][row, : data["lengths"][row]])


def test_a_story_with_two_questions_is_one_sequence():
    examples = babi.parse(STORY)
    vocabulary = sequences.sequence_vocabulary(examples)
    data = sequences.sequences(examples, vocabulary)
    first = (
        "mary went to the kitchen . where is mary ? - "
        "mary got the milk . what is mary carrying ? - -"
    )
    assert told(data, vocabulary, 0) == first.split()
    assert " ".join(told(data, vocabulary, 1)) == "john is here . where is john ? -"
    steps = [i for i, word in enumerate(first.split()) if word == "-"]
    assert np.flatnonzero(data["answer_mask"][0]).tolist() == steps
    answers = vocabulary.decode(data["targets"][0, steps])
    assert answers == ["kitchen", "apple", "milk"]
    assert data["question"][0, steps].tolist() == [0, 1, 1]
    assert (data["question"] >= 0).tolist() == data["answer_mask"].tolist()
    assert not data["targets"][~data["answer_mask"]].any()
    assert not data["inputs"][1, data["lengths"][1] :].any()


def test_each_question_alone_and_blank_steps():
    examples = babi.parse(STORY)
    vocabulary = sequences.sequence_vocabulary(examples)
    data = sequences.sequences(examples, vocabulary, 2, whole_stories=False, steps=40)
    assert data["inputs"].shape == (3, 40)
    blank = ["<blank>", "<blank>"]
    asked = "mary went to the kitchen . mary got the milk . what is mary carrying ?"
    assert told(data, vocabulary, 1) == [*asked.split(), *blank, "-", "-"]


@pytest.mark.parametrize("task", [1, 2, 8, 15, 19])
def test_of_the_simulator_no_fact_and_no_answer_is_lost(task):
    examples = babi.simulate(task=task, count=60, seed=3)
    vocabulary = sequences.sequence_vocabulary(examples)
    data = sequences.sequences(examples, vocabulary, blanks=3)
    given = [[] for _ in examples]
    facts = 0
    for row, (mask, question) in enumerate(
        zip(data["answer_mask"], data["question"], strict=True)
    ):
        words = told(data, vocabulary, row)
        facts += words.count(".")
        assert words.count("<blank>") == 3 * words.count("?")
        assert words.count("?") == len({*question[mask].tolist()})
        for step in np.flatnonzero(mask):
            assert words[step] == "-"
            (word,) = vocabulary.decode([data["targets"][row, step]])
            given[question[step]].append(word)
    assert [",".join(words) for words in given] == [e.answer for e in examples]
    alone = sequences.sequences(examples, vocabulary, whole_stories=False)
    assert len(alone["inputs"]) == len(examples)
    assert facts <= sum(len(example.story) for example in examples)
    last = {}  # each story's facts are told once: as many as its last question knows
    for row in range(len(data["inputs"])):
        numbers = data["question"][row]
        last[row] = len(examples[numbers.max()].story)
    assert facts == sum(last.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"examples": []}, r"`examples` must hold at least one"),
        ({"blanks": -1}, r"`blanks` must not be negative\. Received: blanks=-1"),
        ({"steps": 3}, r"`steps` must hold the longest sequence, of 23\. Received"),
        (
            {"vocabulary": babi.Vocabulary(["mary"])},
            r"`vocabulary` must hold every word and mark, see .* none of: \['-', '\.'",
        ),
        (
            {"examples": [babi.Example(1, (("a",),), ("b",), None)]},
            r"examples\[0\] must have an answer",
        ),
    ],
)
def test_what_does_not_fit(change, message):
    examples = babi.parse(STORY)
    given = {
        "examples": examples,
        "vocabulary": sequences.sequence_vocabulary(examples),
    }
    with pytest.raises(ValueError, match=message):
        sequences.sequences(**given | change)
