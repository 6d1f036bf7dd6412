"""An index of names by their spellings, their parts and their words."""

from __future__ import annotations

import difflib
import functools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from keras_attention.text.linking.spelling import (
    APOSTROPHES,
    ORDINARY,
    Word,
    core,
    fold,
    loose,
    numbered,
    with_article_first,
    words_of,
    year_after,
)

try:
    import rapidfuzz
except ImportError:  # an extra: `linking`
    rapidfuzz = None

# Parts of a name: Alien: Resurrection; Star Wars: Episode IV - A New Hope.
_SEGMENTS = re.compile(r"\s*:\s+|\s+[-–—]\s+|\s+or,?:?\s+|\s*/\s*")
_LONG_NAME = 18  # letters from which on a name of several words may have two errors
_LONG = 9  # letters from which on a word may have two errors


class Spelling(NamedTuple):
    """A name or an alias, and its entity."""

    text: str
    entity: str


class NameIndex:
    """Spellings by all words (`full`), without articles (`loose`), and by parts.

    Args:
        spellings: The names and aliases.

    Attributes:
        longest: The number of words of the longest spelling.
        symbols: The spellings without letters and digits, by text.
    """

    def __init__(self, spellings: Iterable[Spelling]) -> None:
        self.full: dict[str, list[Spelling]] = {}
        self.loose: dict[str, list[Spelling]] = {}
        self.symbols: dict[str, list[Spelling]] = {}
        self.longest = 0
        self._spellings = [*spellings]
        self._words: list[list[str]] = []
        self._loose_keys: list[str] = []
        for spelling in self._spellings:
            keys = _keys(spelling.text)
            self._words.append(keys)
            self._loose_keys.append(loose(keys))
            if not keys:
                self.symbols.setdefault(spelling.text.strip(), []).append(spelling)
                continue
            self.longest = max(self.longest, len(keys))
            self.full.setdefault("".join(keys), []).append(spelling)
            self.loose.setdefault(self._loose_keys[-1], []).append(spelling)
            if ")" in spelling.text:
                key = loose(_keys(_without_year(spelling.text)))
                if key:
                    self.loose.setdefault(key, []).append(spelling)

    @functools.cached_property
    def segments(self) -> dict[str, list[Spelling]]:
        """The spellings by their parts between colons, dashes and slashes."""
        segments: dict[str, list[Spelling]] = {}
        for spelling in self._spellings:
            parts = _SEGMENTS.split(spelling.text)
            for part in parts if len(parts) > 1 else ():
                keys = _keys(part)
                if any(key not in ORDINARY for key in keys):
                    segments.setdefault(loose(keys), []).append(spelling)
        return segments

    @functools.cached_property
    def _parts(self) -> tuple[dict[str, set[int]], list[str]]:
        """The numbers of the spellings by word, and the words of each spelling."""
        by_word: dict[str, set[int]] = {}
        lines = []
        for number, (spelling, words) in enumerate(zip(self._spellings, self._words)):
            keys = numbered(words)
            if any(mark in spelling.text for mark in APOSTROPHES):
                keys += [word.owner for word in words_of(spelling.text)]
            lines.append(f" {' '.join(numbered(words))} ")
            for key in keys:
                by_word.setdefault(key, set()).add(number)
        return by_word, lines

    def has_word(self, key: str) -> bool:
        """Whether a name has the word."""
        return key in self._parts[0]

    def containing(
        self, words: Sequence[Word], in_order: bool = False
    ) -> list[Spelling]:
        """Returns the spellings with these words next to each other, or in any order.

        Words in another order match only if no spelling has this order and `in_order`
        is false. The last word may have a possessive ending.
        """
        by_word, lines = self._parts
        keys = numbered([word.key for word in words])
        sets = []
        for key, word in zip(keys, words):
            if word.content:
                numbers = by_word.get(key, set())
                if word is words[-1] and word.owner != word.key:
                    numbers = numbers | by_word.get(word.owner, set())
                sets.append(numbers)
        if not sets:
            return []
        common = sorted(set.intersection(*sets))
        ends = {keys[-1], words[-1].owner}
        phrases = [f" {' '.join([*keys[:-1], end])} " for end in sorted(ends)]
        ordered = [n for n in common if any(p in lines[n] for p in phrases)]
        if not ordered and (in_order or (len(sets) < 2 and len(words) > 1)):
            return []
        return [self._spellings[n] for n in ordered or common]

    # Misspelt names, by rapidfuzz

    @functools.cached_property
    def _by_length(self) -> dict[int, list[str]]:
        """The words of three letters and more, by length."""
        return _lengths(word for word in self._parts[0] if len(word) > 2)

    def corrections(self, key: str) -> list[tuple[str, int]]:
        """Returns the words of names near a word, with their distances, nearest first.

        A distance counts letters that are wrong, missing, doubled or swapped with the
        next one. It is at most 1, and 2 for long words.
        """
        if rapidfuzz is None or len(key) < 4 or not key.isalpha():
            return []
        most = 2 if len(key) >= _LONG else 1
        near: list[tuple[str, int]] = []
        for length in range(len(key) - most, len(key) + most + 1):
            near += _near(key, self._by_length.get(length, []), most)
        return sorted(near, key=lambda pair: pair[1])

    def misspelt(self, words: Sequence[Word]) -> tuple[list[Spelling], int]:
        """Returns the nearest spellings that share a word, and their distance."""
        if rapidfuzz is None:
            return [], 0
        by_word = self._parts[0]
        keys = [word.key for word in words]
        content = [word for word in words if word.content and len(word.key) > 2]
        numbers = set().union(*(by_word.get(word.key, ()) for word in content))
        written = {loose(keys), loose([*keys[:-1], words[-1].owner])}
        most = 2 if min(map(len, written)) >= _LONG_NAME else 1
        size = min(map(len, written)) - most, max(map(len, written)) + most
        candidates: dict[str, list[Spelling]] = {}
        for number in numbers:
            if size[0] <= len(self._loose_keys[number]) <= size[1]:
                key, spelling = self._loose_keys[number], self._spellings[number]
                if not _one_less(core(keys), core(self._words[number])):
                    candidates.setdefault(key, []).append(spelling)
        near = [
            (candidate, distance)
            for key in written
            for candidate, distance in _near(key, [*candidates], most)
            if re.findall(r"\d", key) == re.findall(r"\d", candidate)  # Rocky 3
        ]
        if not near:
            return [], 0
        least = min(distance for _, distance in near)
        best = {key for key, distance in near if distance == least}
        return [s for key in sorted(best) for s in candidates[key]], least

    @functools.cached_property
    def _loose_by_length(self) -> dict[int, list[str]]:
        return _lengths(self.loose)

    def nearest(self, words: Sequence[Word], count: int = 5) -> list[str]:
        """Returns the entities with names like these words, nearest first."""
        keys = [word.key for word in words]
        key = loose(keys)
        reach = max(2, len(key) // 4)
        lengths = range(len(key) - reach, len(key) + reach + 1)
        alike = [k for length in lengths for k in self._loose_by_length.get(length, ())]
        if rapidfuzz is not None:
            near = rapidfuzz.process.extract(
                key, alike, scorer=rapidfuzz.fuzz.ratio, score_cutoff=70, limit=count
            )
            near = [key for key, _, _ in near]
        else:  # slower, so that the first letter must be right
            alike = [k for k in alike if k[:1] == key[:1]]
            near = difflib.get_close_matches(key, alike, count, 0.7)
        spans = [
            loose(keys[i:j])
            for i in range(len(keys))
            for j in range(len(keys), i, -1)
            if any(word.content for word in words[i:j])
        ]
        inside = sorted((k for k in spans if k in self.loose), key=len, reverse=True)
        names = [s.entity for k in (*inside[:2], *near) for s in self.loose[k]]
        return [*dict.fromkeys(names)][:count]


def _lengths(keys: Iterable[str]) -> dict[int, list[str]]:
    by_length: dict[int, list[str]] = {}
    for key in keys:
        by_length.setdefault(len(key), []).append(key)
    return by_length


def closest(spellings: Iterable[Spelling], text: str, start: int) -> list[Spelling]:
    """Returns the spellings that are nearest to the text from `start` on.

    Equal case, accents and marks count, in this order of importance: marks, accents,
    case.
    """
    levels: dict[int, list[Spelling]] = {}
    for spelling in spellings:
        lead = len(spelling.text) - len(spelling.text.lstrip("¡¿$+#*.…-'\"([{ "))
        begin = max(start - lead, 0)
        written = text[begin : begin + len(spelling.text)]
        if written == spelling.text:
            level = 0
        elif written.casefold() == spelling.text.casefold():
            level = 1
        elif _bare(written) == _bare(spelling.text):
            level = 2
        else:
            level = 3
        levels.setdefault(level, []).append(spelling)
    best = levels[min(levels)]
    if min(levels) < 3:  # "Up!" also begins with "Up"
        longest = max(len(spelling.text) for spelling in best)
        best = [spelling for spelling in best if len(spelling.text) == longest]
    return best


def _bare(text: str) -> str:
    split = unicodedata.normalize("NFD", text.casefold())
    return "".join(c for c in split if not unicodedata.combining(c))


def _keys(text: str) -> list[str]:
    return [word.key for word in with_article_first(text, words_of(text))]


def _without_year(text: str) -> str:
    """Returns a name without a year in brackets at its end; empty if it has none."""
    start = text.rfind("(")
    whole = start > 0 and year_after(text, start) == len(text)
    return text[:start] if whole and fold(text[:start]) else ""


def _near(key: str, words: list[str], most: int) -> list[tuple[str, Any]]:
    matches = rapidfuzz.process.extract(
        key,
        words,
        scorer=rapidfuzz.distance.OSA.distance,
        score_cutoff=most,
        limit=None,
    )
    return [(word, distance) for word, distance, _ in matches]


def _one_less(a: list[str], b: list[str]) -> bool:
    """Whether one of two lists of words has a word more than the other one."""
    longer, shorter = sorted((a, b), key=len, reverse=True)
    joint = "".join(shorter)
    return any(
        "".join(longer[:i] + longer[i + 1 :]) == joint for i in range(len(longer))
    )
