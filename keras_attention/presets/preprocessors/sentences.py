"""Sentences to the words of a vocabulary, and words to sentences.

Shapes: B texts, S words of the longest text.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence, Sized
from typing import Any

import keras
import numpy as np

from keras_attention import samplers
from keras_attention.text.vocabulary import (
    PADDING,
    START,
    UNKNOWN,
    Vocabulary,
    tokenize,
)
from keras_attention.user_warnings import UntrainedInputWarning, warn_user

NOT_WRITTEN = (PADDING, UNKNOWN, START)  # special tokens that no text contains
_ENDS = frozenset(".!?…")
_NO_SPACE_BEFORE = frozenset(".,!?…:;%)]}'’”")
_NO_SPACE_AFTER = frozenset("([{$€£¿¡“")


class UnknownWordsWarning(UntrainedInputWarning):
    """A text has words that the vocabulary lacks."""


class UnreadableTextError(ValueError):
    """A text has no words, too many, or only unknown ones."""


def words_of(text: str, vocabulary: Vocabulary) -> list[str]:
    """Splits a text into words and marks, in the spelling of a vocabulary.

    The first word of a sentence is read in its more frequent spelling: "The" as "the",
    but "Tom" as "Tom". Another word that the vocabulary lacks is also looked up in
    lower case and with a capital.
    """
    words: list[str] = []
    starts = True
    for word in tokenize(text, lowercase=False):
        forms = dict.fromkeys((word, word.lower(), word.capitalize()))
        known = [form for form in forms if form in vocabulary]
        if known and starts:
            word = min(known, key=vocabulary.index)
        elif known:
            word = known[0]
        words.append(word)
        # A sentence may begin with a quotation mark.
        starts = word in _ENDS or (starts and not word[0].isalnum())
    return words


def text_of(words: Iterable[str], starts: bool = True) -> str:
    """Joins words to a text, with a capital at the start of each sentence."""
    text, glued, quoted = "", True, False
    for word in words:
        closes = word == '"' and quoted
        if not (glued or closes or word in _NO_SPACE_BEFORE):
            text += " "
        text += word[:1].upper() + word[1:] if starts else word
        quoted ^= word == '"'
        glued = word in _NO_SPACE_AFTER or (word == '"' and quoted)
        starts = word in _ENDS or (starts and not word[0].isalnum())
    return text


def add_words(text: str, words: Sequence[str]) -> str:
    """Adds words and marks to a text."""
    text = text.rstrip()
    starts = text[-1:] in _ENDS
    apart = bool(words) and words[0] not in _NO_SPACE_BEFORE
    return text + " " * apart + text_of(words, starts)


def cased_vocabulary(
    texts: Iterable[str], max_size: int | None = None, min_count: int = 1
) -> Vocabulary:
    """Makes a vocabulary that distinguishes capitals, for `words_of`.

    The first word of a text counts in the spelling that is more frequent within texts,
    and in lower case if there is none. `max_size` includes the special tokens.
    """
    rows = [tokenize(text, lowercase=False) for text in texts]
    inner = collections.Counter(word for row in rows for word in row[1:])
    counts = inner.copy()
    for word, *_ in filter(None, rows):
        lower = word.lower()
        counts[word if inner[word] > inner[lower] else lower] += 1
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    frequent = [word for word in ranked if counts[word] >= min_count]
    special = len(Vocabulary(()))
    return Vocabulary(
        frequent[: None if max_size is None else max_size - special], lowercase=False
    )


def check_vocabulary(name: str, vocabulary: Any, level: str = "word") -> Vocabulary:
    """Returns a vocabulary of this level; raises a ValueError for anything else."""
    if not isinstance(vocabulary, Vocabulary) or vocabulary.level != level:
        raise ValueError(
            f"`{name}` must be a `text.Vocabulary` of {level}s. "
            f"Received: {name}={vocabulary!r}"
        )
    return vocabulary


def named(name: str, texts: Any) -> dict[str, str]:
    """Returns one or several texts by name, or raises a ValueError."""
    if isinstance(texts, str):
        return {name: texts}
    is_list = isinstance(texts, Iterable) and not isinstance(texts, (bytes, dict))
    by_name = {f"{name}[{i}]": text for i, text in enumerate(texts if is_list else ())}
    if not by_name or not all(isinstance(text, str) for text in by_name.values()):
        raise ValueError(
            f"`{name}` must be a string or a list of at least one string. "
            f"Received: {name}={texts!r}"
        )
    return by_name


def encode(
    name: str, text: str, vocabulary: Vocabulary, max_words: int, blank: str = ""
) -> list[int]:
    """Returns the index of each word of a text.

    `name` is for messages; `blank` stands for a missing word, and is no unknown one.

    Warns:
        UnknownWordsWarning: the vocabulary lacks words, which become the unknown word.

    Raises:
        UnreadableTextError: the text has no words, too many, or only unknown ones.
    """
    words = words_of(text, vocabulary)
    if not any(word[0].isalnum() for word in words):
        raise UnreadableTextError(
            f"`{name}` must be a text with at least one word. Received: {name}={text!r}"
        )
    if len(words) > max_words:
        raise UnreadableTextError(
            f"`{name}` must have at most {max_words} words and marks. "
            f"Received: {len(words)}"
        )
    if not any(word in vocabulary and word[0].isalnum() for word in words):
        raise UnreadableTextError(
            f"`{name}` must have a word that the network has learned; the vocabulary "
            f"of `model.preprocessor` lists them. Received: {name}={text!r}"
        )
    unknown = [word for word in words if word not in vocabulary and word != blank]
    if unknown:
        warn_user(
            f"`{name}` has words that the network has not learned. It reads each of "
            f"them as the unknown word: {', '.join(map(repr, dict.fromkeys(unknown)))}",
            UnknownWordsWarning,
        )
    return [vocabulary.index(word) for word in words]


def pad(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Pads rows of indices with 0 to an array int32 (B, S)."""
    return keras.utils.pad_sequences(rows, padding="post", value=PADDING)


def written(sampler: Any) -> Any:
    """Returns a sampler of this package that writes no special token but the end."""
    chosen = samplers.one_sequence(sampler)
    if not isinstance(chosen, samplers.Sampler):
        return chosen
    return samplers.ExcludingSampler(chosen, list(NOT_WRITTEN))


def check_lines(lines: Any, kind: str) -> None:
    """Raises a ValueError unless `sentences` are a list of at least one."""
    no_list = isinstance(lines, (str, dict, set)) or not isinstance(lines, Sized)
    if no_list or not len(lines):
        raise ValueError(
            f"`sentences` must be a list of at least one {kind}. "
            f"Received: sentences={lines!r}"
        )


def names_of(names: Any) -> list[str]:
    """Returns the names of a text or a tuple, with "" for anything but a name."""
    if isinstance(names, str):
        names = names.split("|")
    fields = names if isinstance(names, (list, tuple)) else ()
    return [name.strip() if isinstance(name, str) else "" for name in fields]
