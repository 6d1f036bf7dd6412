"""Files of vectors, through gensim, and vectors in the order of a vocabulary."""

import gzip
import importlib.util
import sys

import numpy as np
import pytest

from keras_attention.datasets import DamagedDataError, DataNotFoundError, words
from keras_attention.datasets.words import WordVectors

# gensim opens a file without a header twice, but closes it once.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
needs_gensim = pytest.mark.skipif(
    importlib.util.find_spec("gensim") is None, reason="gensim is not installed"
)
TABLE = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
NAMES = ("dog", "naïve", "t-shirt")
FORMATS = ("word2vec", "word2vec_binary", "glove")


@needs_gensim
@pytest.mark.parametrize("format", FORMATS)
def test_what_is_written_is_read(tmp_path, format):
    path = tmp_path / "vectors"
    words.save_vectors(path, WordVectors(NAMES, TABLE), format)
    found = words.load_vectors(path, format)
    assert found.words == NAMES
    assert found.vectors.dtype == "float32"
    np.testing.assert_array_equal(found.vectors, TABLE)
    fewer = words.load_vectors(path, format, limit=2)
    assert fewer.words == NAMES[:2]
    np.testing.assert_array_equal(fewer.vectors, TABLE[:2])


@needs_gensim
def test_the_files_are_of_the_formats(tmp_path):
    vectors = WordVectors(("<pad>", "a", "b"), np.array([[9, 9], [1, -2.5], [0, 4]]))
    words.save_vectors(tmp_path / "w", vectors)
    words.save_vectors(tmp_path / "g", vectors, "glove")
    lines = [["2", "2"], ["a", 1.0, -2.5], ["b", 0.0, 4.0]]
    for name, expected in (("w", lines), ("g", lines[1:])):
        text = (tmp_path / name).read_text("utf-8")
        rows = [line.split(" ") for line in text.splitlines()]
        assert rows[-2:] != lines[-2:]  # text, of which the numbers are
        assert [[r[0], *map(float, r[1:])] for r in rows[-2:]] == lines[1:]
        assert len(rows) == len(expected)
    assert (tmp_path / "w").read_text("utf-8").startswith("2 2\n")


@needs_gensim
def test_as_others_write_them(tmp_path):
    """A blank behind each number, as word2vec has it; packed; the first of two."""
    path = tmp_path / "vectors.gz"
    path.write_bytes(gzip.compress(b"3 2\na 1 2 \nb 3 4 \na 5 6 \n"))
    found = words.load_vectors(path)
    assert found.words == ("a", "b")
    np.testing.assert_array_equal(found.vectors, [[1, 2], [3, 4]])


BAD = {
    "no header": ("word2vec", "a 1 2\nb 3 4\n", "line 1: must be the number of words"),
    "empty": ("word2vec", "", "line 1: must be the number of words"),
    "too few": ("word2vec", "3 2\na 1 2\nb 3 4\n", "promises 3 words, and there are 2"),
    "too many": ("word2vec", "1 2\na 1 2\nb 3 4\n", "promises 1 words; there are more"),
    "other width": (
        "word2vec",
        "2 3\na 1 2\nb 3 4\n",
        "line 2: .* 3 numbers, and has 2",
    ),
    "short line": ("word2vec", "2 2\na 1 2\nb 3\n", "line 3: .* 2 numbers, and has 1"),
    "long line": ("glove", "a 1 2\nb 3 4 5\n", "line 2: .* 2 numbers, and has 3"),
    "short glove": ("glove", "a 1 2 3\nb 3\n", "line 2: .* 3 numbers, and has 1"),
    "header of glove": ("glove", "2 2\na 1 2\nb 3 4\n", "line 1: is a header"),
    "a word alone": ("glove", "a\n", "line 1: must be a word and its numbers"),
    "empty glove": ("glove", "", "line 1: must be a word and its numbers"),
    "no number": ("glove", "a 1 2\nb x 4\n", "'glove', or is damaged .*'x'"),
    "not finite": ("glove", "a 1 2\nb nan 4\n", "finite numbers. Received for 'b'"),
    "no binary": (
        "word2vec_binary",
        "a 1 2\nb 3 4\n",
        "word2vec_binary', or is damaged",
    ),
    "binary cut": ("word2vec_binary", "2 2\na 1", "word2vec_binary', or is damaged"),
}


@needs_gensim
@pytest.mark.parametrize("what", BAD)
def test_a_file_that_is_not_of_the_format(tmp_path, what):
    format, text, message = BAD[what]
    path = tmp_path / "vectors.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DamagedDataError, match=message) as caught:
        words.load_vectors(path, format)
    assert str(path) in str(caught.value)


@needs_gensim
def test_a_file_that_was_cut(tmp_path):
    path = tmp_path / "vectors.gz"
    packed = gzip.compress(b"2 2\na 1 2\nb 3 4\n")
    path.write_bytes(packed[: len(packed) - 9])
    with pytest.raises(DamagedDataError, match="is damaged"):
        words.load_vectors(path)


@needs_gensim
def test_no_file(tmp_path):
    with pytest.raises(DataNotFoundError, match="There is no file"):
        words.load_vectors(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: words.load_vectors("x", "fasttext"), "`format` must be one of word2v"),
        (lambda: words.load_vectors("x", limit=0), "`limit` must be None or a whole"),
        (lambda: save(("a",), np.ones((2, 3))), r"row for each word. .*\(2, 3\) and 1"),
        (lambda: save(("a", "a"), np.ones((2, 3))), "distinct words .* Received: 'a'"),
        (lambda: save(("a b",), np.ones((1, 3))), "without white space. .*'a b'"),
        (lambda: save(("<pad>",), np.ones((1, 3))), "at least one word"),
    ],
)
def test_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def save(names, table):
    words.save_vectors("x", WordVectors(names, table))


def test_without_gensim(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models.keyedvectors", None)
    path = tmp_path / "vectors.txt"
    path.write_text("1 2\na 1 2\n")
    with pytest.raises(ImportError, match=r"extra `words`: .*family\[words\]"):
        words.load_vectors(path)
    with pytest.raises(ImportError, match="need gensim"):
        save(("a",), np.ones((1, 3)))


VOCABULARY = words.Vocabulary(["t-shirt", "cat", "dog"])


def test_matrix_is_in_the_order_of_the_vocabulary():
    vocabulary = words.Vocabulary(["t-shirt", "dog"])
    matrix = words.embedding_matrix(WordVectors(NAMES, TABLE), vocabulary, dim=4)
    assert matrix.dtype == "float32"
    np.testing.assert_array_equal(matrix[4:], TABLE[[2, 0]])
    assert (matrix[:4] == 0).all()


def test_words_without_a_vector():
    vectors = WordVectors((*NAMES, "<unk>"), np.vstack([TABLE, np.ones((1, 4))]))
    zeros = words.embedding_matrix(vectors, VOCABULARY, missing="zeros")
    assert (zeros[1] == 1).all()
    assert (zeros[[0, 2, 3, 5]] == 0).all()
    drawn = words.embedding_matrix(vectors, VOCABULARY, missing="random", seed=1)
    assert (drawn[0] == 0).all()
    assert (drawn[[2, 3, 5]] != 0).all()
    np.testing.assert_array_equal(drawn[[1, 4, 6]], zeros[[1, 4, 6]])
    again = words.embedding_matrix(vectors, VOCABULARY, missing="random", seed=1)
    np.testing.assert_array_equal(drawn, again)
    with pytest.raises(ValueError, match=r"no vector of 1 words of the .*such as cat"):
        words.embedding_matrix(vectors, VOCABULARY)


def test_random_ones_are_like_the_others():
    rng = np.random.default_rng(0)
    table = rng.normal(0.3, 0.2, (50, 40)).astype("float32")
    vectors = WordVectors([f"w{i}" for i in range(50)], table)
    vocabulary = words.Vocabulary([f"x{i}" for i in range(500)])
    matrix = words.embedding_matrix(vectors, vocabulary, missing="random")[1:]
    assert abs(matrix.mean() - 0.3) < 0.01
    assert abs(matrix.std() - 0.2) < 0.01


def test_another_width_than_the_layers():
    with pytest.raises(ValueError, match=r"as wide as the layer. .* width 4, dim=5"):
        words.embedding_matrix(WordVectors(NAMES, TABLE), VOCABULARY, dim=5)
    with pytest.raises(ValueError, match="`missing` must be one of error, zeros, rand"):
        words.embedding_matrix(WordVectors(NAMES, TABLE), VOCABULARY, missing="none")
