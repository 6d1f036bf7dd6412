"""bAbI: the format, the archive, the vocabulary and the vectors."""

import tarfile
import warnings

import numpy as np
import pytest
from calling import needs_data

from keras_attention.datasets import DamagedDataError, DataNotFoundError, babi

TEXT = """\
1 Zoe walked to the attic.
2 Where is Zoe? \tattic\t1
3 Zoe took the pen.
4 Zoe went back to the cellar.
5 What is Zoe carrying?\tpen,cup\t4 3
1 Max sat down.
2 Where is Max?\tchair
"""


def test_tokenize():
    assert babi.tokenize("Where is  Mary? ") == ("where", "is", "mary")
    assert babi.tokenize("Apple,milk") == ("apple,milk",)
    assert babi.tokenize(" . ") == ()


def test_parse():
    first, second, third = babi.parse(TEXT, task=8, source="mine.txt")
    walked = ("zoe", "walked", "to", "the", "attic")
    assert first == babi.Example(8, (walked,), ("where", "is", "zoe"), "attic", (0,))
    assert second.story[0] == walked
    assert len(second.story) == 3
    assert second.answer == "pen,cup"
    assert second.supporting_facts == (2, 1)  # lines 4 and 3; line 2 is a question
    assert third.story == (("max", "sat", "down"),)
    assert third.supporting_facts == ()
    assert babi.parse(TEXT.splitlines(), 8) == [first, second, third]
    assert babi.parse("\n\n") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Zoe sat.", "a number, a space and a sentence. Received: 'Zoe sat.'"),
        ("1", "a number, a space and a sentence"),
        ("2 Zoe sat.", "number must be 1. Received"),
        (
            "1 Zoe sat.\n3 Zoe sat.",
            "mine.txt, line 2: .* must be 2, or 1 for a new story",
        ),
        ("1 Zoe sat.\n\n2 Where is Zoe?", "line 3: a question must .* a tab and its"),
        ("1 .", "no words"),
        ("1 Zoe sat.\n2 Where?\t", "an answer of one word"),
        ("1 Zoe sat.\n2 Where\t", "an answer of one word"),
        ("1 Zoe sat.\n2 Where?\tthe attic", "an answer of one word"),
        ("1 Zoe sat.\n2 Where?\tattic\t1\t1", "at most one more tab"),
        ("1 Zoe sat.\n2 Where?\tattic\t7", "supporting line .* Received: '7'"),
        ("1 Zoe sat.\n2 Where?\tattic\tone", "supporting line .* Received: 'one'"),
        ("1 Z sat.\n2 Who?\tz\t1\n3 Who?\tz\t2", "line 3: a supporting .* '2'"),
    ],
)
def test_parse_errors_give_file_and_line(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        babi.parse(text, 1, "mine.txt")
    assert str(caught.value).startswith("mine.txt, line ")


def _write(root, names, text=TEXT):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


NAMES = [
    "en/qa1_single-supporting-fact_train.txt",
    "en/qa1_single-supporting-fact_test.txt",
    "en/qa2_two-supporting-facts_train.txt",
    "en-10k/qa1_single-supporting-fact_test.txt",
    "en-valid/qa1_train.txt",
    "en-valid/qa1_valid.txt",
]


@pytest.fixture
def folder(tmp_path):
    for count, name in enumerate(NAMES):  # to tell them apart by their counts
        extra = "1 Max sat.\n2 Who?\tmax\t1\n" * count
        _write(tmp_path / "tasks_1-20_v1-2", [name], TEXT + extra)
    return tmp_path


@pytest.fixture
def archive(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "babi.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder / "tasks_1-20_v1-2", "tasks_1-20_v1-2")
    return path


def test_load_picks_the_right_file(folder, archive):
    cases = [
        ({}, 0),
        ({"split": "test"}, 1),
        ({"split": "test", "holdout": True}, 1),
        ({"task": 2}, 2),
        ({"split": "test", "size": "10k"}, 3),
        ({"holdout": True}, 4),
        ({"split": "valid"}, 5),
    ]
    for path in (archive, str(archive), folder, folder / "tasks_1-20_v1-2"):
        for arguments, extra in cases:
            examples = babi.load(path=path, **arguments)
            assert len(examples) == 3 + extra
            assert {example.task for example in examples} == {arguments.get("task", 1)}
    both = babi.load([2, np.int64(1)], path=archive)
    assert [example.task for example in both] == [2] * 5 + [1] * 3


def test_load_finds_the_archive_by_the_environment(archive, tmp_path, monkeypatch):
    target = tmp_path / "data" / "babi" / "tasks_1-20_v1-2.tar.gz"
    target.parent.mkdir(parents=True)
    target.write_bytes(archive.read_bytes())
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path / "data"))
    assert len(babi.load(task=1)) == 3


def test_absent_members_are_named(folder, archive):
    for path in (folder, archive):
        with pytest.raises(DataNotFoundError, match="no file en-10k/qa3_three-supp"):
            babi.load(3, size="10k", path=path)
        with pytest.raises(DataNotFoundError, match=r"qa2_valid.txt.* no en-valid fol"):
            babi.load(2, split="valid", path=path)
        with pytest.raises(DataNotFoundError, match=r"qa3_.*qa20_"):
            babi.load("all", path=path)
    with pytest.raises(DataNotFoundError, match=r"no file .*nowhere.tar.gz"):
        babi.load(path=folder / "nowhere.tar.gz")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": 0}, "number from 1 to 20.* Received: task=0"),
        ({"task": 21}, "Received: task=21"),
        ({"task": "1"}, "Received: task='1'"),
        ({"task": True}, "Received: task=True"),
        ({"task": 1.5}, "Received: task=1.5"),
        ({"task": [1, 99]}, r"Received: task=\[1, 99\]"),
        ({"task": []}, r"Received: task=\[\]"),
        ({"split": "dev"}, "`split` must be .* Received: split='dev'"),
        ({"size": "100k"}, "`size` must be .* Received: size='100k'"),
    ],
)
def test_load_refuses_wrong_arguments(folder, arguments, message):
    with pytest.raises(ValueError, match=message):
        babi.load(path=folder, **arguments)


def test_damaged_files(folder, archive):
    name = "tasks_1-20_v1-2/" + NAMES[0]
    _write(folder, [name], b"1 Zoe sat.\n2 Zo\xff sat.\n")
    with pytest.raises(ValueError, match=r"en/qa1_.*, line 2: not UTF-8"):
        babi.load(path=folder)
    _write(folder, [name], "1 Zoe sat.\n2 Who?\tzoe\t1\n4 Zoe sat.\n")
    with pytest.raises(ValueError, match=r"en/qa1_.*, line 3: a line's number"):
        babi.load(path=folder)
    _write(folder, [name], "")
    with pytest.raises(ValueError, match=r"en/qa1_.* has no question"):
        babi.load(path=folder)
    archive.write_bytes(archive.read_bytes()[:-20])
    with pytest.raises(DamagedDataError, match="is damaged"):
        babi.load(path=archive)


def test_vocabulary(tmp_path):
    vocabulary = babi.Vocabulary.from_examples(babi.parse(TEXT))
    assert vocabulary.words[:3] == ("", "<unk>", "attic")
    assert list(vocabulary.words[2:]) == sorted(vocabulary.words[2:])
    assert "pen,cup" in vocabulary
    assert "chair" in vocabulary
    assert "" not in vocabulary
    assert "<unk>" not in vocabulary
    words = ["zoe", "met", "max", "met", "ann"]
    indices = vocabulary.encode(words)
    assert vocabulary.decode(indices) == ["zoe", "<unk>", "max", "<unk>", "<unk>"]
    assert vocabulary.decode(np.array([0, len(vocabulary) - 1])) == ["", "zoe"]
    assert vocabulary.unknown_words(words) == ["met", "ann"]
    path = tmp_path / "words.txt"
    vocabulary.save(path)
    assert path.read_text(encoding="utf-8").split("\n") == [*vocabulary.words, ""]
    loaded = babi.Vocabulary.load(path)
    assert loaded == vocabulary
    assert hash(loaded) == hash(vocabulary)
    assert loaded != babi.Vocabulary(["zoe"])


@pytest.mark.parametrize("words", [["a", "a"], ["a b"], [""], ["<unk>"], ["a\n"]])
def test_vocabulary_refuses_words(words):
    with pytest.raises(ValueError, match=r"`words` must be distinct.*Received: words"):
        babi.Vocabulary(words)


def test_vocabulary_refuses_indices_and_text():
    vocabulary = babi.Vocabulary(["a"])
    for index in (-1, 3):
        with pytest.raises(ValueError, match=f"below 3. Received: {index}"):
            vocabulary.decode([index])
    with pytest.raises(ValueError, match="sequence of words; `tokenize`"):
        vocabulary.encode("a")
    with pytest.raises(ValueError, match="sequence of words; `tokenize`"):
        vocabulary.unknown_words("a")


@pytest.mark.parametrize("text", ["", "a\nb\n", "\na\n", "\n<unk>\na\na\n"])
def test_vocabulary_refuses_files(tmp_path, text):
    path = tmp_path / "words.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"words.txt is not a saved vocabulary"):
        babi.Vocabulary.load(path)


def test_vectorize():
    examples = babi.parse(TEXT)
    vocabulary = babi.Vocabulary.from_examples(examples)
    vectors = babi.vectorize(examples, vocabulary, memory_size=5)
    story, question = vectors.inputs["story"], vectors.inputs["question"]
    assert story.shape == (3, 5, 6)
    assert question.shape == (3, 6)
    assert {a.dtype for a in (story, question, vectors.answers)} == {np.dtype("int32")}
    assert vectors.truncated == 0
    for i, example in enumerate(examples):
        for slot in range(5):
            words = example.story[slot] if slot < len(example.story) else ()
            padded = vocabulary.encode(words) + [0] * (6 - len(words))
            np.testing.assert_array_equal(story[i, slot], padded)
        padded = vocabulary.encode(example.question)
        np.testing.assert_array_equal(question[i, : len(padded)], padded)
        assert not question[i, len(padded) :].any()
        assert vocabulary.words[vectors.answers[i]] == example.answer
    assert vectors.supporting.dtype == bool
    np.testing.assert_array_equal(
        vectors.supporting, np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0]]) @ np.eye(3, 5)
    )
    wider = babi.vectorize(examples, vocabulary, 5, sentence_length=7)
    for name, array in vectors.inputs.items():
        assert wider.inputs[name].shape == (*array.shape[:-1], 7)
        np.testing.assert_array_equal(wider.inputs[name][..., :6], array)
        assert not wider.inputs[name][..., 6:].any()


def test_vectorize_keeps_the_most_recent():
    examples = babi.parse(TEXT)
    vocabulary = babi.Vocabulary.from_examples(examples)
    whole = babi.vectorize(examples, vocabulary, memory_size=3)
    with pytest.warns(UserWarning, match=r"1 of 3 stories .* memory_size=2 sentences"):
        cut = babi.vectorize(examples, vocabulary, memory_size=2)
    assert cut.truncated == 1
    np.testing.assert_array_equal(cut.inputs["story"][1], whole.inputs["story"][1, 1:])
    np.testing.assert_array_equal(cut.supporting[1], [True, True])
    with pytest.warns(UserWarning, match="1 of 3 stories"):
        cut = babi.vectorize(examples, vocabulary, memory_size=1)
    np.testing.assert_array_equal(cut.supporting[:, 0], [True, True, False])


def test_vectorize_takes_unknown_words():
    vocabulary = babi.Vocabulary.from_examples(babi.parse(TEXT))
    own = babi.parse("1 Ann walked to the attic.\n2 Where is Ann?\tattic")
    vectors = babi.vectorize(own, vocabulary, memory_size=1)
    assert vectors.inputs["story"][0, 0, 0] == 1
    assert vectors.inputs["question"][0, 2] == 1


def test_vectorize_refuses():
    examples = babi.parse(TEXT)
    vocabulary = babi.Vocabulary.from_examples(examples)
    bare = babi.Example(1, (), ("where",), "attic")
    blank = babi.Example(1, (("zoe",), ()), ("where",), "attic")
    strange = babi.parse("1 Zoe sat.\n2 Where?\tcar")
    cases = [
        ([], {}, "`examples` must hold at least one"),
        ([examples[0], bare], {}, r"examples\[1\] has an empty story"),
        ([blank], {}, r"examples\[0\] has a sentence or question without words"),
        ([*examples, *strange], {}, r"examples\[3\] is not .* Received: answer='car'"),
        (examples, {"sentence_length": 5}, r"examples\[1\] .* 6 words.*_length=5"),
        (examples, {"sentence_length": 0}, "Received: sentence_length=0"),
        (examples, {"memory_size": 0}, "Received: memory_size=0"),
        (examples, {"memory_size": 2.5}, "Received: memory_size=2.5"),
    ]
    for given, sizes, message in cases:
        with pytest.raises(ValueError, match=message):
            babi.vectorize(given, vocabulary, **sizes)


@needs_data
def test_real_files():
    tests = babi.load("all", split="test")
    assert [e.task for e in tests] == [t for t in range(1, 21) for _ in range(1000)]
    train = babi.load("all")
    assert len(train) == 20_000
    for example in tests + train:
        assert example.story
        assert example.answer
        assert example.supporting_facts
        assert all(0 <= f < len(example.story) for f in example.supporting_facts)
    vocabulary = babi.Vocabulary.from_examples(train)
    assert 160 <= len(vocabulary) <= 180
    answers = {example.answer for example in tests}
    assert vocabulary.unknown_words(answers) == ["football,apple,milk"]
    vocabulary = babi.Vocabulary.from_examples(tests + train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        vectors = babi.vectorize(tests, vocabulary)
    assert vectors.inputs["story"].shape == (20_000, 50, 11)
    assert vectors.truncated == sum(len(e.story) > 50 for e in tests) > 300
    assert not (vectors.inputs["story"] == 1).any()
    first = tests[0]
    assert first.story[first.supporting_facts[0]][-1] == first.answer  # task 1


@needs_data
def test_real_validation_split():
    whole = babi.load(1)
    parts = babi.load(1, holdout=True), babi.load(1, split="valid")
    assert [len(part) for part in parts] == [900, 100]
    assert sorted(map(repr, whole)) == sorted(map(repr, [*parts[0], *parts[1]]))
    assert len(babi.load(1, size="10k")) == 10_000


@pytest.mark.parametrize("fact", [2, -1])
def test_a_supporting_fact_outside_its_story(fact):
    story = (("zoe", "sat"), ("zoe", "stood"))
    example = babi.Example(1, story, ("where", "is", "zoe"), "zoe", (0, fact))
    vocabulary = babi.Vocabulary.from_examples([example])
    with pytest.raises(
        ValueError,
        match=r"examples\[0\] has a supporting fact outside its story of 2 sentences.*"
        rf"supporting_facts=\(0, {fact}\)",
    ):
        babi.vectorize([example], vocabulary)
