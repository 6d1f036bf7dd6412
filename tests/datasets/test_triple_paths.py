"""Paths of relations in a knowledge base, and questions for a HopReader."""

import itertools

import numpy as np
import pytest

from keras_attention.datasets import triples
from keras_attention.datasets.triples import Fact, Question
from keras_attention.text import EntityLinker, UnknownEntityError

TEXT = """\
The Pond|painted_by|Ann Lee
The Mill|painted_by|Ann Lee
The Mill|year|1901
The Heath|painted_by|Bo Dahl
The Heath|year|1901
The Heath|year|1902
Bo Dahl|taught_by|Ann Lee
Bo Dahl|taught_by|Bo Dahl
"""


@pytest.fixture
def knowledge():
    return triples.KnowledgeBase(triples.parse(TEXT))


def ends(knowledge, start, path):
    """The names at the end of a path, from `facts_about`."""
    reached = {start}
    for relation in path:
        reached = {
            fact.object
            for name in reached
            for fact in knowledge.facts_about(name)
            if fact.relation == relation and (fact.object != start or name == start)
        }
    return reached


def test_facts_as_an_array(knowledge):
    array = knowledge.to_array()
    assert array.dtype == np.int32
    names, relations = knowledge.entities, knowledge.relations
    facts = [Fact(names[e], relations[r], names[v]) for e, r, v in array.tolist()]
    assert facts == [f for name in names for f in knowledge.facts_about(name)]
    assert len(facts) == 16


def test_the_ends_of_a_path(knowledge):
    names, relations = knowledge.entities, knowledge.relations[1:]
    met = 0
    for start in names:
        for path in itertools.product(relations, repeat=2):
            numbers = [knowledge.relations.index(relation) for relation in path]
            found = triples.path_ends(knowledge, start, numbers)
            met += len(found)
            assert len(found) == len(set(found))
            assert {names[end] for end in found} == ends(knowledge, start, path)
    assert met > 20
    assert triples.path_ends(knowledge, "1901", []) == [knowledge.index("1901")]


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_path_is_found_by_its_ends(knowledge, hops):
    """No path is more like the answers than the one that is found."""
    names, relations = knowledge.entities, knowledge.relations[1:]
    random = np.random.default_rng(0)
    for start in names:
        paths = list(itertools.product(relations, repeat=hops))
        for _ in range(5):
            answers = set(random.choice(names, 2, replace=False))
            likeness = {
                path: len(e & answers) / len(e | answers)
                for path in paths
                if (e := ends(knowledge, start, path))
            }
            found = triples.find_path(knowledge, start, [*answers, "Nobody"], hops)
            if not any(likeness.values()):
                assert found is None
                continue
            path = tuple(knowledge.relations[r] for r in found.relations)
            reached = ends(knowledge, start, path)
            assert likeness[path] == max(likeness.values())
            assert {names[end] for end in found.ends} == reached
            assert list(found.ends) == sorted(found.ends)
            assert found.share == len(reached & answers) / len(reached)


def test_no_path(knowledge):
    assert triples.find_path(knowledge, "1902", ["Nobody"], 2) is None
    assert triples.find_path(knowledge, "1902", [], 2) is None
    with pytest.raises(ValueError, match=r"`hops` must be .* Received: hops=0"):
        triples.find_path(knowledge, "1902", ["1901"], 0)
    with pytest.raises(ValueError, match="Received: entity='Nobody'"):
        triples.find_path(knowledge, "Nobody", ["1901"], 1)
    with pytest.raises(ValueError, match="Received: entity='Nobody'"):
        triples.path_ends(knowledge, "Nobody", [1])


def test_questions_for_a_reader(knowledge):
    questions = [
        Question("who painted [The Mill]", ("Nobody", "Ann Lee", "Ann Lee")),
        Question("who painted [The Moon]"),
    ]
    linker = EntityLinker(knowledge.entities)
    vocabulary = triples.question_vocabulary(questions, linker)
    asked = triples.ask(questions, knowledge, vocabulary, linker, unknown="empty")
    vectors = triples.vectorize(questions, knowledge, vocabulary, unknown="empty")
    np.testing.assert_array_equal(asked.questions, vectors.inputs["question"])
    assert asked.starts.tolist() == [knowledge.index("The Mill"), -1]
    assert asked.answers == [[knowledge.index("Ann Lee")], []]
    with pytest.raises(UnknownEntityError, match=r"questions\[1\]: "):
        triples.ask(questions, knowledge, vocabulary)
    with pytest.raises(ValueError, match="`questions` must hold at least one"):
        triples.ask([], knowledge, vocabulary)
    with pytest.raises(ValueError, match="`unknown` must be 'raise' or 'empty'"):
        triples.ask(questions, knowledge, vocabulary, unknown="skip")
