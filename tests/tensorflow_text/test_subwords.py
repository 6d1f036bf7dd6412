"""Sub-words: learned, kept in a file, and what `vectorize` asks of a vocabulary."""

import unicodedata

import numpy as np
import pytest
from calling import needs_data

pytest.importorskip("keras_hub", reason="the extra `text` is not installed")
pytest.importorskip("tensorflow_text", reason="the extra `text` is not installed")
import sentencepiece
import tensorflow as tf
from text_worker import PAIRS

from keras_attention.datasets import translation
from keras_attention.text import Subwords

SENTENCES = [source for source, _ in PAIRS]


@pytest.fixture(scope="module")
def subwords():
    return Subwords.from_sentences(SENTENCES, size=37)


def test_there_and_back(subwords):
    assert len(subwords) == len(subwords.tokens) == 37
    assert repr(subwords) == "<Subwords of 37 pieces>"
    assert (subwords.start_token_id, subwords.end_token_id) == (2, 3)
    for text in SENTENCES:
        ids = subwords.encode(text)
        assert all(type(index) is int and 3 < index < 37 for index in ids)
        assert len(ids) < len(text)  # pieces, not letters alone
        assert subwords.decode(ids) == text
        assert subwords.decode(np.array([2, *ids, 3, 9, 0], "int32")) == text
    assert subwords.encode_all(SENTENCES) == [subwords.encode(s) for s in SENTENCES]
    assert subwords.encode_all(iter([])) == []
    assert subwords.encode("") == subwords.encode(" \n") == []
    assert subwords.decode([]) == subwords.decode([2, 3, 7]) == ""


def test_what_is_not_known(subwords):
    ids = subwords.encode("a 日 dog")
    assert 1 in ids
    assert subwords.decode(ids) == "a  ⁇  dog"


def rare():
    """Sentences in which seven characters are one in 7,000."""
    return ["ein Hund läuft auf dem Feld"] * 1000 + ['Über 37 "Äpfel" für Qy']


def test_every_character_of_the_sentences_is_known():
    sentences = rare()
    subwords = Subwords.from_sentences(sentences, size=31)
    ids = subwords.encode(sentences[-1])
    assert subwords.unknown_token_id == 1
    assert 1 not in ids
    assert subwords.decode(ids) == sentences[-1]
    assert 1 in subwords.encode("日")


def test_bytes_of_characters_that_have_no_piece(tmp_path):
    """In Python, from a file, and in a graph of TensorFlow Text."""
    import tensorflow_text

    subwords = Subwords.from_sentences(rare(), size=276, byte_fallback=True)
    texts = [rare()[-1], "日本 läuft", "🦊 auf Ψ", "ein Hund"]
    ids = subwords.encode_all(texts)
    assert not any(1 in row for row in ids)
    assert len(subwords.encode("日")) == 1 + 3  # the space before, and three bytes
    assert [subwords.decode(row) for row in ids] == texts
    subwords.save(tmp_path / "bytes.spm")
    assert Subwords.load(tmp_path / "bytes.spm").encode_all(texts) == ids
    pieces = tensorflow_text.SentencepieceTokenizer(subwords.proto)

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string)])
    def round_trip(texts):
        rows = pieces.tokenize(texts)
        return rows.to_tensor(0), pieces.detokenize(rows)

    rows, written = round_trip(tf.constant(texts))
    assert [row[row > 0].tolist() for row in rows.numpy()] == ids
    assert [text.decode() for text in written.numpy()] == texts


def test_a_file_with_fewer_characters_loads_as_before(tmp_path):
    """A vocabulary of version 0: KerasHub's trainer leaves out rare characters."""
    import keras_hub

    sentences = tf.data.Dataset.from_tensor_slices(rare())
    proto = keras_hub.tokenizers.compute_sentence_piece_proto(sentences, 20)
    (tmp_path / "old.spm").write_bytes(proto)
    old = Subwords.load(tmp_path / "old.spm")
    assert len(old) == 20
    assert 1 in old.encode(rare()[-1])
    assert "⁇" in old.decode(old.encode(rare()[-1]))
    assert old.decode(old.encode(rare()[0])) == rare()[0]


@pytest.mark.slow
@needs_data
def test_multi30k_has_no_unknown_pieces():
    german = [pair.target for pair in translation.load("multi30k", "train")]
    subwords = Subwords.from_sentences(german, size=4000)
    characters = set("".join(german))
    assert set('0123456789ÄÖÜQXY"') <= characters
    assert not any(1 in row for row in subwords.encode_all(german))
    test = [pair.target for pair in translation.load("multi30k", "test")]
    assert not any(1 in row for row in subwords.encode_all(test))


def test_texts_are_normalized(subwords):
    apart = unicodedata.normalize("NFD", "Zoë  is\twaiting")
    assert len(apart) == len("Zoë  is\twaiting") + 1
    assert subwords.encode(apart) == subwords.encode("Zoë is waiting")
    assert subwords.encode("ﬁeld") == subwords.encode("field")
    assert subwords.decode(subwords.encode(apart)) == "Zoë is waiting"
    lower = Subwords.from_sentences(SENTENCES, size=36, lowercase=True)
    assert lower.encode("A DOG") == lower.encode("a dog")
    assert lower.decode(lower.encode("A Dog")) == "a dog"
    assert subwords.encode("A DOG") != subwords.encode("a dog")


def test_special_pieces_in_a_text_are_not_special(subwords):
    assert not {0, 2, 3} & set(subwords.encode("<pad><s></s>"))


def test_save_and_load(subwords, tmp_path):
    subwords.save(tmp_path / "english.spm")
    loaded = Subwords.load(tmp_path / "english.spm")
    assert loaded == subwords
    assert hash(loaded) == hash(subwords)
    assert loaded != Subwords.from_sentences(SENTENCES, size=36)
    assert loaded.encode(SENTENCES[1]) == subwords.encode(SENTENCES[1])
    with pytest.raises(FileNotFoundError):
        Subwords.load(tmp_path / "german.spm")


def test_the_same_sentences_give_the_same_pieces(subwords):
    assert Subwords.from_sentences(iter(SENTENCES), size=37).tokens == subwords.tokens


def test_in_the_data_pipeline(subwords):
    """Arrays for `fit` on every backend, and KerasHub's layer inside tf.data."""
    inputs, labels = translation.vectorize(PAIRS, subwords, subwords)
    assert inputs["target"][:, 0].tolist() == [2] * len(PAIRS)
    for row, source, label, (_, target) in zip(
        inputs["source"], SENTENCES, labels, PAIRS
    ):
        assert subwords.decode(row) == source
        assert subwords.decode(label) == subwords.decode(subwords.encode(target))
    batches = translation.buckets(inputs, labels, batch_size=5)
    assert sum(int((batches[i][2] > 0).any(1).sum()) for i in range(len(batches))) == 36
    mapped = tf.data.Dataset.from_tensor_slices(SENTENCES).map(subwords.tokenizer)
    assert [ids.numpy().tolist() for ids in mapped] == subwords.encode_all(SENTENCES)


@pytest.mark.parametrize(
    ("sentences", "size", "message"),
    [
        ("a dog", 9, "several texts, not one. Received: sentences='a dog'"),
        (["a dog", b"cat"], 9, r"strings. Received: sentences\[1\]=b'cat'"),
        ([], 9, "a text that is not empty. Received: 0 without any"),
        (["", " \n"], 9, "a text that is not empty. Received: 2 without any"),
        (SENTENCES, 4, "at least 5. Received: size=4"),
        (SENTENCES, 99.0, "whole number of at least 5. Received: size=99.0"),
        (SENTENCES, 11, r"their characters alone need \d\d. Received: size=11"),
        (SENTENCES, 4000, r"they give \d\d pieces at most. Received: size=4000"),
    ],
)
def test_what_cannot_be_learned_from(sentences, size, message):
    with pytest.raises(ValueError, match=message):
        Subwords.from_sentences(sentences, size)


def test_what_is_no_vocabulary(subwords, tmp_path):
    path = tmp_path / "no.spm"
    for damaged in (b"", b"a list of words\n", subwords.proto[:500]):
        path.write_bytes(damaged)
        message = f"must be a serialized SentencePiece model. Received: {len(damaged)}"
        with pytest.raises(ValueError, match=f"`proto` {message} bytes"):
            Subwords(damaged)
        with pytest.raises(ValueError, match=f"no.spm {message} bytes"):
            Subwords.load(path)
    with pytest.raises(ValueError, match=r"must be bytes, .* Received: str"):
        Subwords("english.spm")
    prefix = tmp_path / "other"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_prefix=str(prefix), vocab_size=37
    )
    with pytest.raises(ValueError, match=r"0, 1, 2 and 3. Received: \(-1, 0, 1, 2\)"):
        Subwords.load(prefix.with_suffix(".model"))


def test_what_cannot_be_encoded_or_decoded(subwords):
    with pytest.raises(ValueError, match=r"`text` must be a string. Received: text=7"):
        subwords.encode(7)
    with pytest.raises(ValueError, match="several texts, not one"):
        subwords.encode_all("a dog")
    for index in (-1, 37):
        with pytest.raises(ValueError, match=f"below 37. Received: {index}"):
            subwords.decode([4, index])
