"""Phrases, and exchanges of several words at once: found, and true to the task."""

import itertools

import numpy as np
import pytest

from keras_attention.datasets import babi

PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
SHAPES = {"blue_square", "pink_rectangle", "red_sphere", "red_square", "triangle"}
SHAPES |= {"yellow_square"}
MOVES = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
SIDES = {"above": (0, 1), "below": (0, -1)}
SIDES |= {"to_the_right_of": (1, 0), "to_the_left_of": (-1, 0)}


@pytest.fixture(scope="module")
def paths():
    return babi.simulate(19, 400, seed=1)


@pytest.fixture(scope="module")
def exchanges_of_paths(paths):
    return babi.find_exchanges(paths)


def images(exchanges, moves):
    """The images of four directions under all products of exchanges."""
    reached, new = {tuple(moves)}, [tuple(moves)]
    while new:
        words = new.pop()
        for exchange in exchanges:
            mapping = dict(exchange) | {b: a for a, b in exchange}
            image = tuple(mapping.get(word, word) for word in words)
            if image not in reached:
                reached.add(image)
                new.append(image)
    return reached


def symmetries(moves):
    """The images of four directions under the eight symmetries of a square."""
    names = {vector: name for name, vector in moves.items()}
    found = set()
    for matrix in itertools.product((-1, 0, 1), repeat=4):
        a, b, c, d = matrix
        if abs(a * d - b * c) == 1 and a * b == 0 and c * d == 0:
            image = [(a * x + b * y, c * x + d * y) for x, y in moves.values()]
            found.add(tuple(names[vector] for vector in image))
    assert len(found) == 8
    return found


@pytest.mark.slow
def test_a_map_may_be_turned_and_mirrored(exchanges_of_paths):
    """Directions may be exchanged together with their abbreviations in answers."""
    phrases, groups, joint = exchanges_of_paths
    assert phrases == ()
    assert groups == (PLACES,)
    for exchange in joint:
        mapping = dict(exchange) | {b: a for a, b in exchange}
        for move in MOVES:
            image = mapping.get(move, move)
            assert mapping.get(move[0], move[0]) == image[0]
    assert images(joint, MOVES) == symmetries(MOVES)


@pytest.mark.slow
def test_figures_are_phrases():
    phrases, groups, joint = babi.find_exchanges(babi.simulate(17, 1000, seed=1))
    assert ("red", "square") in phrases
    assert ("to", "the", "left", "of") in phrases
    assert SHAPES in [set(group) for group in groups]
    pairs = [(pair,) for group in groups for pair in itertools.combinations(group, 2)]
    assert images([*joint, *pairs], SIDES) == symmetries(SIDES)


@pytest.mark.slow
def test_names_that_also_stand_alone_make_no_phrase():
    """ "Mary and John" stands where "they" stands, but is about Mary and about John."""
    examples = babi.simulate(13, 300, seed=1)
    found = babi.find_phrases(examples)
    assert ("mary", "and", "john") in found or ("john", "and", "mary") in found
    phrases, groups, _ = babi.find_exchanges(examples)
    assert phrases == ()
    assert ("daniel", "john", "mary", "sandra") in groups


@pytest.mark.slow
def test_an_article_makes_no_phrase():
    """ "A swan" stands where "green" stands; exchanging "swan" alone does the same."""
    examples = babi.simulate(16, 300, seed=1)
    assert ("a", "swan") in babi.find_phrases(examples)
    phrases, groups, _ = babi.find_exchanges(examples)
    assert phrases == ()
    assert ("frog", "lion", "rhino", "swan") in groups


@pytest.mark.slow
def test_a_direction_with_a_habit_is_not_turned(paths):
    """Without paths that begin in the north, only east and west are alike."""
    kept = [example for example in paths if example.answer[0] != "n"]
    _, _, joint = babi.find_exchanges(kept)
    assert joint == ((("east", "west"), ("e", "w")),)


def test_exchanged_maps_keep_their_paths(paths, exchanges_of_paths):
    vocabulary = babi.Vocabulary.from_examples(paths)
    vectors = babi.vectorize(paths, vocabulary, memory_size=5)
    rename = babi.Renamer(
        {19: exchanges_of_paths.groups},
        vocabulary,
        joint={19: exchanges_of_paths.joint},
    )
    tasks = np.full(len(paths), 19)
    story, question, answers = rename(tasks, *vectors.inputs.values(), vectors.answers)
    assert (answers != vectors.answers).mean() > 0.7
    for n in range(len(paths)):
        told = [vocabulary.decode(fact[fact > 0]) for fact in story[n]]
        asked = vocabulary.decode(question[n][question[n] > 0])
        at, end = asked[6], asked[9]
        for step in vocabulary.words[answers[n]].split(","):
            (move,) = [word for word in MOVES if word[0] == step]
            back = {"north": "south", "south": "north", "east": "west", "west": "east"}
            # "the A is north of the B": north leads from B to A.
            there = [fact[1] for fact in told if fact[3] == move and fact[6] == at]
            there += [f[6] for f in told if f[3] == back[move] and f[1] == at]
            (at,) = there
        assert at == end


def test_joined_phrases():
    example = babi.Example(17, (("the", "red", "square", "is", "up"),), ("red",), "no")
    (joined,) = babi.join_phrases([example], [("red", "square")])
    assert joined.story == (("the", "red_square", "is", "up"),)
    assert joined.question == ("red",)


def test_one_task_only():
    mixed = babi.simulate(1, 5) + babi.simulate(2, 5)
    with pytest.raises(ValueError, match=r"of one task. Received: tasks=\[1, 2\]"):
        babi.joint_exchanges(mixed)


@pytest.mark.parametrize("examples", ["my.txt", 1, None, [], ["a", "b"]])
def test_what_is_no_list_of_examples(examples):
    message = r"`examples` must be a list of `babi\.Example`, .*Received: examples="
    with pytest.raises(ValueError, match=message):
        babi.find_exchanges(examples)
