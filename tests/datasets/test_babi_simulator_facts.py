"""The supporting facts of simulated questions, and of real ones: which, and in which
order."""

import itertools

import pytest
from babi_readers import SOURCES, action, questions, read

from keras_attention.datasets import babi

# Those of tasks 7 and 8 are as many as a person took, gave, got and put down objects.
NUMBER = {
    **dict.fromkeys((1, 4, 5, 6, 9, 10, 12, 20), 1),
    **dict.fromkeys((2, 11, 13, 14, 15, 17, 18, 19), 2),
    **dict.fromkeys((3, 16), 3),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("task", [task for task in babi.TASKS if task != 3])
def test_supporting_facts_suffice(task, source):
    """A story of the supporting facts alone gives the same answer."""
    for example in questions(source, task):
        support = sorted(example.supporting_facts)
        assert len(set(support)) == NUMBER.get(task, len(support)) > 0
        story = tuple(example.story[fact] for fact in support)
        alone = babi.Example(task, story, example.question, example.answer)
        assert read(alone) == example.answer


@pytest.mark.parametrize("source", SOURCES)
def test_supporting_facts_of_task_3(source):
    """The object's last event, the move asked for, and the move before."""
    for example in questions(source, 3):
        event, after, before = example.supporting_facts
        person = example.story[event][0]
        thing, place = example.question[3], example.question[-1]
        assert event == max(
            fact
            for fact, words in enumerate(example.story)
            if thing in words and action(words) != "go"
        )
        moves = [
            fact
            for fact, words in enumerate(example.story)
            if words[0] == person and action(words) == "go"
        ]
        assert moves[moves.index(after) - 1] == before < after
        assert example.story[after][-1] == place
        assert example.story[before][-1] == example.answer


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("task", [7, 8])
def test_all_that_someone_had_in_hand_supports(task, source):
    for example in questions(source, task):
        person = example.question[-2]
        facts = [
            fact
            for fact, words in enumerate(example.story)
            if person in words and action(words) != "go"
        ]
        assert sorted(example.supporting_facts) == facts
        if task == 7:
            assert list(example.supporting_facts) == facts


@pytest.mark.parametrize("source", SOURCES)
def test_supporting_facts_of_task_8_come_object_by_object(source):
    for example in questions(source, 8):
        things = [
            next(w for w in example.story[fact] if w in ("apple", "football", "milk"))
            for fact in example.supporting_facts
        ]
        groups = [
            [fact for _, fact in group]
            for _, group in itertools.groupby(
                zip(things, example.supporting_facts), key=lambda pair: pair[0]
            )
        ]
        assert len(groups) == len(set(things))
        assert all(group == sorted(group) for group in groups)
        assert [group[0] for group in groups] == sorted(g[0] for g in groups)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("task", [11, 13])
def test_a_pronoun_and_the_names_it_stands_for(task, source):
    for example in questions(source, task):
        named, meant = example.supporting_facts
        assert meant == named + 1
        assert {"he", "she", "they"}.intersection(example.story[meant])
        assert example.question[2] in example.story[named]
