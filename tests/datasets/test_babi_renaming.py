"""Words that may be exchanged: found where they are, and exchanged everywhere."""

import itertools

import numpy as np
import pytest
from calling import needs_data

from keras_attention.datasets import babi

PEOPLE = ("daniel", "john", "mary", "sandra")
PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
GROUP = ("apple", "football", "milk")
MOVES = ("journeyed", "moved", "travelled")
FOUND = babi.Exchanges((), (("john", "mary"),), ((("john", "mary"),),))


def test_groups_of_task_1():
    groups = babi.interchangeable(babi.simulate(1, 1000, seed=3))
    assert set(groups) == {PEOPLE, PLACES, MOVES}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_word_with_a_habit_stands_apart(seed):
    """Mary is asked for only when she is in the kitchen; nothing else tells her."""
    examples = [
        example
        for example in babi.simulate(1, 2000, seed=seed)
        if example.question[-1] != "mary" or example.answer == "kitchen"
    ]
    groups = babi.interchangeable(examples)
    assert ("daniel", "john", "sandra") in groups
    assert all("mary" not in group for group in groups)
    assert all("kitchen" not in group for group in groups)


def test_words_that_are_tied_to_other_words_stand_apart():
    """Each pet has its own plural, and what it fears is told by that."""
    generator = np.random.default_rng(0)
    animals = {"cat": "cats", "wolf": "wolves", "mouse": "mice"}
    examples = []
    for _ in range(400):
        one, other = generator.choice(list(animals), 2, replace=False)
        third = generator.choice([name for name in animals if name != one])
        name = generator.choice(["gertrude", "emily", "winona"])
        story = (
            (name, "is", "a", one),
            (animals[one], "are", "afraid", "of", animals[other]),
            (animals[third], "are", "afraid", "of", animals[one]),
        )
        question = ("what", "is", name, "afraid", "of")
        examples.append(babi.Example(15, story, question, other))
    assert babi.interchangeable(examples) == (("emily", "gertrude", "winona"),)


@pytest.mark.slow
@needs_data
def test_groups_of_real_tasks():
    # Path finding: the places are alike, the directions are not, since the answers
    # abbreviate them. Relations: north and south may be exchanged, as in a mirror.
    assert babi.interchangeable(babi.load(19)) == (PLACES,)
    assert set(babi.interchangeable(babi.load(4))) == {
        *(PLACES, ("east", "west"), ("north", "south"))
    }
    # Of motives, the places are not alike: who is hungry goes to the kitchen.
    assert ("antoine", "jason", "sumit", "yann") in (
        groups := babi.interchangeable(babi.load(20))
    )
    assert all("kitchen" not in group for group in groups)


def arrays(examples):
    vocabulary = babi.Vocabulary.from_examples(examples)
    vectors = babi.vectorize(examples, vocabulary, memory_size=60)
    return vocabulary, vectors


def answer(story, question):
    """Where is the person? In the place where they last went."""
    (person,) = set(question) & set(PEOPLE)
    (last,) = [fact for fact in story if fact[0] == person][-1:]
    return last[-1]


def test_exchanged_stories_keep_their_sense():
    examples = babi.simulate(1, 300, seed=0)
    vocabulary, vectors = arrays(examples)
    rename = babi.Renamer({1: (PEOPLE, PLACES)}, vocabulary)
    tasks = np.ones(len(examples), int)
    inputs = vectors.inputs
    before = [array.copy() for array in (*inputs.values(), vectors.answers)]
    story, question, answers = rename(
        tasks, inputs["story"], inputs["question"], vectors.answers
    )
    for array, old in zip((*inputs.values(), vectors.answers), before):
        np.testing.assert_array_equal(array, old)  # new arrays, not changed ones
    assert (story != inputs["story"]).any((1, 2)).mean() > 0.9
    for n in range(len(examples)):
        told = [vocabulary.decode(fact[fact > 0]) for fact in story[n] if fact.any()]
        asked = vocabulary.decode(question[n][question[n] > 0])
        assert answer(told, asked) == vocabulary.words[answers[n]]
    np.testing.assert_array_equal(story == 0, inputs["story"] == 0)
    # The second time they are exchanged in another way.
    again = rename(tasks, inputs["story"], inputs["question"], vectors.answers)
    assert (again[0] != story).any()


def test_only_the_task_that_has_groups():
    examples = babi.simulate(1, 20, seed=0)
    vocabulary, vectors = arrays(examples)
    tasks = np.repeat([1, 2], 10)
    rename = babi.Renamer({1: (), 2: (PEOPLE,)}, vocabulary, seed=1)
    story, _, _ = rename(tasks, *vectors.inputs.values(), vectors.answers)
    changed = (story != vectors.inputs["story"]).any((1, 2))
    assert not changed[:10].any()
    assert changed[10:].any()


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        # All six orders of two are known, so that any exchange will do.
        (list(itertools.permutations(GROUP, 2)), 6),
        # Any exchange but none would make a list that is not known.
        ([("milk", "apple"), ("apple", "football")], 1),
    ],
)
def test_lists_are_exchanged_word_by_word_and_only_for_known_ones(known, expected):
    story = tuple(("mary", "took", "the", name) for name in GROUP)
    question = ("what", "has", "mary")
    examples = [babi.Example(8, story, question, ",".join(pair)) for pair in known]
    vocabulary, vectors = arrays(examples)
    rename = babi.Renamer({8: (GROUP,)}, vocabulary, variants=200)
    seen = set()
    for _ in range(100):
        new, _, answers = rename(
            np.full(len(known), 8), *vectors.inputs.values(), vectors.answers
        )
        told = [vocabulary.words[fact[3]] for fact in new[0][:3]]
        exchanged = dict(zip(GROUP, told))
        named = ",".join(exchanged[name] for name in known[0])
        assert vocabulary.words[answers[0]] == named
        seen.add(named)
    assert len(seen) == expected


def test_words_outside_the_vocabulary_are_named():
    """Phrases are words only in the examples that were joined."""
    examples = babi.simulate(17, 20, seed=1)
    phrases = [("red", "square"), ("blue", "square"), ("pink", "rectangle")]
    group = tuple("_".join(phrase) for phrase in phrases)
    vocabulary, _ = arrays(examples)
    message = r"`groups` must hold words of .*Received: 'red_square' of task 17"
    with pytest.raises(ValueError, match=message):
        babi.Renamer({17: (("triangle", *group),)}, vocabulary)
    message = r"`joint` must hold words of .*Received: 'up' of task 17"
    with pytest.raises(ValueError, match=message):
        babi.Renamer({}, vocabulary, joint={17: ((("above", "up"),),)})
    joined = babi.join_phrases(examples, phrases)
    vocabulary, vectors = arrays(joined)
    rename = babi.Renamer({17: (group,)}, vocabulary)
    story, _, _ = rename(np.full(20, 17), *vectors.inputs.values(), vectors.answers)
    assert (story != vectors.inputs["story"]).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"groups": FOUND},
            r"`groups` must be .* pass \{task: found\.groups\} and joint=",
        ),
        ({"groups": {1: FOUND}}, r"`groups` must be .*Received: groups=\{1: Exchanges"),
        ({"groups": {99: FOUND.groups}}, r"`groups` must be .*Received: groups=\{99: "),
        ({"groups": {1: ("john", "mary")}}, r"`groups` must be .*'john'"),
        (
            {"groups": {}, "joint": FOUND.joint},
            r"`joint` must be .* from tasks 1 to 20",
        ),
        ({"groups": {}, "joint": {0: FOUND.joint}}, r"`joint` must be .*joint=\{0: "),
        (
            {"groups": {}, "joint": {1: FOUND}},
            r"`joint` must be .*joint=\{1: Exchanges",
        ),
    ],
)
def test_what_is_no_dict_by_task(arguments, message):
    vocabulary = babi.Vocabulary(["john", "mary"])
    with pytest.raises(ValueError, match=message):
        babi.Renamer(vocabulary=vocabulary, **arguments)


def test_words_of_lists_need_no_index_of_their_own():
    """The answer "n,e" is one word; "n" and "e" are exchanged in it."""
    story = (("a", "is", "north", "of", "b"), ("b", "is", "east", "of", "c"))
    examples = [babi.Example(19, story, ("path",), answer) for answer in ("n,e", "e,n")]
    vocabulary, vectors = arrays(examples)
    joint = {19: ((("north", "east"), ("n", "e")),)}
    rename = babi.Renamer({}, vocabulary, joint=joint)
    tasks, answers = np.full(2, 19), set()
    for _ in range(20):
        answers.add(rename(tasks, *vectors.inputs.values(), vectors.answers)[2][0])
    assert {vocabulary.words[n] for n in answers} == {"n,e", "e,n"}


def test_questions_of_several_tasks():
    with pytest.raises(ValueError, match=r"of one task. Received: tasks=\[1, 2\]"):
        babi.interchangeable(babi.simulate(1, 5) + babi.simulate(2, 5))
