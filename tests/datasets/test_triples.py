"""Triples: the formats, the facts around an entity, the linker, the vectors."""

import contextlib
import gzip

import numpy as np
import pytest
from calling import needs_data

from keras_attention.datasets import DamagedDataError, DataNotFoundError, triples
from keras_attention.datasets.triples import Fact
from keras_attention.text import ENTITY, EntityLinker, UnknownEntityError

TEXT = """\
The Pond|painted_by|Ann Lee
The Mill|painted_by|Ann Lee
The Mill|year|1901

The Heath|painted_by|Bo Dahl
The Heath|year|1901
Bo Dahl|taught_by|Ann Lee
"""
QUESTIONS = """\
who painted [The Mill]\tAnn Lee
what did [Ann Lee] paint\tThe Pond|The Mill
"""


@pytest.fixture
def knowledge():
    return triples.KnowledgeBase(triples.parse(TEXT))


# The format


def test_parse():
    facts = triples.parse(TEXT)
    assert len(facts) == 6
    assert facts[0] == Fact("The Pond", "painted_by", "Ann Lee")
    assert triples.parse(TEXT.split("\n")) == facts
    assert triples.parse(TEXT.replace("|", "\t"), "\t") == facts
    assert triples.parse(TEXT.replace("|", " ||| "), "|||") == facts
    assert triples.parse("\n \n") == []
    assert triples.parse("\ufeff" + TEXT) == facts
    # Some names hold what Python's splitlines takes for the end of a line.
    assert triples.parse("a\x85b|r|c\u2028d\r\n")[0].subject == "a\x85b"


@pytest.mark.parametrize(
    "line",
    [
        "The Mill|painted_by",
        "The Mill|a|b|c",
        "The Mill||Ann Lee",
        "The Mill",
        "a\tb\tc",
    ],
)
def test_a_line_that_does_not_parse_is_named(line, tmp_path):
    path = tmp_path / "kb.txt"
    path.write_text(TEXT + line + "\n", encoding="utf-8")
    message = r"kb\.txt, line 8: a fact must be a subject, a relation and an object wit"
    with pytest.raises(ValueError, match=message) as caught:
        triples.load(path)
    assert f"Received: {line!r}" in str(caught.value)


def test_load(tmp_path):
    plain, packed = tmp_path / "kb.txt", tmp_path / "kb.txt.gz"
    plain.write_text(TEXT, encoding="utf-8")
    packed.write_bytes(gzip.compress(TEXT.encode()))
    assert triples.load(plain) == triples.load(str(packed)) == triples.parse(TEXT)
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(DamagedDataError, match=r"kb.txt.gz is truncated or altered"):
        triples.load(packed)
    plain.write_bytes(b"a|b|c\na|\xff|c\n")
    with pytest.raises(ValueError, match=r"kb.txt, line 2: not UTF-8"):
        triples.load(plain)
    with pytest.raises(DataNotFoundError, match=r"no file .*nowhere.txt"):
        triples.load(tmp_path / "nowhere.txt")
    with pytest.raises(ValueError, match="`separator` must not be empty"):
        triples.parse(TEXT, "")


def test_questions(tmp_path):
    first, second = triples.parse_questions(QUESTIONS)
    assert first == triples.Question("who painted [The Mill]", ("Ann Lee",))
    assert second.answers == ("The Pond", "The Mill")
    path = tmp_path / "qa.txt"
    path.write_text(QUESTIONS, encoding="utf-8")
    assert triples.load_questions(path) == [first, second]


@pytest.mark.parametrize(
    "line", ["who painted [The Mill]", "who\t", "who\ta||b", "\ta", "who\ta\tb"]
)
def test_a_question_that_does_not_parse_is_named(line):
    message = "mine.txt, line 3: a line must be a question, a tab and its answers"
    with pytest.raises(ValueError, match=message):
        triples.parse_questions(QUESTIONS + line, "mine.txt")


# The knowledge base


def test_facts_are_read_in_both_directions(knowledge):
    assert len(knowledge) == 6
    assert knowledge.relations == (
        *("", "painted_by", "year", "taught_by"),
        *("!painted_by", "!year", "!taught_by"),
    )
    assert knowledge.entities == (
        *("The Pond", "Ann Lee", "The Mill", "1901", "The Heath", "Bo Dahl"),
    )
    assert "1901" in knowledge
    assert "1902" not in knowledge
    assert knowledge.facts_about("The Mill") == [
        Fact("The Mill", "painted_by", "Ann Lee"),
        Fact("The Mill", "year", "1901"),
    ]
    assert knowledge.facts_about("Ann Lee") == [
        Fact("Ann Lee", "!painted_by", "The Pond"),
        Fact("Ann Lee", "!painted_by", "The Mill"),
        Fact("Ann Lee", "!taught_by", "Bo Dahl"),
    ]
    twice = triples.KnowledgeBase(triples.parse(TEXT + TEXT))
    assert len(twice) == 6
    assert repr(twice) == "<KnowledgeBase of 6 facts about 6 entities>"


def named(knowledge, found):
    names = knowledge.entities
    return [
        (names[key], knowledge.relations[relation], names[value])
        for key, relation, value in found.facts
    ]


def test_around_an_entity(knowledge):
    found = knowledge.around("The Mill")
    assert named(knowledge, found) == [
        ("The Mill", "painted_by", "Ann Lee"),
        ("The Mill", "year", "1901"),
    ]
    assert found.cut == 0
    found = knowledge.around("The Mill", hops=2)
    assert named(knowledge, found)[2:] == [  # without those that lead back
        ("1901", "!year", "The Heath"),  # two facts: before Ann Lee, who has three
        ("Ann Lee", "!painted_by", "The Pond"),
        ("Ann Lee", "!taught_by", "Bo Dahl"),
    ]
    assert found.cut == 0
    far = knowledge.around("The Pond", hops=4)
    keys = [key for key, *_ in named(knowledge, far)]
    assert keys == ["The Pond"] + ["Ann Lee"] * 2 + ["The Mill"] * 2 + [
        *["Bo Dahl"] * 2,
        *["1901"] * 2,
        *["The Heath"] * 2,
    ]


@pytest.mark.parametrize("size", range(1, 6))
def test_what_is_cut_is_counted(knowledge, size):
    whole = knowledge.around("The Mill", hops=2)
    found = knowledge.around("The Mill", hops=2, size=size)
    assert found.facts == whole.facts[:size]
    reached = {"1901": 1, "Ann Lee": 2}  # facts that lead on
    known = sum(
        n for e, n in reached.items() if knowledge.index(e) in found_values(found)
    )
    assert found.cut == 2 + known - size


def found_values(found):
    return {value for key, _, value in found.facts}


def test_a_fact_of_an_entity_with_itself():
    knowledge = triples.KnowledgeBase([Fact("Rex", "bred_by", "Rex")])
    found = knowledge.around("Rex", hops=2)
    assert [relation for _, relation, _ in found.facts] == [1, 2]
    assert found.cut == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: k.around("the mill"), "one of .* 6 entities.*entity='the mill'"),
        (lambda k: k.facts_about("Nobody"), "Received: entity='Nobody'"),
        (lambda k: k.around("The Mill", 0), "`hops` must be .* Received: hops=0"),
        (lambda k: k.around("The Mill", 1, 2.5), "`size` must .* Received: size=2.5"),
        (lambda k: triples.KnowledgeBase([]), "`facts` must hold at least one"),
        (
            lambda k: triples.KnowledgeBase([("a", "r", "b"), ("a", "", "c")]),
            "must have a relation with a name.* Received: Fact.*object='c'",
        ),
        (
            lambda k: triples.KnowledgeBase(triples.parse("a|r|b\nb|!r|a")),
            "named as another's inverse.* Received: relation='!r'",
        ),
    ],
)
def test_what_a_knowledge_base_refuses(knowledge, call, message):
    with pytest.raises(ValueError, match=message):
        call(knowledge)


# The linker


def test_brackets_give_the_entity_away(knowledge):
    linker = EntityLinker(knowledge.entities)
    link = linker.link("[The Mill], who painted it?")
    assert link == (
        *("The Mill", (ENTITY, "who", "painted", "it")),
        *("brackets", ()),
    )
    assert linker.link("What is [ The Mill ]").entity == "The Mill"


NAMES = [
    "It",
    "actors",
    "Blue Hour",
    "blue hour",
    "The Blue Hour!",
    "The Blue Hour",
    "7",
]


@pytest.mark.parametrize(
    ("text", "entity", "others"),
    [
        ("who are the actors in Blue Hour?", "Blue Hour", ("blue hour",)),
        ("who are the actors in blue hour", "blue hour", ("Blue Hour",)),
        ("who made The Blue Hour", "The Blue Hour", ("The Blue Hour!",)),
        ("who made The Blue Hour! and when", "The Blue Hour!", ("The Blue Hour",)),
        ("who made THE BLUE HOUR", "The Blue Hour", ("The Blue Hour!",)),
        ("who are the actors in It", "It", ()),
        ("who are the actors in 7", "7", ()),
        ("when was it made", "It", ()),
        ("who are actors", "actors", ()),
    ],
)
def test_a_name_is_found(text, entity, others):
    link = EntityLinker(NAMES).link(text)
    assert (link.entity, link.by, link.others) == (entity, "name", others)
    assert link.words.count(ENTITY) == 1
    assert len(link.words) == len(text.split()) - len(entity.split()) + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "who painted [The Moon]",
            r"in brackets is not in .* 'The Moon'. Received: 'wh",
        ),
        ("who painted [the mill]", "is not in the knowledge base: 'the mill'"),
        ("who are [The Mill] and [1901]", "one entity in brackets. Received: 2 in"),
        ("who painted the moon", r"holds no name .* put the entity in brackets"),
        ("", "holds no name"),
    ],
)
def test_an_unknown_entity_is_said(knowledge, text, message):
    linker = EntityLinker(knowledge.entities)
    with pytest.raises(UnknownEntityError, match=message):
        linker.link(text)
    assert issubclass(UnknownEntityError, ValueError)


# The vectors


def test_vectorize(knowledge):
    questions = triples.parse_questions(QUESTIONS)
    linker = EntityLinker(knowledge.entities)
    vocabulary = triples.question_vocabulary(questions, linker)
    assert vocabulary.words == (
        *("", "<unk>", ENTITY, "did", "paint", "painted", "what", "who"),
    )
    vectors = triples.vectorize(questions, knowledge, vocabulary, 5, 2, linker)
    question, keys, values = vectors.inputs.values()
    assert question.tolist() == [[7, 5, 2, 0], [6, 3, 2, 4]]
    assert question.dtype == keys.dtype == values.dtype == np.int32
    assert keys.shape == (2, 5, 2)
    assert vectors.answers.shape == vectors.entities.shape == (2, 7)
    names = np.array([*knowledge.entities, None])[vectors.entities]
    assert names[:, 1].tolist() == ["The Mill", "Ann Lee"]
    assert names[:, 0].tolist() == [None, None]
    for i, entity in enumerate(("The Mill", "Ann Lee")):
        found = [
            (names[i, e], knowledge.relations[r], names[i, v])
            for (e, r), v in zip(keys[i], values[i])
            if v
        ]
        assert found == named(knowledge, knowledge.around(entity, 2, 5))
        right = {*names[i, vectors.answers[i] > 0]}
        assert right == {*questions[i].answers}
    np.testing.assert_allclose(vectors.answers.sum(1), 1)
    assert vectors.answers.max(1).tolist() == [1, 0.5]
    assert (keys[values == 0] == 0).all()
    assert (vectors.truncated, vectors.unanswerable, vectors.unknown) == (0, 0, 0)
    assert vectors.by_brackets == 2
    best = triples.decode(vectors.answers, vectors.entities, knowledge)
    assert best[0] == "Ann Lee"
    assert best[1] in ("The Pond", "The Mill")


def test_numbers_are_dealt_at_random(knowledge):
    questions = triples.parse_questions(QUESTIONS[: QUESTIONS.index("\n")]) * 50
    vocabulary = triples.question_vocabulary(
        questions, EntityLinker(knowledge.entities)
    )
    runs = [
        triples.vectorize(questions, knowledge, vocabulary, 5, seed=seed)
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(runs[0].entities, runs[1].entities)
    assert (runs[0].entities != runs[2].entities).any()
    assert set(runs[0].inputs["values"][:, 0]) == {2, 3, 4, 5, 6}


def test_what_vectorize_leaves_out_is_said(knowledge):
    questions = [
        *triples.parse_questions(QUESTIONS),
        triples.Question("who painted [The Moon]", ("Ann Lee",)),
        triples.Question("who painted The Mill", ("Nobody",)),
        triples.Question("who taught [Bo Dahl]"),
    ]
    linker = EntityLinker(knowledge.entities)
    vocabulary = triples.question_vocabulary(questions, linker)
    arguments = (questions, knowledge, vocabulary, 2, 1, linker)
    with pytest.raises(UnknownEntityError, match=r"questions\[2\]: .*The Moon"):
        triples.vectorize(*arguments)
    with pytest.warns(UserWarning, match=r"1 of 5 questions .* memory_size=2 facts"):
        vectors = triples.vectorize(*arguments, unknown="empty")
    assert vectors.truncated == 1  # Ann Lee has three facts
    assert vectors.unknown == 1
    assert vectors.unanswerable == 3  # no entity, not in the memory, none given
    assert vectors.by_brackets == 3
    assert (vectors.inputs["values"][2] == 0).all()
    assert (vectors.entities[2] == -1).all()
    assert (vectors.inputs["question"][2] == 0).all()
    nothing = np.zeros(vectors.answers.shape)
    nothing[:, 0] = 1
    assert triples.decode(nothing, vectors.entities, knowledge) == [None] * 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"questions": []}, "`questions` must hold at least one"),
        ({"memory_size": 0}, "`memory_size` must .* Received: memory_size=0"),
        ({"hops": "2"}, "`hops` must be .* Received: hops='2'"),
        ({"unknown": "drop"}, "`unknown` must be 'raise' or 'empty'.*unknown='drop'"),
    ],
)
def test_what_vectorize_refuses(knowledge, arguments, message):
    questions = triples.parse_questions(QUESTIONS)
    vocabulary = triples.question_vocabulary(
        questions, EntityLinker(knowledge.entities)
    )
    given = {"questions": questions, "knowledge": knowledge, "vocabulary": vocabulary}
    with pytest.raises(ValueError, match=message):
        triples.vectorize(**{**given, **arguments})


def test_decode_refuses_other_shapes(knowledge):
    with pytest.raises(ValueError, match=r"same shape.*predictions.shape=\(2, 3\)"):
        triples.decode(np.zeros((2, 3)), np.zeros((2, 4), int), knowledge)


# MetaQA


def put(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)


def test_metaqa_is_looked_up(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    with pytest.raises(DataNotFoundError, match="download MetaQA by hand") as caught:
        triples.load_metaqa(2, "dev")
    assert "2-hop/vanilla/qa_dev.txt" in str(caught.value)
    assert "github.com/yuyuz/MetaQA" in str(caught.value)
    assert len(caught.value.tried) == 4
    monkeypatch.delenv("KERAS_ATTENTION_DATA")
    with pytest.raises(DataNotFoundError, match="KERAS_ATTENTION_DATA is not set"):
        triples.load_metaqa_facts()
    line = QUESTIONS.splitlines()[0]
    put(tmp_path / "keras/datasets/metaqa", {"1-hop_test.txt.gz": QUESTIONS})
    assert len(triples.load_metaqa()) == 2
    put(tmp_path / "data/kb/metaqa", {"1-hop/vanilla/qa_test.txt": line})
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path / "data"))
    assert len(triples.load_metaqa()) == 1
    put(tmp_path / "data/kb/metaqa", {"kb_reconstructed.txt.gz": TEXT})
    assert triples.load_metaqa_facts() == triples.parse(TEXT)
    put(tmp_path / "data/kb/metaqa", {"kb.txt": "a|b|c\na|b"})
    with pytest.raises(ValueError, match=r"kb.txt, line 2: a fact must be"):
        triples.load_metaqa_facts()


def test_metaqa_refuses():
    with pytest.raises(
        ValueError, match=r"`hops` must be 1, 2 or 3\. Received: hops=4"
    ):
        triples.load_metaqa(4)
    with pytest.raises(ValueError, match=r"`split` must be .* Received: split='valid'"):
        triples.load_metaqa(1, "valid")


@pytest.mark.slow
@needs_data
def test_real_files():
    knowledge = triples.KnowledgeBase(triples.load_metaqa_facts())
    assert len(knowledge.relations) == 2 * 9 + 1
    assert len(knowledge) in (129_235, 134_741)
    questions = triples.load_metaqa(1, "test")
    assert len(questions) == 9947
    questions = questions[::10]
    assert len(triples.load_metaqa(1, "dev")) == 9992
    linker = EntityLinker(knowledge.entities)
    right = 0
    for question in questions:
        marked = linker.link(question.text)
        assert marked.by == "brackets"
        with contextlib.suppress(UnknownEntityError):
            bare = linker.link(question.text.replace("[", "").replace("]", ""))
            right += bare == marked._replace(by="name", others=bare.others)
    assert right / len(questions) > 0.995  # other names are missing in the file
