"""The words of a question, and those that match names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from keras_attention.text.linking.names import NameIndex, Spelling
from keras_attention.text.linking.spelling import (
    APOSTROPHES,
    ARTICLES,
    FRAME_WORDS,
    QUESTION_WORDS,
    Word,
    is_mixed,
    is_number,
    words_of,
    year_after,
)
from keras_attention.text.words import tokenize

ENTITY = "<entity>"  # replaces the entity's name in a question's words
QUOTES = "\"'“”„«»‘’"
# How sure it is that words are meant as a name.
MARKED, CONTENT, ORDINARY, FRAME = 3, 2, 1, 0
# How the words match a name.
FULL, LOOSE, SEGMENT, PART = 3, 2, 1, 0

# What stands behind a name at the start of a question: Up: who directed it?
_TITLE_END = re.compile(r"[?!.]*\s*[:–—]|\s+-\s")
_CONNECT = frozenset(("of", "and", "the", "de", "la", "part", "vol", "volume"))


class Match(NamedTuple):
    """Words that match names.

    Attributes:
        start: The index of the first word.
        end: The index after the last word.
        spellings: The spellings that match.
        tier: How they match: `FULL`, `LOOSE`, `SEGMENT` or `PART`.
        strength: `MARKED`, `CONTENT`, `ORDINARY` or `FRAME`.
        letters: The number of letters, without an article at the start.
        content: The number of words that are not ordinary.
        errors: The number of misspelt letters.
        core: The index of the first word that is no article.
        owner: Whether the words have a possessive ending.
    """

    start: int
    end: int
    spellings: tuple[Spelling, ...]
    tier: int
    strength: int
    letters: int
    content: int
    errors: int = 0
    core: int = 0
    owner: bool = False

    def holds(self, other: Match) -> bool:
        """Whether another match is a part of this one."""
        return self.start <= other.core and other.end <= self.end

    def apart(self, other: Match) -> bool:
        """Whether this and another match have no word in common."""
        return self.end <= other.start or other.end <= self.start


class Question:
    """A question without brackets, and its words.

    Args:
        text: The question, in Unicode's form NFC.

    Attributes:
        text: The question.
        words: Its words. Those with a capital letter count as content, if capital
            letters tell names from other words in this question.
        mixed: Whether capital letters do.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._bare = words = words_of(text)
        self.mixed = is_mixed(words)
        self.words = []
        for i, word in enumerate(words):
            content = word.content or self.capital(i, word)
            word = word._replace(content=content)
            if text[word.end : word.end + 1] in ("", *".,;:?!"):  # owns nothing
                word = word._replace(owner=word.key, possessive=False)
            self.words.append(word)

    def capital(self, i: int, word: Word) -> bool:
        """Whether a capital letter or a digit marks a word as a part of a name."""
        first = i == 0 or (word.key in QUESTION_WORDS and self._after_stop(word))
        if first or not self.mixed:
            return False
        if word.key == "i":  # I Know What You Did Last Summer
            return any(0 < w.start - word.end < 3 and w.capital for w in self._bare)
        return word.capital

    def _after_stop(self, word: Word) -> bool:
        return self.text[: word.start].rstrip()[-1:] in (".", "?", "!", ":")

    def strength(self, start: int, end: int) -> int | None:
        """Returns how sure it is that words are a name; None if they cannot be one."""
        words = self.words[start:end]
        if all(word.key in ARTICLES for word in words):
            return None
        if self._marked(start, end):
            return MARKED
        if any(word.content for word in words):
            return CONTENT
        owners = {word.owner for word in words} - ARTICLES
        if owners <= QUESTION_WORDS:
            return None
        return FRAME if owners <= FRAME_WORDS | QUESTION_WORDS else ORDINARY

    def _marked(self, start: int, end: int) -> bool:
        first, last = self.words[start], self.words[end - 1]
        before = self.text[max(first.start - 1, 0) : first.start]
        after = self.text[last.end : last.end + 1] or last.text[-1]
        if before and before in QUOTES and (after in QUOTES or last.text[-1] in QUOTES):
            return True
        if last.possessive:
            return True
        if start == 0 and _TITLE_END.match(self.text, last.end):
            return True
        words = [*enumerate(self.words)][start:end]
        if start == 0:
            upper = first.text[0].isupper()
            return upper and any(self.capital(i, word) for i, word in words)
        if len(words) > 1 and first.key in ARTICLES:
            return any(self.capital(i, word) for i, word in words[:2])
        return self.capital(start, first)

    def match(
        self,
        start: int,
        end: int,
        spellings: Iterable[Spelling],
        tier: int,
        errors: int = 0,
    ) -> Match | None:
        """Returns the words from `start` to `end` as a match, if they may be a name."""
        strength = self.strength(start, end)
        if strength is None:
            return None
        core = start + (end - start > 1 and self.words[start].key in ARTICLES)
        words = self.words[core:end]
        letters = sum(len(word.key) for word in words)
        content = sum(word.content for word in words)
        spellings = tuple(dict.fromkeys(spellings))
        owner = words[-1].possessive
        counts = letters, content, errors
        return Match(start, end, spellings, tier, strength, *counts, core, owner)

    def without(self, start: int, end: int) -> tuple[str, ...]:
        """Returns the question's words with a name replaced by `ENTITY`."""
        return self.around(self.words[start].start, self.words[end - 1].end)

    def around(self, start: int, end: int) -> tuple[str, ...]:
        """The same for a name with these characters, and marks next to it."""
        end = year_after(self.text, end)
        while start and not (self.text[start - 1].isalnum() or self._space(start - 1)):
            start -= 1
        while end < len(self.text) and not (
            self.text[end].isalnum() or self._space(end)
        ):
            end += 1
        before, after = self.text[:start], self.text[end:]
        return (*tokenize(before), ENTITY, *tokenize(after))

    def _space(self, index: int) -> bool:
        return self.text[index].isspace()

    def strays(
        self, best: Match, index: NameIndex, others: Sequence[Match] = ()
    ) -> set[int]:
        """Returns the words that look like names, but are a part of no match.

        These are words with a capital letter, if capital letters tell names from other
        words, else words of known names.
        """
        strong = [m for m in others if m.strength >= CONTENT and m.apart(best)]
        covered = {i for m in (best, *strong) for i in range(m.start, m.end)}
        free = [pair for pair in enumerate(self.words) if pair[0] not in covered]
        strays = {i for i, w in free if w.text[0].isupper() and self.capital(i, w)}
        if self.mixed and best.start == 1 and index.has_word(self.words[0].key):
            strays |= {i for i, w in free[:1] if i == 0 and w.content and w.capital}
        final = self.words[best.end - 1]
        if not self.mixed or (final.content and final.text[0].islower()):
            strays |= {i for i, w in free if w.content and index.has_word(w.key)}
        ordinary = FRAME_WORDS | QUESTION_WORDS
        return {i for i in strays if self.words[i].key not in ordinary}

    def joined(
        self, best: Match, index: NameIndex, others: Sequence[Match] = ()
    ) -> set[int]:
        """Returns the words next to a match that make it a part of another name.

        These are strays and, behind a match, numbers: Rocky is a part of "Rocky 2". The
        word "of", "and" or "the" may stand between, if a stray is no part of another
        match.
        """
        free, near = self.strays(best, index, others), self.strays(best, index)
        if not self.mixed:
            near = free
        neighbours = set()
        for step, edge in ((-1, best.start), (1, best.end - 1)):
            i, last = edge + step, edge
            while 0 <= i < len(self.words):
                left, right = sorted((i, last))
                words = self.words[left], self.words[right]
                gap = self.text[words[0].end : words[1].start]
                marks = gap.strip(" -–" + APOSTROPHES)
                continues = step == 1 and (marks == ":" or words[1].key in _CONNECT)
                if words[0].possessive or (
                    marks and not (continues and marks in (":", ","))
                ):
                    break
                number = step == 1 and is_number(self.words[i].key)
                if number or i in (near if abs(i - edge) == 1 else free):
                    neighbours.add(i)
                    break
                if self.words[i].key not in _CONNECT:
                    break
                i, last = i + step, i
        return neighbours

    def longest_run(self) -> list[Word]:
        """Returns the words that most likely are a name, for suggestions."""
        marked = [self.capital(i, word) for i, word in enumerate(self.words)]
        use = marked if any(marked) else [word.content for word in self.words]
        runs: list[list[Word]] = [[]]
        for i, (word, used) in enumerate(zip(self.words, use)):
            between = word.key in _CONNECT and any(use[i + 1 : i + 3])
            if used or (runs[-1] and between):
                runs[-1].append(word)
            else:
                runs.append([])
        return max(runs, key=lambda run: sum(len(word.key) for word in run))
