"""Finds the words of a question that are a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from keras_attention.datasets.babi import tokenize
from keras_attention.datasets.triples.names import NameIndex, Spelling
from keras_attention.datasets.triples.spelling import (
    APOSTROPHES,
    ARTICLES,
    FRAME_WORDS,
    QUESTION_WORDS,
    Word,
    is_mixed,
    is_number,
    loose,
    with_article_first,
    words_of,
    year_after,
)

ENTITY = "<entity>"  # replaces the entity's name in a question's words
QUOTES = "\"'“”„«»‘’"
# How sure it is that words are meant as a name.
MARKED, CONTENT, ORDINARY, FRAME = 3, 2, 1, 0
# How the words match a name.
FULL, LOOSE, SEGMENT, PART = 3, 2, 1, 0

# What stands behind a name at the start of a question: Up: who directed it?
_TITLE_END = re.compile(r"[?!.]*\s*[:–—]|\s+-\s")
_CONNECT = frozenset(("of", "and", "the", "de", "la", "part", "vol", "volume"))
_PART_LETTERS = 6  # of a misspelt word that is a part of a name
_REACH = 3  # ordinary words between a name and a word that may be a part of it


class Match(NamedTuple):
    """Words that match names.

    Attributes:
        start: The index of the first word.
        end: The index after the last word.
        found: The spellings that match.
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
    found: tuple[Spelling, ...]
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
        self.words = [
            word._replace(content=word.content or self.capital(i, word))
            for i, word in enumerate(words)
        ]

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
        rest = {word.owner for word in words} - ARTICLES
        if rest <= QUESTION_WORDS:
            return None
        return FRAME if rest <= FRAME_WORDS | QUESTION_WORDS else ORDINARY

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
        found: Iterable[Spelling],
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
        found = tuple(dict.fromkeys(found))
        owner = words[-1].possessive
        counts = letters, content, errors
        return Match(start, end, found, tier, strength, *counts, core, owner)

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
        inside = self.words[best.start : best.end]
        found = {i for i, w in free if w.text[0].isupper() and self.capital(i, w)}
        if not self.mixed or any(w.content and w.text[0].islower() for w in inside):
            found |= {i for i, w in free if w.content and index.has_word(w.key)}
        ordinary = FRAME_WORDS | QUESTION_WORDS
        return {i for i in found if self.words[i].key not in ordinary}

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
        found = set()
        for step, edge in ((-1, best.start), (1, best.end - 1)):
            i, last = edge + step, edge
            while 0 <= i < len(self.words):
                left, right = sorted((i, last))
                words = self.words[left], self.words[right]
                gap = self.text[words[0].end : words[1].start]
                marks = gap.strip(" -–" + APOSTROPHES)
                more = step == 1 and (marks == ":" or words[1].key in _CONNECT)
                if words[0].possessive or (
                    marks and not (more and marks in (":", ","))
                ):
                    break
                number = step == 1 and is_number(self.words[i].key)
                if number or i in (near if abs(i - edge) == 1 else free):
                    found.add(i)
                    break
                if self.words[i].key not in _CONNECT:
                    break
                i, last = i + step, i
        return found

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


def find(question: Question, index: NameIndex, prefer: frozenset[str]) -> Match | None:
    """Returns the best match of a question with all spellings that fit, or None."""
    matches = _maximal(_matches(question, question.words, index))
    matches = [_unless_owner(m, matches, prefer) for m in matches]
    best = max(matches, key=lambda m: _rank(m, prefer), default=None)
    if best is None or best.strength < CONTENT:
        return _weak(question, index, best, prefer)
    joined = question.joined(best, index, matches)
    strays = joined
    if question.mixed and best.strength < MARKED:
        strays = joined | question.strays(best, index, matches)
    reach = range(max(best.start - _REACH, 0), best.end + _REACH)
    rest = [w for i, w in enumerate(question.words) if i in reach and w.content]
    entities = {spelling.entity for spelling in best.found}
    number = all(word.key.isdecimal() for word in question.words[best.core : best.end])
    if prefer and not entities & prefer and not number:
        best = _parts_instead(question, index, best, prefer)
    if not strays and len(rest) == best.content:
        return best
    close = [
        m
        for m in _close_matches(question, index, None if strays else best)
        if (
            not entities.issuperset(spelling.entity for spelling in m.found)
            and (m.holds(best) and m.content > best.content)
        )
        or (best.strength < MARKED and strays & {*range(m.start, m.end)})
    ]
    return _joint(question, index, close, prefer) or (None if strays else best)


def _unless_owner(
    match: Match, others: Sequence[Match], prefer: frozenset[str]
) -> Match:
    """Weakens a name before one that it owns: "Hitchcock's Psycho"."""
    owned = any(
        other.start == match.end
        and match.owner
        and (other.strength == MARKED or _preferred(other, prefer))
        and other.content
        for other in others
    )
    return match._replace(strength=CONTENT) if owned else match


def _preferred(match: Match, prefer: frozenset[str]) -> bool:
    return any(spelling.entity in prefer for spelling in match.found)


def _parts_instead(
    question: Question, index: NameIndex, best: Match, prefer: frozenset[str]
) -> Match:
    """Adds preferred entities of which a match is a part."""
    words = question.words[best.core : best.end]
    parts = index.segments.get(loose([word.key for word in words]), [])
    parts = [s for s in parts or index.containing(words, True) if s.entity in prefer]
    if not parts or not any(word.content for word in words):
        return best
    return best._replace(found=(*parts, *best.found), tier=PART)


def _weak(
    question: Question, index: NameIndex, best: Match | None, prefer: frozenset[str]
) -> Match | None:
    """Prefers misspelt names and parts of names to ordinary words."""
    content = sum(word.content for word in question.words)
    close = [
        m
        for m in _close_matches(question, index)
        if m.strength == MARKED
        or (m.strength == CONTENT and (m.tier >= LOOSE or m.content == content))
    ]
    found = _joint(question, index, close, prefer)
    return best if found is None and not content else found


def _rank(match: Match, prefer: frozenset[str]) -> tuple[float, ...]:
    preferred = _preferred(match, prefer)
    letters = any(c.isalpha() for spelling in match.found for c in spelling.text)
    size = match.end - match.start
    return match.strength, preferred, letters, match.letters, match.tier, size


def _maximal(matches: Iterable[Match]) -> list[Match]:
    """Leaves out matches that are a part of others which are no weaker."""
    found = [*matches]
    return [
        m
        for m in found
        if not any(
            other.holds(m)
            and other.letters > m.letters
            and other.strength >= m.strength
            for other in found
        )
    ]


def _matches(
    question: Question, words: Sequence[Word], index: NameIndex, within: int = -1
) -> Iterator[Match]:
    """Yields the matches of whole names; if `within` is given, those with that word."""
    for start in range(len(words) if within < 0 else within + 1):
        for end in range(max(start, within) + 1, len(words) + 1):
            if end - start > index.longest + 1:
                break
            span = with_article_first(question.text, list(words[start:end]))
            keys = [word.key for word in span]
            ends = dict.fromkeys((span[-1].key, span[-1].owner))
            found: list[Spelling] = []
            tier = FULL
            for end_key in ends:
                found += index.full.get("".join([*keys[:-1], end_key]), [])
            if not found:
                tier = LOOSE
                for end_key in ends:
                    found += index.loose.get(loose([*keys[:-1], end_key]), [])
            match = question.match(start, end, found, tier) if found else None
            if match:
                yield match


def _close_matches(
    question: Question, index: NameIndex, around: Match | None = None
) -> Iterator[Match]:
    """Yields the matches of parts of names and of misspelt names."""
    words = question.words
    yield from _parts(question, words, index)
    for i, word in enumerate(words):
        if not word.content or index.has_word(word.key) or index.has_word(word.owner):
            continue
        near = {k for k in (word.key, word.owner) for k in index.corrections(k)}
        for key, errors in near:
            changed = [*words]
            changed[i] = word._replace(key=key, owner=key)
            for match in _matches(question, changed, index, i):
                yield match._replace(errors=errors)
            if len(key) >= _PART_LETTERS and word.key.isalpha():
                for match in _parts(question, changed, index, i, in_order=True):
                    yield match._replace(errors=errors)
    for start, end in _spans(words, index):
        held = around is None or (start <= around.start and around.end <= end)
        if end - start > 1 and held:
            found, errors = index.misspelt(words[start:end])
            match = question.match(start, end, found, LOOSE, errors)
            if found and match:
                yield match


def _parts(
    question: Question,
    words: Sequence[Word],
    index: NameIndex,
    within: int = -1,
    in_order: bool = False,
) -> Iterator[Match]:
    for start, end in _spans(words, index):
        if within >= 0 and not start <= within < end:
            continue
        found = index.segments.get(loose([word.key for word in words[start:end]]), [])
        tier = SEGMENT if found else PART
        found = found or index.containing(words[start:end], in_order)
        match = question.match(start, end, found, tier)
        if found and match:
            yield match


def _spans(words: Sequence[Word], index: NameIndex) -> Iterator[tuple[int, int]]:
    """Yields the spans that begin and end with content."""
    edges = [i for i, word in enumerate(words) if word.content]
    for start in edges:
        for last in edges:
            if 0 <= last - start < index.longest + 1:
                yield start, last + 1


def _joint(
    question: Question,
    index: NameIndex,
    matches: Iterable[Match],
    prefer: frozenset[str],
) -> Match | None:
    """Returns the best of close matches with the spellings of all that are as good."""
    ranked = {}
    for m in matches:
        preferred = _preferred(m, prefer)
        rank = (m.strength, m.content, m.errors == 0, preferred, m.letters)
        if not question.joined(m, index):
            ranked[m] = (*rank, m.tier >= LOOSE, -m.errors, m.tier)
    if not ranked:
        return None
    best = max(ranked, key=lambda m: ranked[m])
    equal = [m for m in ranked if ranked[m] == ranked[best]]
    if best.strength < MARKED:  # which of several words is the name?
        equal += [m for m in ranked if m.apart(best) and m.content >= best.content]
    found = dict.fromkeys(spelling for m in equal for spelling in m.found)
    return best._replace(found=tuple(found))
