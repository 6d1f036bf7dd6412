"""Labelled sentences and the training arrays of a classifier.

SST-2 is for research only. It is downloaded and not part of this package.

```python
from keras_attention.datasets import sentences

train = sentences.load("sst2", "train")
vocabulary = sentences.Vocabulary.from_sentences(s.text for s in train)
inputs, labels = sentences.vectorize(train, vocabulary)
```
"""

import os
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from keras_attention.datasets import files
from keras_attention.datasets.choices import check_choice
from keras_attention.datasets.ragged import at_least_one, padded
from keras_attention.text.vocabulary import Vocabulary, tokenize

__all__ = [
    "Sentence",
    "Vectors",
    "Vocabulary",
    "load",
    "read_tabbed",
    "tokenize",
    "vectorize",
]

_SST2 = (
    "https://raw.githubusercontent.com/clairett/pytorch-sentiment-classification/"
    "master/data/SST2/"
)
# Maps each split to the SHA-256 and the size of its text.
_SST2_FILES = {
    "train": (
        "ec192f833a64da08f475488a77b0d0b47db47acd0f458bd18433fc793b569920",
        720_259,
    ),
    "dev": ("eddea6b39e601dd4e7a672b53cc40fdf6019fa80522f351206c24340ca5d9359", 92_057),
    "test": (
        "831169c7e2e429d6026e1bdbb542f33b636e3e596caad9602ebc953c205928b7",
        188_749,
    ),
}


class Sentence(NamedTuple):
    """A text and its class label.

    Attributes:
        text: The text, without surrounding white space.
        label: An integer of at least 0. In SST-2, 1 is positive and 0 is negative.
    """

    text: str
    label: int


class Vectors(NamedTuple):
    """The output of `vectorize`.

    Attributes:
        inputs: `"tokens"`, (N, T) int32, padded with 0 at the end.
        labels: (N,) int32.
    """

    inputs: dict[str, np.ndarray]
    labels: np.ndarray


def load(
    name: str = "sst2", split: str = "train", path: str | os.PathLike[str] | None = None
) -> list[Sentence]:
    """Loads the sentences of SST-2.

    `"sst2"`: positive (1) and negative (0) sentences of film reviews: 6,920 for
    training, 872 for development and 1,821 for testing. They are the full sentences of
    the Stanford Sentiment Treebank, without neutral sentences and phrases, in lower
    case and with some marks removed. Socher et al., 2013, *Recursive Deep Models for
    Semantic Compositionality Over a Sentiment Treebank*,
    https://aclanthology.org/D13-1170. **For research only.** The GLUE version of SST-2
    also has phrases and lacks the test labels.

    Without a `path`, `load` searches for the file in the folder named by
    `KERAS_ATTENTION_DATA` (`text/sst2.train.tsv.gz`, …), then in Keras' cache, and
    otherwise downloads it.

    Args:
        name: `"sst2"`.
        split: `"train"`, `"dev"` or `"test"`.
        path: A file to read instead, in the format of `read_tabbed`.

    Returns:
        A list of `Sentence`, in the file's order.

    Raises:
        ValueError: The name or split is unknown, or the file has another format; the
            message gives the file and the line.
        DataNotFoundError: The file cannot be found or downloaded; the message says what
            to try next.
        DamagedDataError: The file is truncated or altered.

    Example:
        ```python
        train = load("sst2", "train")
        ```
    """
    check_choice("name", name, ("sst2",))
    check_choice("split", split, _SST2_FILES, f"one of {', '.join(_SST2_FILES)}")
    if path is None:
        sha256, size = _SST2_FILES[split]
        path = files.find(
            f"text/sst2.{split}.tsv.gz",
            f"{_SST2}{split}.tsv",
            sha256,
            size=size,
            cache_name=f"sst2.{split}.tsv",
        )
    return read_tabbed(path)


def read_tabbed(path: str | os.PathLike[str]) -> list[Sentence]:
    """Reads a file with one sentence per line: text, tab and label.

    Args:
        path: A UTF-8 text file, plain or gzipped. Empty lines are skipped.

    Returns:
        A list of `Sentence`, in the order of the lines.

    Raises:
        ValueError: A line is not a text, a tab and an integer of at least 0, or is not
            UTF-8; the message gives the file and the line.
        DataNotFoundError: No such file.
        DamagedDataError: A gzipped file is truncated or altered.

    Example:
        ```python
        mine = read_tabbed("reviews.tsv")
        ```
    """
    labelled = []
    for number, line in enumerate(files.read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        text, _, label = (field.strip() for field in line.partition("\t"))
        category = files.whole_number(label)
        if not text or category is None:
            raise ValueError(
                f"{path}, line {number}: must be a text, a tab and a whole number from "
                f"0 on. Received: {line!r}"
            )
        labelled.append(Sentence(text, category))
    return labelled


def vectorize(
    sentences: Iterable[Sentence | tuple[str, int]],
    vocabulary: Vocabulary,
    length: int | None = None,
) -> Vectors:
    """Turns N sentences into an array of indices, padded with 0 at the end.

    Args:
        sentences: Pairs of text and label.
        vocabulary: Any object with `encode(text)` that returns positive integers.
        length: T. Defaults to the length of the longest sentence. Longer sentences keep
            the first T words.

    Raises:
        ValueError: `sentences` is empty, a sentence has no words, a label is not a
            whole number from 0 on, or `length` is below 1.

    Example:
        ```python
        vocabulary = Vocabulary(["good", "bad"])
        vectorize([("good , good", 1), ("bad", 0)], vocabulary).inputs["tokens"]
        # [[4, 1, 4], [5, 0, 0]]
        ```
    """
    sentences = list(sentences)
    if not sentences:
        raise ValueError("`sentences` must hold at least one. Received: sentences=[]")
    if length is not None:
        at_least_one(length=length)
    rows = [vocabulary.encode(text) for text, _ in sentences]
    for i, (row, (text, _)) in enumerate(zip(rows, sentences)):
        if not row:
            raise ValueError(f"sentences[{i}] has no words. Received: {text!r}")
    width = length or max(map(len, rows))
    tokens = padded([row[:width] for row in rows], width)  # (N, T)
    labels = np.array([float(label) for _, label in sentences])  # (N,)
    whole = (labels >= 0) & (labels < 2**31) & (labels == np.floor(labels))
    if not whole.all():
        i = int(whole.argmin())
        raise ValueError(
            f"sentences[{i}] must have a label that is a whole number from 0 on. "
            f"Received: {sentences[i][1]!r}"
        )
    return Vectors({"tokens": tokens}, labels.astype(np.int32))
