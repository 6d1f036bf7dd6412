"""What people type into the page, checked, with errors in words for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from keras_attention.explore.messages import message
from keras_attention.presets.preprocessors import sentences
from keras_attention.text.vocabulary import Vocabulary
from keras_attention.user_warnings import UntrainedInputWarning
from keras_attention.visualization import View

MOST_SENTENCES, MOST_CHARACTERS = 50, 20_000


class InputError(ValueError):
    """Input that a view cannot show; the message tells the reader what to change."""


def shown(look: Callable[..., View], *inputs: Any) -> str:
    """Returns the HTML of a view below its flags, or of the message for bad input."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UntrainedInputWarning)
        # The view itself shows unknown words.
        warnings.simplefilter("ignore", sentences.UnknownWordsWarning)
        try:
            view = look(*inputs).element(heading=True)
        except ValueError as error:
            return message(str(error))
    for warning in caught:
        if issubclass(warning.category, UntrainedInputWarning):
            view = message(str(warning.message)) + view
        else:
            warnings.warn(warning.message, stacklevel=2)
    return view


def words_of(
    name: str,
    text: str | None,
    most: int,
    split: Callable[[str], Sequence[str]] = str.split,
    unit: str = "words",
) -> list[str]:
    """Returns at most `most` words of a text that people typed.

    `name` is what the text is, and `unit` what it is split into, for messages.

    Raises:
        InputError: the text has no words, too many words or too many characters.
    """
    check_written(name, text)
    words = list(split(text or ""))
    if not words:
        typed = f"You typed “{(text or '')[:40]}”."
        raise InputError(f"Please write {name} with at least one word. {typed}")
    if len(words) > most:
        raise InputError(
            f"Please shorten {name}: this view takes at most {most:,} {unit}, "
            f"and there are {len(words):,}."
        )
    if len(text or "") > MOST_CHARACTERS:
        raise InputError(
            f"Please shorten {name}: this view takes at most {MOST_CHARACTERS:,} "
            f"characters, and there are {len(text or ''):,}."
        )
    return words


def check_written(name: str, text: str | None) -> None:
    """Raises an `InputError` if a text is empty."""
    if not (text or "").strip():
        raise InputError(f"Please write {name} first: there is none yet.")


def tokens_of(
    name: str, text: str | None, most: int, vocabulary: Vocabulary
) -> list[str]:
    """Returns the words and marks of a sentence, as `sentences.encode` reads it.

    Raises:
        InputError: the sentence has no word, only unknown ones, or is too long.
    """

    def split(text: str) -> list[str]:
        words = sentences.words_of(text, vocabulary)
        return words if any(word[0].isalnum() for word in words) else []

    tokens = words_of(name, text, most, split, "words and marks")
    words = [token for token in tokens if token[0].isalnum()]
    if not any(word in vocabulary for word in words):
        known = [word for word in vocabulary.tokens if word.isalpha()]
        check_known(words, known[:400:20])
    return tokens


def sentences_of(
    text: str | None,
    words: int,
    split: Callable[[str], Sequence[str]],
    most: int = MOST_SENTENCES,
) -> list[str]:
    """Returns the lines of a story that are not empty, each of at most `words` words.

    Raises:
        InputError: the story is empty, has too many lines, or a line has too many
            words.
    """
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    if not lines:
        raise InputError("Please write a story first: one sentence a line.")
    if len(lines) > most:
        raise InputError(
            f"Please shorten the story: this network reads at most {most:,} sentences, "
            f"and there are {len(lines):,}."
        )
    for number, line in enumerate(lines, 1):
        words_of(f"sentence {number} of the story", line, words, split)
    return lines


def check_known(
    unknown: Sequence[str], known: Sequence[str], unit: str = "words"
) -> None:
    """Raises an `InputError` about unknown words; it names a few `known` ones."""
    if unknown:
        listed = ", ".join(
            f"“{word[:40]}”" for word in list(dict.fromkeys(unknown))[:8]
        )
        others = " and others" if len(set(unknown)) > 8 else ""
        raise InputError(
            f"The network never learned {listed}{others}. It knows {unit} such as: "
            f"{', '.join(known)}."
        )
