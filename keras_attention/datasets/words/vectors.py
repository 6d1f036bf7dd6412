"""Reads and writes word vectors and reorders them for a vocabulary.

Shapes: V words, D width.
"""

import codecs
import importlib
import itertools
import os
import traceback
from collections.abc import Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_attention.datasets.choices import check_choice
from keras_attention.datasets.files import (
    GZIP_DAMAGES,
    DamagedDataError,
    DataNotFoundError,
    open_decompressed,
)
from keras_attention.text.vocabulary import SPECIAL_TOKENS, Vocabulary

_FORMATS = ("word2vec", "word2vec_binary", "glove")
_MISSING = ("error", "zeros", "random")


class WordVectors(NamedTuple):
    """Words and their vectors.

    Attributes:
        words: V words, strings without white space.
        vectors: (V, D) float32.
    """

    words: Sequence[str]
    vectors: np.ndarray


def load_vectors(
    path: str | os.PathLike[str], format: str = "word2vec", limit: int | None = None
) -> WordVectors:
    """Reads a word2vec or GloVe file with gensim (the extra `words`).

    Args:
        path: Path of the file. Text files may be compressed as `.gz`.
        format: `"word2vec"`, text with the number of words and the width in the first
            line; `"word2vec_binary"`; or `"glove"`, text without such a header.
        limit: Maximum number of words to read. Unlimited by default.

    Returns:
        A `WordVectors`. A repeated word keeps its first vector.

    Raises:
        ImportError: gensim is not installed; the message says how to install it.
        ValueError: The format is unknown, or `limit` is below 1.
        DataNotFoundError: The file is missing.
        DamagedDataError: The header is invalid, a line is short or has another width,
            lines are missing, or a value is not a number. The message gives the line or
            the word.

    Example:
        ```python
        glove = load_vectors("glove.6B.100d.txt", format="glove")
        ```
    """
    check_choice("format", format, _FORMATS, f"one of {', '.join(_FORMATS)}")
    if limit is not None and (not isinstance(limit, Integral) or limit < 1):
        raise ValueError(
            "`limit` must be None or a whole number of at least 1. "
            f"Received: limit={limit!r}"
        )
    gensim = _gensim()
    path = Path(path)
    if not path.is_file():
        raise DataNotFoundError(f"There is no file {path}. Next: check the path.")
    binary = format == "word2vec_binary"
    if not binary:
        _check_text(path, format, limit)
    try:
        stored = gensim.KeyedVectors.load_word2vec_format(
            str(path), binary=binary, no_header=format == "glove", limit=limit
        )
    except (ValueError, EOFError, AssertionError, MemoryError) as error:
        traceback.clear_frames(error.__traceback__)  # also closes the file
        raise DamagedDataError(
            f"{path} is not of the format {format!r}, or is damaged ({error})."
        ) from error
    count = len(stored.key_to_index)  # the further rows are unused
    names = tuple(stored.index_to_key[:count])
    vectors = np.array(stored.vectors[:count], np.float32)  # (V, D)
    wrong = np.flatnonzero(~np.isfinite(vectors).all(1))
    if len(wrong):
        word = names[wrong[0]]
        raise DamagedDataError(
            f"{path}: every vector must be of finite numbers. Received for {word!r}: "
            f"{vectors[wrong[0]]}"
        )
    return WordVectors(names, vectors)


def save_vectors(
    path: str | os.PathLike[str], vectors: WordVectors, format: str = "word2vec"
) -> None:
    """Writes a word2vec or GloVe file with gensim (the extra `words`).

    Special tokens such as `"<pad>"` are left out.

    Args:
        path: Path of the file. If it ends in `.gz`, the file is compressed.
        vectors: Words, for example `Vocabulary.tokens`, and an array (V, D), for
            example from `SkipGram.vectors()`.
        format: Same as in `load_vectors`.

    Raises:
        ImportError: gensim is not installed; the message says how to install it.
        ValueError: The format is unknown, the numbers of rows and words differ, or a
            word is empty, contains white space, or is a duplicate.

    Example:
        ```python
        save_vectors("v.txt", WordVectors(vocabulary.tokens, model.vectors()))
        ```
    """
    check_choice("format", format, _FORMATS, f"one of {', '.join(_FORMATS)}")
    words, table = tuple(vectors[0]), np.asarray(vectors[1], np.float32)
    if table.ndim != 2 or len(table) != len(words):
        raise ValueError(
            "`vectors` must have a row for each word. Received: an array of shape "
            f"{table.shape} and {len(words)} words"
        )
    seen: set[str] = set()
    for word in words:
        if word.split() != [word] or word in seen:
            raise ValueError(
                "`vectors` must have distinct words without white space. "
                f"Received: {word!r}"
            )
        seen.add(word)
    rows = [i for i, word in enumerate(words) if word not in SPECIAL_TOKENS]
    if not rows:
        raise ValueError("`vectors` must have at least one word. Received: none")
    written = _gensim().KeyedVectors(table.shape[1])
    written.add_vectors([words[i] for i in rows], table[rows])
    # gensim writes frequent words first: decreasing counts keep the order.
    for place, i in enumerate(rows):
        written.set_vecattr(words[i], "count", len(rows) - place)
    written.save_word2vec_format(
        str(path), binary=format == "word2vec_binary", write_header=format != "glove"
    )


def embedding_matrix(
    vectors: WordVectors,
    vocabulary: Vocabulary,
    missing: str = "error",
    dim: int | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Builds the initial table of an embedding layer from word vectors.

    Args:
        vectors: Words and their vectors.
        vocabulary: The vocabulary of the layer's model.
        missing: How to handle words without a vector: `"error"`; `"zeros"`; or
            `"random"`, normal with the mean and standard deviation of all vectors.
            Special tokens without a vector are zero, unless `missing="random"`. Padding
            is always zero.
        dim: Expected width of the vectors, checked if given.
        seed: Seed for the random vectors.

    Returns:
        (len(vocabulary), D) float32.

    Raises:
        ValueError: The vectors' width is not `dim`, `missing` is unknown, or, with
            `"error"`, words have no vector; the message names the first of them.

    Example:
        ```python
        table = embedding_matrix(glove, vocabulary, missing="random", dim=100)
        model.get_layer("token_embedding").embeddings.assign(table)
        ```
    """
    check_choice("missing", missing, _MISSING, f"one of {', '.join(_MISSING)}")
    table = np.asarray(vectors[1], np.float32)  # (V, D)
    if dim is not None and table.shape[1] != dim:
        raise ValueError(
            "`vectors` must be as wide as the layer. Received: vectors of width "
            f"{table.shape[1]}, dim={dim}"
        )
    place = {word: i for i, word in enumerate(vectors[0])}
    rows = np.array([place.get(word, -1) for word in vocabulary.tokens])
    rows[0] = -1  # padding
    without = np.flatnonzero(rows < 0)
    words = [vocabulary.tokens[i] for i in without if i >= len(SPECIAL_TOKENS)]
    if missing == "error" and words:
        raise ValueError(
            f"There is no vector of {len(words)} words of the vocabulary, such as "
            f"{', '.join(words[:5])}. Choose by `missing` what they get. "
            "Received: missing='error'"
        )
    matrix = table[rows]
    matrix[without] = 0
    if missing == "random":
        size = (len(without), table.shape[1])
        samples = np.random.default_rng(seed).normal(size=size)
        matrix[without] = table.mean() + table.std() * samples
        matrix[0] = 0
    return matrix


def _gensim() -> Any:
    """Imports gensim's vector module or raises an ImportError with help."""
    try:
        return importlib.import_module("gensim.models.keyedvectors")
    except ImportError as error:
        raise ImportError(
            "Files of vectors need gensim, which comes with the extra `words`: "
            'python -m pip install "keras-attention-family[words]". '
            f"Received: {error}",
            name="gensim",
        ) from error


def _check_text(path: Path, format: str, limit: int | None) -> None:
    """Raises a DamagedDataError that names the first invalid line.

    gensim ignores extra lines if the header's count is too low. If a line has only one
    number, gensim fills the row with this number.
    """
    lines = _lines(path)
    try:
        first = next(lines, b"")
        count, width = _sizes(path, first, format)
        header = count is not None
        rows = lines if header else itertools.chain([first], lines)
        done = 0
        for done, line in enumerate(rows, 1):
            if limit is not None and done > limit:
                return
            if count is not None and done > count:
                raise _damaged(
                    path, 1, f"promises {count} words; there are more", first
                )
            numbers = len(line.split(b" ")) - 1
            if numbers != width:
                rule = f"must be a word and {width} numbers, and has {numbers}"
                raise _damaged(path, done + header, rule, line)
    except GZIP_DAMAGES as error:
        raise DamagedDataError(
            f"{path} is damaged ({error}). Delete it and download it again."
        ) from error
    if count is not None and done < (count if limit is None else min(count, limit)):
        rule = f"promises {count} words, and there are {done}"
        raise _damaged(path, 1, rule, first)


def _sizes(path: Path, first: bytes, format: str) -> tuple[int | None, int]:
    """Returns the number of words, or None if there is no header, and the width."""
    if first.startswith(codecs.BOM_UTF8):
        rule = "must not begin with a byte order mark: save the file without it"
        raise _damaged(path, 1, rule, first)
    parts = first.split()
    numbers = len(parts) == 2 and all(part.isdigit() for part in parts)
    if format == "word2vec":
        if not numbers or b"0" in parts:
            rule = (
                "must be the number of words and the width; a file without such a line "
                "is of format='glove'"
            )
            raise _damaged(path, 1, rule, first)
        return int(parts[0]), int(parts[1])
    if numbers:
        rule = "is a header, which GloVe has not: it may be of format='word2vec'"
        raise _damaged(path, 1, rule, first)
    width = len(first.split(b" ")) - 1
    if width < 1:
        raise _damaged(path, 1, "must be a word and its numbers", first)
    return None, width


def _lines(path: Path) -> Iterator[bytes]:
    with open_decompressed(path) as stream:
        for line in stream:
            yield line.rstrip()


def _damaged(path: Path, number: int, rule: str, line: bytes) -> DamagedDataError:
    text = line[:60].decode("utf-8", "replace")
    return DamagedDataError(f"{path}, line {number}: {rule}. Received: {text!r}")
