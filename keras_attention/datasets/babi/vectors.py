"""Turns words into arrays: a vocabulary and the inputs of a memory network."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.sizes import check_size
from keras_attention.text.encoding import decode_text
from keras_attention.user_warnings import warn_user

PADDING = ""
UNKNOWN = "<unk>"


class Vocabulary:
    """Words and their indices. Index 0 is padding, and index 1 is the unknown word.

    Args:
        words: The words, in the order of their indices, which begin at 2.

    Raises:
        ValueError: A word is empty, contains white space, is `"<unk>"`, or is a
            duplicate.

    Example:
        ```python
        vocabulary = Vocabulary(["is", "mary", "where"])
        vocabulary.encode(["where", "is", "zoe"])  # [4, 2, 1]
        vocabulary.unknown_words(["where", "is", "zoe"])  # ["zoe"]
        ```
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._words = (PADDING, UNKNOWN, *words)
        self._index: dict[str, int] = {}
        for index, word in enumerate(self._words):
            if word in self._index or (index > 1 and word.split() != [word]):
                raise ValueError(
                    "`words` must be distinct and without white space, and may not "
                    f"hold '' or '{UNKNOWN}'. Received: words[{index - 2}]={word!r}"
                )
            self._index[word] = index

    @classmethod
    def from_examples(cls, examples: Iterable[Example]) -> "Vocabulary":
        """Builds a sorted vocabulary of all stories, questions and answers.

        Pass the training examples alone: words that only the test has are unknown. In
        the 1k tasks, one test answer (a list in task 8) does not occur in training.
        `vectorize` rejects it; an example with `answer=None` counts as wrong.
        """
        words: set[str] = set()
        sentences: set[tuple[str, ...]] = set()
        for example in examples:
            sentences.update(example.story)
            sentences.add(example.question)
            if example.answer is not None:
                words.add(example.answer)
        return cls(sorted(words.union(*sentences)))

    @property
    def words(self) -> tuple[str, ...]:
        """All words by index, including padding and the unknown word."""
        return self._words

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, word: str) -> bool:
        return self._index.get(word, 0) > 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._words == other._words

    def __hash__(self) -> int:
        return hash(self._words)

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self)} words>"

    def encode(self, words: Sequence[str]) -> list[int]:
        """Returns the index of each word; 1 for unknown words."""
        self._refuse_text(words)
        return [self._index.get(word, 1) for word in words]

    def decode(self, indices: Iterable[int]) -> list[str]:
        """Returns the word of each index; `""` for padding.

        Raises:
            ValueError: An index below 0 or not below `len(self)`.
        """
        indices = [int(index) for index in indices]
        for index in indices:
            if not 0 <= index < len(self):
                raise ValueError(
                    f"An index must be at least 0 and below {len(self)}. "
                    f"Received: {index}"
                )
        return [self._words[index] for index in indices]

    def unknown_words(self, words: Sequence[str]) -> list[str]:
        """Returns the distinct words outside the vocabulary, in order of appearance."""
        self._refuse_text(words)
        return [word for word in dict.fromkeys(words) if word not in self._index]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one word per line, in UTF-8.

        Line n, counted from 0, is word n. The first line is empty and stands for
        padding.
        """
        text = "".join(f"{word}\n" for word in self._words)
        Path(path).write_text(text, encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Vocabulary":
        """Reads a file written by `save`.

        Raises:
            ValueError: The file does not begin with an empty line and `<unk>`, or a
                later line is not a single new word.
        """
        lines = decode_text(Path(path).read_bytes(), path).splitlines()
        if lines[:2] != [PADDING, UNKNOWN]:
            raise ValueError(
                f"{path} is not a saved vocabulary: its first line must be empty and "
                f"its second '{UNKNOWN}'. Received: {lines[:2]}"
            )
        try:
            return cls(lines[2:])
        except ValueError as error:
            raise ValueError(f"{path} is not a saved vocabulary: {error}") from error

    @staticmethod
    def _refuse_text(words: Iterable[str]) -> None:
        if isinstance(words, str):
            raise ValueError(
                "`words` must be a sequence of words; `tokenize` makes one of a "
                f"text. Received: words={words!r}"
            )


class Vectors(NamedTuple):
    """The output of `vectorize`.

    Attributes:
        inputs: `"story"`, (N, M, L) int32, and `"question"`, (N, L) int32.
        answers: (N,) int32, indices into the vocabulary; 0 for examples without an
            answer.
        truncated: Number of stories with more than M sentences.
        supporting: (N, M) bool, True for slots with a supporting fact.
    """

    inputs: dict[str, np.ndarray]
    answers: np.ndarray
    truncated: int
    supporting: np.ndarray


def vectorize(
    examples: Iterable[Example],
    vocabulary: Vocabulary,
    memory_size: int = 50,
    sentence_length: int | None = None,
) -> Vectors:
    """Turns N examples into arrays of M memory slots by L words.

    Each story fills the slots in reading order from slot 0. Padding (0) follows the
    story and each sentence. A story with more than M sentences keeps the most recent M,
    and a `UserWarning` gives the number of truncated stories. Supporting facts that are
    cut off are not marked. Unknown words become 1.

    Args:
        examples: The examples.
        vocabulary: Maps words to indices.
        memory_size: M.
        sentence_length: L. Defaults to the length of the longest sentence or question.

    Raises:
        ValueError: There are no examples; a size is below 1; an answer is outside the
            vocabulary; a supporting fact is outside its story; a story, sentence or
            question is empty; or a sentence is longer than `sentence_length`.

    Example:
        ```python
        vectors = vectorize(examples, Vocabulary.from_examples(examples))
        model.fit(vectors.inputs, vectors.answers)
        ```
    """
    check_size("memory_size", memory_size)
    if sentence_length is not None:
        check_size("sentence_length", sentence_length)
    examples = list(examples)
    if not examples:
        raise ValueError("`examples` must hold at least one. Received: examples=[]")
    sentences = _Sentences(vocabulary, sentence_length)
    story = np.zeros((len(examples), memory_size), np.int32)  # (N, M), rows of a table
    question = np.zeros(len(examples), np.int32)  # (N,)
    answers = np.zeros(len(examples), np.int32)  # (N,)
    supporting = np.zeros((len(examples), memory_size), bool)  # (N, M)
    truncated = 0
    for i, example in enumerate(examples):
        where = f"examples[{i}]"
        if not example.story:
            raise ValueError(f"{where} has an empty story. Received: {example}")
        if example.answer is not None and example.answer not in vocabulary:
            raise ValueError(
                f"The answer of {where} is not in the vocabulary. "
                f"Received: answer={example.answer!r}"
            )
        cut = max(len(example.story) - memory_size, 0)
        truncated += cut > 0
        recent = example.story[cut:]
        story[i, : len(recent)] = [sentences.row(words, where) for words in recent]
        question[i] = sentences.row(example.question, where)
        if example.answer is not None:
            (answers[i],) = vocabulary.encode([example.answer])
        for fact in example.supporting_facts:
            if not 0 <= fact < len(example.story):
                raise ValueError(
                    f"{where} has a supporting fact outside its story of "
                    f"{len(example.story)} sentences, counted from 0. "
                    f"Received: supporting_facts={example.supporting_facts}"
                )
            if fact >= cut:
                supporting[i, fact - cut] = True
    if truncated:
        warn_user(
            f"{truncated} of {len(examples)} stories have more than "
            f"memory_size={memory_size} sentences; their oldest were left out."
        )
    table = sentences.table()  # (S, L)
    inputs = {"story": table[story], "question": table[question]}
    return Vectors(inputs, answers, truncated, supporting)


class _Sentences:
    """A table with one row per distinct sentence; row 0 is padding."""

    def __init__(self, vocabulary: Vocabulary, length: int | None) -> None:
        self.vocabulary = vocabulary
        self.length = length
        self.rows: dict[tuple[str, ...], int] = {(): 0}

    def row(self, words: tuple[str, ...], where: str) -> int:
        row = self.rows.get(words, 0)
        if row == 0:
            self._check(words, where)
            row = self.rows[words] = len(self.rows)
        return row

    def _check(self, words: tuple[str, ...], where: str) -> None:
        if not words:
            raise ValueError(f"{where} has a sentence or question without words.")
        if self.length is not None and len(words) > self.length:
            raise ValueError(
                f"{where} has a sentence of {len(words)} words, more than "
                f"`sentence_length`. Received: sentence_length={self.length}, "
                f"sentence={' '.join(words)!r}"
            )

    def table(self) -> np.ndarray:
        length = self.length or max(len(words) for words in self.rows)
        table = np.zeros((len(self.rows), length), np.int32)  # (S, L)
        for words, row in self.rows.items():
            table[row, : len(words)] = self.vocabulary.encode(words)
        return table
