"""Words and characters and their indices."""

import unicodedata

import pytest

from keras_attention.text.vocabulary import SPECIAL_TOKENS, Vocabulary, tokenize


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The dog's T-shirt, 1.5 m.", "the dog's t-shirt , 1.5 m ."),
        ("10,000 kites.Two", "10,000 kites . two"),
        ("Größe  ÄRGER!?", "größe ärger ! ?"),
        ("'so' -- a-", "' so ' - - a -"),
        ("a.b 3.c", "a . b 3 . c"),
        ("", ""),
        (" \n\t", ""),
    ],
)
def test_tokenize(text, tokens):
    assert tokenize(text) == tokens.split()


def test_tokenize_normalizes():
    apart = unicodedata.normalize("NFD", "Drachen für Zoë")
    assert tokenize(apart) == ["drachen", "für", "zoë"]
    assert tokenize(apart, lowercase=False)[0] == "Drachen"
    with pytest.raises(ValueError, match=r"`text` must be a string. Received: text=7"):
        tokenize(7)


def test_encode_and_decode():
    vocabulary = Vocabulary(["dog", "cat", "a"])
    assert vocabulary.tokens == (*SPECIAL_TOKENS, "dog", "cat", "a")
    assert len(vocabulary) == 7
    assert "cat" in vocabulary
    assert "<unk>" not in vocabulary
    assert 4 not in vocabulary
    assert (vocabulary.start_token_id, vocabulary.end_token_id) == (2, 3)
    assert vocabulary.encode("A mad dog") == [6, 1, 4]
    assert vocabulary.encode("") == []
    assert vocabulary.decode([2, 6, 1, 4, 3, 5, 0]) == "a <unk> dog"
    assert vocabulary.decode([]) == ""
    assert repr(vocabulary) == "<Vocabulary of 7 words>"
    for index in (-1, 7):
        with pytest.raises(ValueError, match=f"below 7. Received: {index}"):
            vocabulary.decode([4, index])
    with pytest.raises(ValueError, match=r"Received: text=\['a'\]"):
        vocabulary.encode(["a"])


def test_special_tokens_in_a_text_are_not_special():
    vocabulary = Vocabulary(["<", "end", ">"])
    assert vocabulary.encode("<end>") == [4, 5, 6]
    characters = Vocabulary("<end>", level="character")
    assert characters.decode(characters.encode("<end>")) == "<end>"


def test_characters():
    vocabulary = Vocabulary("ab C", level="character", lowercase=False)
    assert vocabulary.encode("b Ca\n") == [5, 6, 7, 4, 1]
    assert vocabulary.decode([2, 5, 6, 7, 3]) == "b C"
    assert Vocabulary("ab", "character").encode("BA") == [5, 4]


def test_from_sentences():
    sentences = ["A dog runs.", "a cat.", "A bird"]
    vocabulary = Vocabulary.from_sentences(iter(sentences))
    proper = ("a", ".", "bird", "cat", "dog", "runs")
    assert vocabulary.tokens[4:] == proper
    assert vocabulary == Vocabulary.from_sentences(sentences[::-1])
    assert hash(vocabulary) == hash(Vocabulary(proper))
    assert vocabulary != Vocabulary(proper, lowercase=False)
    assert Vocabulary.from_sentences(sentences, max_size=7).tokens[4:] == proper[:3]
    assert Vocabulary.from_sentences(sentences, min_count=2).tokens[4:] == ("a", ".")
    cased = Vocabulary.from_sentences(sentences, min_count=2, lowercase=False)
    assert cased.tokens[4:] == (".", "A")
    letters = Vocabulary.from_sentences(["ba", "b b"], level="character")
    assert letters.tokens[4:] == ("b", " ", "a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_size": 4}, "at least 5. Received: max_size=4"),
        ({"min_count": 0}, "at least 1. Received: min_count=0"),
        ({"level": "byte"}, "'word' or 'character'. Received: level='byte'"),
        ({"sentences": "a dog"}, "several texts, not one. Received: .*'a dog'"),
    ],
)
def test_from_sentences_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary.from_sentences(**{"sentences": ["a"], **arguments})


@pytest.mark.parametrize(
    ("tokens", "level", "message"),
    [
        (["a", "b", "a"], "word", r"one word, .* tokens\[2\]='a'"),
        (["a", ""], "word", r"tokens\[1\]=''"),
        (["a b"], "word", r"tokens\[0\]='a b'"),
        (["<pad>"], "word", r"none of <pad>, .* tokens\[0\]='<pad>'"),
        ([7], "word", r"tokens\[0\]=7"),
        (["ab"], "character", r"one character, .* tokens\[0\]='ab'"),
        (["\n"], "character", r"tokens\[0\]='\\n'"),
    ],
)
def test_refuses(tokens, level, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary(tokens, level)


@pytest.mark.parametrize(
    "vocabulary",
    [
        Vocabulary(["größe", "don't", "."]),
        Vocabulary(["A", "a"], lowercase=False),
        Vocabulary("a \u2028\x85é", level="character"),
        Vocabulary([]),
    ],
)
def test_save_and_load(tmp_path, vocabulary):
    vocabulary.save(tmp_path / "v.txt")
    assert Vocabulary.load(tmp_path / "v.txt") == vocabulary
    lines = (tmp_path / "v.txt").read_bytes().decode("utf-8").split("\n")
    assert lines[1:-1] == list(vocabulary.tokens)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "", "v.txt is not .* line 1 must be the heading"),
        (lambda text: text.replace("word", "byte"), "line 1 must be the heading"),
        (lambda text: text.replace("<start>", "<s>"), "line 4 must be '<start>'"),
        (lambda text: text[: text.index("<end>")], "line 5 must be '<end>'"),
        (lambda text: text[:-1], "line 7 must end in a line break. .*'cat'"),
        (lambda text: text + "dog\n", "line 8 must be one word, .* 'dog'"),
        (lambda text: text + "two dogs\n", "line 8 .* 'two dogs'"),
        (lambda text: text + "\n", "line 8 .* ''"),
        (lambda text: text.replace("\n", "\r\n"), "line 1 must"),
    ],
)
def test_malformed_files_are_named(tmp_path, change, message):
    path = tmp_path / "v.txt"
    Vocabulary(["dog", "cat"]).save(path)
    path.write_bytes(change(path.read_text("utf-8")).encode())
    with pytest.raises(ValueError, match=message):
        Vocabulary.load(path)


def test_undecodable_and_missing_files(tmp_path):
    path = tmp_path / "v.txt"
    with pytest.raises(FileNotFoundError, match=r"v.txt"):
        Vocabulary.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"v.txt, line 1: not UTF-8"):
        Vocabulary.load(path)
