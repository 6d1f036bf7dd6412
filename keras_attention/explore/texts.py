"""What people type into the page, checked, with errors in words for them."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

from keras_attention.visualization import View

MOST_SENTENCES, MOST_WORDS, MOST_CHARACTERS = 50, 40, 20_000


class InputError(ValueError):
    """Input that a view cannot show; the message tells the reader what to change."""


def shown(look: Callable[..., View], *given: Any) -> str:
    """Returns the HTML of a view, or of the message if the input is bad.

    Args:
        look: returns a view for the inputs, or raises a ValueError about them.
        *given: the inputs.
    """
    try:
        return look(*given).element(heading=True)
    except ValueError as error:
        return message(str(error))


def message(text: str) -> str:
    """Returns a message to the reader as HTML."""
    return f'<p class="explore-message" role="alert">{html.escape(text)}</p>'


def words_of(name: str, text: str | None, most: int = MOST_WORDS) -> list[str]:
    """Returns the words of a text that people typed.

    Raises:
        InputError: the text is empty or has too many words.
    """
    words = (text or "").split()
    if not words:
        raise InputError(f"Please write {name} first: there is none yet.")
    if len(words) > most:
        raise InputError(
            f"Please shorten {name}: this view takes at most {most:,} words, "
            f"and there are {len(words):,}."
        )
    if len(text or "") > MOST_CHARACTERS:
        raise InputError(
            f"Please shorten {name}: this view takes at most {MOST_CHARACTERS:,} "
            f"characters, and there are {len(text or ''):,}."
        )
    return words


def sentences_of(
    text: str | None, most: int = MOST_SENTENCES, words: int = MOST_WORDS
) -> list[str]:
    """Returns the lines of a story that are not empty.

    Raises:
        InputError: the story is empty, has too many lines, or a line has too many
            words.
    """
    found = [line.strip() for line in (text or "").splitlines() if line.strip()]
    if not found:
        raise InputError("Please write a story first: one sentence a line.")
    if len(found) > most:
        raise InputError(
            f"Please shorten the story: this network reads at most {most:,} sentences, "
            f"and there are {len(found):,}."
        )
    for number, line in enumerate(found, 1):
        words_of(f"sentence {number} of the story", line, words)
    return found


def check_known(unknown: Sequence[str], known: Sequence[str]) -> None:
    """Raises an `InputError` about words that a network has not learned.

    Args:
        unknown: the words that the network does not know.
        known: a few words that it knows.
    """
    if unknown:
        listed = ", ".join(
            f"“{word[:40]}”" for word in list(dict.fromkeys(unknown))[:8]
        )
        more = " and others" if len(set(unknown)) > 8 else ""
        raise InputError(
            f"The network never learned {listed}{more}. It knows words such as: "
            f"{', '.join(known)}."
        )
