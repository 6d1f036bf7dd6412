"""Questions made from the names of relations, and the paths that they ask for."""

import numpy as np
import pytest

from keras_attention.datasets import triples
from keras_attention.datasets.triples import phrases
from keras_attention.text import EntityLinker

TEXT = """\
The Pond|painted_by|Ann Lee
The Mill|painted_by|Ann Lee
The Mill|year|1901
The Heath|painted_by|Bo Dahl
Bo Dahl|taught_by|Ann Lee
"""


@pytest.fixture
def knowledge():
    return triples.KnowledgeBase(triples.parse(TEXT))


# Phrases


@pytest.mark.parametrize(
    ("relation", "asked", "inverse"),
    [
        ("painted_by", "who painted {}", "what did {} paint"),
        ("painted_by", "who is the painter of {}", "what was painted by {}"),
        ("directedBy", "{} 's director", "which were directed by {}"),
        ("written by", "who wrote {}", "what did {} write"),
        ("was_composed_by", "who composed {}", "what did {} compose"),
        ("release_year", "what is the release year of {}", "whose release year is {}"),
        ("release_year", "when was {}", "what was in {}"),
        ("has_genre", "{} 's genre", "what has the genre {}"),
        ("birthPlace", "where was {} born", "whose birth place is {}"),
        ("death year", "when did {} die", "who died in {}"),
        ("member of", "what is {} a member of", "who are the members of {}"),
        ("born_in", "where was {} born", "who was born in {}"),
        ("located_in", "where is {}", "what is in {}"),
        ("works-at", "where does {} work", "who works at {}"),
        ("part_of", "what is {} the part of", "what is the part of {}"),
        ("capital of", "{} is the capital of what", "the capital of {}"),
        ("wrote", "what did {} write", "who wrote {}"),
        ("likes", "what does {} like", "who likes {}"),
        ("genres", "what are the genres of {}", "whose genres is {}"),
        ("in", "where is {}", "what is in {}"),
        ("{}", "what is the relation of {}", "whose relation is {}"),
    ],
)
def test_phrases_of_a_relation(relation, asked, inverse):
    made = triples.phrases_of(relation)
    assert asked in made.questions
    assert inverse in made.inverse_questions
    assert made.names
    assert made.inverse_names
    for text in (t for texts in made for t in texts):
        assert text.count("{}") == 1, text
        assert text.format("x") == " ".join(text.format("x").split())
    assert made.inverse().inverse() == made


@pytest.mark.parametrize(
    ("verb", "base", "agent"),
    [
        ("directed", "direct", "director"),
        ("painted", "paint", "painter"),
        ("produced", "produce", "producer"),
        ("created", "create", "creator"),
        ("married", "marry", "marryer"),  # no English; it does no harm
        ("planned", "plan", "planer"),
        ("called", "call", "caller"),
        ("named", "name", "namer"),
        ("played", "play", "player"),
        ("sung", "sing", "singer"),
        ("led", "lead", "leader"),
    ],
)
def test_verb_forms(verb, base, agent):
    forms = phrases.verb_forms(verb)
    assert forms[2] == base
    assert phrases.agents_of(forms) == (agent,)


def test_times_of_what_happened():
    made = phrases.phrases_of_times("year", ["painted"])
    assert "when was {} painted" in made.questions
    assert "what was painted in {}" in made.inverse_questions
    assert phrases.phrases_of_times("style", ["painted"]) == ((), (), (), ())
    assert phrases.participle_of("directed_by") == "directed"
    assert phrases.participle_of("year") == phrases.participle_of("by") == ""


# Generated questions


@pytest.mark.parametrize("hops", [1, 2])
def test_answers_are_the_ends_of_the_paths(knowledge, hops):
    made = triples.generate_questions(knowledge, 500, hops, seed=hops)
    assert len(made) == 500
    linker = EntityLinker(knowledge.entities)
    seen = set()
    for question in made:
        entity = linker.link(question.text).entity
        assert set(question.answers) == set(
            triples.follow(knowledge, entity, question.path)
        )
        seen.add(question.path)
    singles = {(relation,) for relation in knowledge.relations[1:]}
    assert {path for path in seen if len(path) == 1} == singles
    memory = triples.path_memory(knowledge, 32, hops)
    assert seen == {path for path in memory.paths if path}
    assert made == triples.generate_questions(knowledge, 500, hops, seed=hops)


def test_templates_and_other_words(knowledge):
    made = triples.generate_questions(
        knowledge, 400, templates={"!year": ["{} saw what"]}, other_words=1.0
    )
    assert any("saw what" in q.text.replace("<other> ", "") for q in made)
    assert all(q.text.count("<other>") == 1 for q in made)
    assert {q.text.split()[0] for q in made} > {"<other>", "who"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hops": 3}, "`hops` must be 1 or 2. Received: hops=3"),
        ({"count": 0}, "`count` must be a whole number of at least 1"),
        ({"other_words": 2}, "`other_words` must be a probability"),
        ({"templates": {"colour": "{}"}}, "`templates` must have .* year, .*'colour'"),
        ({"other_words": "a"}, "`other_words` must be .*other_words='a'"),
        ({"count": True}, "`count` must be a whole number .*count=True"),
        ({"templates": {"year": "who {x} {}"}}, "without other braces.*'who {x} {}'"),
        ({"templates": {"year": "who { {}"}}, "without other braces.*'who { {}'"),
        ({"templates": {"year": [7]}}, "must be text with .*templates.'year'.=7"),
        ({"templates": {"year": "when"}}, "one '{}' in place .*: templates.'year'.='w"),
    ],
)
def test_wrong_options_are_refused(knowledge, options, message):
    with pytest.raises(ValueError, match=message):
        triples.generate_questions(knowledge, **options)


def test_several_values(knowledge):
    assert triples.several_values(knowledge) == []
    lines = [f"person {n}|born_in|town" for n in range(9)]
    lines += ["person 8|born_in|village", "a|likes|b", "a|likes|c", "b|likes|c"]
    found = triples.several_values(triples.KnowledgeBase(triples.parse(lines)))
    assert found == [("person 8", "born_in", ("town", "village"), 8 / 9)]
    with pytest.raises(ValueError, match="`share` must be from 0 to 1"):
        triples.several_values(knowledge, 2)


# Paths


def test_path_memory(knowledge):
    memory = triples.path_memory(knowledge, 7)
    assert memory.values.tolist() == [2, 3, 4, 5, 6, 7, 0]
    assert memory.keys.tolist() == [*([1, n] for n in range(1, 7)), [0, 0]]
    assert memory.paths[2] == ("painted_by",)
    assert memory.paths[7] == ("!taught_by",)
    assert memory.paths[8] == ()
    assert triples.path_memory(knowledge, 5) is None
    both = triples.path_memory(knowledge, 32, hops=2)
    pairs = {path for path in both.paths if len(path) == 2}
    assert ("taught_by", "!painted_by") in pairs
    assert ("painted_by", "!painted_by") in pairs  # two paintings of one painter
    assert ("year", "!year") not in pairs  # it leads back alone
    slot = both.paths.index(("taught_by", "!painted_by")) - 2
    first, relation = both.keys[slot].tolist()
    assert both.paths[first] == ("taught_by",)
    assert knowledge.relations[relation] == "!painted_by"
    with pytest.raises(ValueError, match="`hops` must be 1 or 2"):
        triples.path_memory(knowledge, 32, 3)


def test_extend(knowledge):
    questions = [
        triples.Question("who painted [The Mill]", ("Ann Lee",)),
        triples.Question("whom did [Ann Lee] teach", ("Bo Dahl",)),
    ]
    linker = EntityLinker(knowledge.entities)
    vocabulary = triples.question_vocabulary(questions, linker)
    vectors = triples.vectorize(questions, knowledge, vocabulary, 8)
    memory = triples.path_memory(knowledge, 8)
    inputs, answers = memory.extend(vectors, [(), ("!taught_by",)])
    assert answers.shape == (3, 10)
    np.testing.assert_array_equal(answers[:2], vectors.answers)
    assert answers[2].tolist() == [float(n == 7) for n in range(10)]
    np.testing.assert_array_equal(inputs["question"][2], inputs["question"][1])
    np.testing.assert_array_equal(inputs["keys"][2], memory.keys)
    np.testing.assert_array_equal(inputs["values"][2], memory.values)
    for paths, message in (
        ([()], "one path per question. Received: len.paths.=1, len.answers.=2"),
        ([(), ("colour",)], r"must be paths of the memory. Received: \('colour',\)"),
    ):
        with pytest.raises(ValueError, match=message):
            memory.extend(vectors, paths)
    with pytest.raises(
        ValueError, match=r"memories of the same size\. Received: 8 and 9"
    ):
        triples.path_memory(knowledge, 9).extend(vectors, [(), ()])


def test_follow_and_explain(knowledge):
    assert triples.follow(knowledge, "Bo Dahl", ("taught_by", "!painted_by")) == (
        "The Pond",
        "The Mill",
    )
    assert triples.follow(knowledge, "The Mill", ("painted_by", "!painted_by")) == (
        "The Pond",
    )
    with pytest.raises(ValueError, match=r"`path` must hold relations .*: 'colour'"):
        triples.follow(knowledge, "Bo Dahl", ("colour",))
    memory = triples.path_memory(knowledge, 8)
    likely = np.zeros(10)
    likely[[2, 3, 5]] = 0.1, 0.2, 0.7  # painted_by, year, !painted_by
    explained = memory.explain(knowledge, "The Mill", "Ann Lee", likely)
    assert explained == (("painted_by",), 0.1)
    assert memory.explain(knowledge, "The Mill", "Bo Dahl", likely) == ((), 0.0)
