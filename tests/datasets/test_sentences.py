"""Labelled sentences: the format, the vectors, the real files."""

import gzip
import hashlib

import keras
import numpy as np
import pytest
from calling import needs_file

from keras_attention.datasets import (
    DamagedDataError,
    DataNotFoundError,
    files,
    sentences,
)
from keras_attention.datasets.sentences import Sentence, Vocabulary

needs_sst2 = needs_file("text", "sst2.train.tsv.gz")
TEXT = "a kite that flies , and well\t1\nthe string is short\t0\n\nno kite\t0"
FOUND = [
    Sentence("a kite that flies , and well", 1),
    Sentence("the string is short", 0),
    Sentence("no kite", 0),
]


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(files, "_probe", lambda url, seconds: "no network")
    return tmp_path


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_format(tmp_path, pack):
    path = tmp_path / "mine.tsv"
    path.write_bytes(pack(TEXT.replace("\n", "\r\n").encode()))
    assert sentences.read_tabbed(path) == FOUND
    assert sentences.load("sst2", "dev", path) == FOUND


def test_the_folder_of_data_comes_first(nowhere):
    path = nowhere / "data" / "text" / "sst2.test.tsv.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert sentences.load("sst2", "test") == FOUND


def test_then_the_cache_if_it_is_the_right_text(nowhere, monkeypatch):
    (nowhere / "data").mkdir()
    path = nowhere / "home" / "datasets" / "sst2.dev.tsv"
    path.parent.mkdir(parents=True)
    path.write_text(TEXT)
    with pytest.raises(DataNotFoundError, match="truncated or altered") as error:
        sentences.load("sst2", "dev")
    assert "text/sst2.dev.tsv.gz in a folder named by" in str(error.value)
    assert "SST2/dev.tsv cannot be reached: no network" in str(error.value)
    known = (hashlib.sha256(TEXT.encode()).hexdigest(), len(TEXT))
    monkeypatch.setitem(sentences._SST2_FILES, "dev", known)
    assert sentences.load("sst2", "dev") == FOUND


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"a kite", "line 2: must be a text, a tab and a whole number"),
        (b"a kite\tgood", "line 2: .* Received: 'a kite"),
        (b"a kite\t-1", "line 2: must be"),
        (b"a kite\t0\t1", "line 2: must be"),
        (b"\t1", "line 2: must be"),
        (b"a k\xefte\t1", "line 2: not UTF-8"),
    ],
)
def test_lines_that_are_none(tmp_path, line, message):
    path = tmp_path / "mine.tsv"
    path.write_bytes(b"a kite\t1\n" + line + b"\n")
    with pytest.raises(ValueError, match=rf"mine\.tsv, {message}"):
        sentences.read_tabbed(path)


def test_files_that_are_none(tmp_path):
    with pytest.raises(DataNotFoundError, match="There is no file"):
        sentences.read_tabbed(tmp_path / "mine.tsv")
    path = tmp_path / "cut.tsv.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:-9])
    with pytest.raises(DamagedDataError, match=r"cut\.tsv\.gz is truncated or altered"):
        sentences.read_tabbed(path)


def test_vectors():
    vocabulary = Vocabulary(["kite", "a", "string"])
    inputs, labels = sentences.vectorize(FOUND, vocabulary)
    assert inputs["tokens"].dtype == labels.dtype == np.int32
    assert inputs["tokens"].tolist() == [
        [5, 4, 1, 1, 1, 1, 1],
        [1, 6, 1, 1, 0, 0, 0],
        [1, 4, 0, 0, 0, 0, 0],
    ]
    assert labels.tolist() == [1, 0, 0]
    short = sentences.vectorize(FOUND, vocabulary, length=2).inputs["tokens"]
    assert short.tolist() == [[5, 4], [1, 6], [1, 4]]
    long = sentences.vectorize(FOUND[2:], vocabulary, length=3).inputs["tokens"]
    assert long.tolist() == [[1, 4, 0]]


def test_labels_are_whole_numbers_of_any_type():
    labels = [1.0, np.float32(2), np.int64(3), keras.ops.convert_to_tensor(4)]
    rows = [("a", label) for label in labels]
    assert sentences.vectorize(rows, Vocabulary(["a"])).labels.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sentences.load("imdb"), "`name` must be 'sst2'. Received: name='imdb"),
        (lambda: sentences.load(split="valid"), "train, dev, test. Received: split='v"),
        (lambda: sentences.vectorize([], Vocabulary(["a"])), "must hold at least one"),
        (
            lambda: sentences.vectorize([("a", 0), (" ", 1)], Vocabulary(["a"])),
            r"sentences\[1\] has no words. Received: ' '",
        ),
        (
            lambda: sentences.vectorize(FOUND, Vocabulary(["a"]), 0),
            "`length` must be at least 1. Received: length=0",
        ),
        (
            lambda: sentences.vectorize([("a", 0), ("a", 1.7)], Vocabulary(["a"])),
            r"sentences\[1\] must have a label .* whole number from 0 on. .*: 1.7",
        ),
        (
            lambda: sentences.vectorize([("a", 2**31)], Vocabulary(["a"])),
            r"sentences\[0\] must have a label .* Received: 2147483648",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@needs_sst2
@pytest.mark.parametrize(
    ("split", "size", "positive"),
    [("train", 6920, 3610), ("dev", 872, 444), ("test", 1821, 909)],
)
def test_the_real_files(split, size, positive):
    found = sentences.load("sst2", split)
    assert len(found) == size
    assert sum(label for _, label in found) == positive
    path = files.find(f"text/sst2.{split}.tsv.gz", "http://localhost/none", size=1)
    text = gzip.decompress(path.read_bytes())
    known = (hashlib.sha256(text).hexdigest(), len(text))
    assert known == sentences._SST2_FILES[split]
