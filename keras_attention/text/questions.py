"""The words of a question, and those that are a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from keras_attention.text.names import (
    APOSTROPHES,
    ARTICLES,
    FRAME_WORDS,
    QUESTION_WORDS,
    NameIndex,
    Spelling,
    Word,
    is_mixed,
    is_number,
    is_special,
    loose,
    numeral,
    with_article_first,
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
_PART_LETTERS = 6  # of a misspelt word that is a part of a name
_REACH = 3  # ordinary words between a name and a word that may be a part of it


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
    errors: int
    core: int
    owner: bool

    def holds(self, other: Match) -> bool:
        """Whether another match is a part of this one."""
        return self.start <= other.core and other.end <= self.end

    def apart(self, other: Match) -> bool:
        """Whether this and another match have no word in common."""
        return self.end <= other.start or other.end <= self.start


class Question:
    """A question without brackets, its words, and the names among them.

    Args:
        text: The question, in Unicode's form NFC.
        index: The names.
        prefer: The entities that have priority.

    Attributes:
        text: The question.
        words: Its words. Those with a capital letter count as content, if capital
            letters tell names from other words in this question.
        mixed: Whether capital letters do.
        capitals: Whether a capital letter or a digit marks each word as a part of a
            name.
        sentence: Whether only the first letter is a capital one. The writer knows
            capital letters, so "the birds" are not the film The Birds.
        matches: The whole names in the question that are in no longer one.
    """

    def __init__(self, text: str, index: NameIndex, prefer: frozenset[str]) -> None:
        self.text = text
        self.words = words_of(text)
        self._index = index
        self._prefer = prefer
        self.mixed = is_mixed(self.words)
        self.sentence = text[:1].isupper() and text[1:] == text[1:].lower()
        self.capitals = [self._is_capital(i, w) for i, w in enumerate(self.words)]
        for i, word in enumerate(self.words):
            word = word._replace(content=word.content or self.capitals[i])
            if text[word.end : word.end + 1] in ("", *".,;:?!"):  # owns nothing
                word = word._replace(owner=word.key, possessive=False)
            self.words[i] = word

    def _is_capital(self, i: int, word: Word) -> bool:
        stop = self.text[: word.start].rstrip()[-1:] in (".", "?", "!", ":")
        if not self.mixed or i == 0 or (stop and not word.content):
            return False
        if word.key == "i":  # I Know What You Did Last Summer
            return any(0 < w.start - word.end < 3 and w.capital for w in self.words)
        return word.capital

    def find(self) -> Match | None:
        """Returns the best match with all spellings that fit, or None."""
        matches = _maximal(self._matches(self.words))
        self.matches = matches
        matches = [self._unless_owner(m, matches) for m in matches]
        best = max(matches, key=self._rank, default=None)
        if best is None or best.strength < CONTENT:
            return self._weak(best)
        strays = self._joined(best, matches)
        if self.mixed and best.strength < MARKED:
            strays |= self._strays(best, matches)
        near = self.words[max(best.start - _REACH, 0) : best.end + _REACH]
        entities = {spelling.entity for spelling in best.spellings}
        number = all(word.key.isdecimal() for word in self.words[best.core : best.end])
        if self._prefer and not self._is_preferred(best) and not number:
            best = self._parts_instead(best)
        if not strays and sum(word.content for word in near) == best.content:
            return best
        close = [
            m
            for m in self._close_matches(best)
            if m.holds(best)
            and m.content > best.content
            and not entities.issuperset(spelling.entity for spelling in m.spellings)
        ]
        return self._joint(close) or (None if strays else best)

    def named_beside(self, match: Match) -> set[str]:
        """Returns the entities with other whole names in the question."""
        least = match.strength if self.mixed else CONTENT
        others = (m for m in self.matches if m.strength >= least and m.apart(match))
        return {spelling.entity for m in others for spelling in m.spellings}

    def _unless_owner(self, match: Match, others: Sequence[Match]) -> Match:
        """Weakens a name before one that it owns: "Hitchcock's Psycho"."""
        owned = match.owner and any(
            other.start == match.end
            and other.content
            and (other.strength == MARKED or self._is_preferred(other))
            for other in others
        )
        return match._replace(strength=CONTENT) if owned else match

    def _is_preferred(self, match: Match) -> bool:
        return any(spelling.entity in self._prefer for spelling in match.spellings)

    def _parts_instead(self, best: Match) -> Match:
        """Adds preferred entities without an article, or of which it is a part."""
        words = self.words[best.core : best.end]
        key = loose([word.key for word in words])
        whole = self._preferred(self._index.loose.get(key, ()))
        if whole:
            return best._replace(spellings=(*whole, *best.spellings), tier=LOOSE)
        parts = self._index.segments.get(key) or self._index.containing(words, True)
        parts = self._preferred(parts)
        if not parts or not any(word.content for word in words):
            return best
        return best._replace(spellings=(*parts, *best.spellings), tier=PART)

    def _preferred(self, spellings: Iterable[Spelling]) -> list[Spelling]:
        return [s for s in spellings if s.entity in self._prefer]

    def _weak(self, best: Match | None) -> Match | None:
        """Prefers misspelt names and parts of names to ordinary words."""
        content = sum(word.content for word in self.words)
        close = [
            m
            for m in self._close_matches()
            if m.strength == MARKED
            or (m.strength == CONTENT and (m.tier >= LOOSE or m.content == content))
        ]
        joint = self._joint(close)
        return best if joint is None and not content else joint

    def _rank(self, match: Match) -> tuple[float, ...]:
        preferred = self._is_preferred(match)
        letters = any(c.isalpha() for s in match.spellings for c in s.text)
        size = match.end - match.start
        return match.strength, preferred, letters, match.letters, match.tier, size

    def _matches(self, words: Sequence[Word], within: int = -1) -> Iterator[Match]:
        """Yields the matches of whole names; with `within`, those with that word."""
        index, keys = self._index, [word.key for word in words]
        short_keys = ["" if key in ARTICLES else numeral(key) for key in keys]
        for start in range(len(words) if within < 0 else within + 1):
            full = short = ""
            for last in range(start, min(start + index.longest + 1, len(words))):
                full += keys[last]
                short += short_keys[last]
                if last < within:
                    continue
                fulls, shorts = [full], [short]
                if is_special(keys, last):
                    span = with_article_first(self.text, [*words[start : last + 1]])
                    fulls = ["".join(word.key for word in span)]
                    shorts = [loose([word.key for word in span])]
                owner = words[last].owner
                if owner != keys[last]:
                    fulls.append(full[: -len(keys[last])] + owner)
                    shorts.append(loose([*keys[start:last], owner]))
                tier = FULL
                spellings = [s for key in fulls for s in index.full.get(key, ())]
                if not spellings:
                    tier = LOOSE
                    spellings = [s for key in shorts for s in index.loose.get(key, ())]
                yield from self._match(start, last + 1, spellings, tier)

    def _close_matches(self, around: Match | None = None) -> Iterator[Match]:
        """Yields the matches of parts of names and of misspelt names."""
        words, index = self.words, self._index
        yield from self._parts(words)
        for i, word in enumerate(words):
            keys = word.key, word.owner
            if not word.content or any(map(index.has_word, keys)):
                continue
            near = set().union(*map(index.corrections, keys))
            for key, wrong in sorted(near):
                changed = [*words]
                changed[i] = word._replace(key=key, owner=key)
                matches = [*self._matches(changed, i)]
                if len(key) >= _PART_LETTERS and word.key.isalpha():
                    matches += self._parts(changed, i)
                yield from (match._replace(errors=wrong) for match in matches)
        for start, end in self._spans():
            held = around is None or (start <= around.start and around.end <= end)
            if end - start > 1 and held:
                spellings, errors = index.misspelt(words[start:end])
                yield from self._match(start, end, spellings, LOOSE, errors)

    def _parts(self, words: Sequence[Word], within: int = -1) -> Iterator[Match]:
        """Yields the matches of parts of names; `within` is as in `_matches`."""
        for start, end in self._spans():
            if within < 0 or start <= within < end:
                span = words[start:end]
                key = loose([word.key for word in span])
                tier, spellings = SEGMENT, self._index.segments.get(key)
                if not spellings:
                    tier = PART
                    spellings = self._index.containing(span, in_order=within >= 0)
                yield from self._match(start, end, spellings, tier)

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Yields the spans that begin and end with content."""
        edges = [i for i, word in enumerate(self.words) if word.content]
        for start in edges:
            for last in edges:
                if 0 <= last - start <= self._index.longest:
                    yield start, last + 1

    def _match(
        self,
        start: int,
        end: int,
        spellings: Sequence[Spelling],
        tier: int,
        errors: int = 0,
    ) -> Iterator[Match]:
        """Yields the words from `start` to `end` as a match, if they may be a name."""
        strength = self._strength(start, end) if spellings else None
        core = start + (end - start > 1 and self.words[start].key in ARTICLES)
        is_name = tier == FULL or (tier == LOOSE and end - core > 1 and not errors)
        is_noun = self.sentence or (start and self.words[start - 1].key in ARTICLES)
        if strength is not None and (strength == MARKED or is_name or not is_noun):
            words = self.words[core:end]
            letters = sum(len(word.key) for word in words)
            counts = letters, sum(word.content for word in words), errors
            unique = tuple(dict.fromkeys(spellings))
            owner = words[-1].possessive
            yield Match(start, end, unique, tier, strength, *counts, core, owner)

    def _strength(self, start: int, end: int) -> int | None:
        """Returns how sure it is that words are a name; None if they cannot be one."""
        words = self.words[start:end]
        if all(word.key in ARTICLES for word in words):
            return None
        if self._is_marked(start, end):
            return MARKED
        if any(word.content for word in words):
            return CONTENT
        owners = {word.owner for word in words} - ARTICLES
        if owners <= QUESTION_WORDS:
            return None
        return FRAME if owners <= FRAME_WORDS | QUESTION_WORDS else ORDINARY

    def _is_marked(self, start: int, end: int) -> bool:
        first, last = self.words[start], self.words[end - 1]
        before = self.text[max(first.start - 1, 0) : first.start]
        after = self.text[last.end : last.end + 1] or last.text[-1]
        if before and before in QUOTES and (after in QUOTES or last.text[-1] in QUOTES):
            return True
        if last.possessive:
            return True
        if start == 0:
            titled = _TITLE_END.match(self.text, last.end) is not None
            return titled or (first.text[0].isupper() and any(self.capitals[:end]))
        if end - start > 1 and first.key in ARTICLES:
            return any(self.capitals[start : start + 2])
        return self.capitals[start]

    def _joint(self, matches: Iterable[Match]) -> Match | None:
        """Returns the best match, with the spellings of all that are as good."""
        ranked: dict[Match, tuple[float, ...]] = {}
        for m in matches:
            if not self._joined(m):
                rank = (m.strength, m.content, m.errors == 0)
                ranked[m] = (*rank, m.letters, m.tier >= LOOSE, -m.errors, m.tier)
        if not ranked:
            return None
        best = max(
            ranked,
            key=lambda m: (*ranked[m][:3], self._is_preferred(m), *ranked[m][3:]),
        )
        equal = [m for m in ranked if ranked[m] == ranked[best]]
        if best.strength < MARKED:  # which of several words is the name?
            equal += [m for m in ranked if m.apart(best) and m.content >= best.content]
        spellings = dict.fromkeys(spelling for m in equal for spelling in m.spellings)
        return best._replace(spellings=tuple(spellings))

    def _strays(self, best: Match, others: Sequence[Match] = ()) -> set[int]:
        """Returns the words with a capital letter that are a part of no match."""
        strong = [m for m in others if m.strength >= CONTENT and m.apart(best)]
        covered = {i for m in (best, *strong) for i in range(m.start, m.end)}
        ordinary = FRAME_WORDS | QUESTION_WORDS if best.tier >= LOOSE else ARTICLES
        strays = {
            i
            for i, word in enumerate(self.words)
            if self.capitals[i] and word.text[0].isupper() and word.key not in ordinary
        }
        first = self.words[0]  # each question begins with a capital letter
        if self.mixed and best.start == 1 and first.text[0].isupper() and first.content:
            strays |= {0} if self._index.has_word(first.key) else set()
        return strays - covered

    def _joined(self, best: Match, others: Sequence[Match] = ()) -> set[int]:
        """Returns the words next to a match that make it a part of another name.

        These are strays and, behind a match, numbers: Rocky is a part of "Rocky 2". The
        word "of", "and" or "the" may stand between, if a stray is no part of another
        match.
        """
        free = self._strays(best, others)
        near = self._strays(best) if self.mixed else free
        neighbours = set()
        before, behind = range(best.start)[::-1], range(best.end, len(self.words))
        for step, indices in ((-1, before), (1, behind)):
            for i in indices:
                left, right = (self.words[j] for j in sorted((i - step, i)))
                marks = self.text[left.end : right.start].strip(" -–" + APOSTROPHES)
                continues = step == 1 and (marks == ":" or right.key in _CONNECT)
                allowed = (
                    ("", ":", ",") if continues else ("", "."[: len(left.key) < 2])
                )
                if (left.possessive and best.tier >= LOOSE) or marks not in allowed:
                    break
                number = step == 1 and is_number(right.key)
                joins = i == indices[0] and self._continues(best, i)
                if number or joins or i in (near if i == indices[0] else free):
                    neighbours.add(i)
                    break
                if self.words[i].key not in _CONNECT:
                    break
        return neighbours

    def _continues(self, match: Match, i: int) -> bool:
        """Whether the word `i`, next to a match, may belong to its name in lower case.

        Next to a part of a name or a misspelt one, each word of a name may. Next to
        one word that is a whole name, a word may that has this place in another name
        of two words: "stephen mann" is not Stephen if there is a Michael Mann.
        """
        word = self.words[i]
        if self.mixed or not word.content:
            return False
        if match.tier < LOOSE or match.errors:
            return self._index.has_word(word.key)
        is_word = match.end - match.core == 1
        return is_word and self._index.is_edge(word.key, i >= match.end)

    def without(self, start: int, end: int) -> tuple[str, ...]:
        """Returns the words without a name of these characters and marks next to it."""
        end = year_after(self.text, end)
        while start and self._is_mark(start - 1):
            start -= 1
        while end < len(self.text) and self._is_mark(end):
            end += 1
        return (*tokenize(self.text[:start]), ENTITY, *tokenize(self.text[end:]))

    def _is_mark(self, index: int) -> bool:
        return not (self.text[index].isalnum() or self.text[index].isspace())

    def longest_run(self) -> list[Word]:
        """Returns the words that most likely are a name, for suggestions."""
        content = [word.content for word in self.words]
        use = self.capitals if any(self.capitals) else content
        runs: list[list[Word]] = [[]]
        for i, (word, used) in enumerate(zip(self.words, use)):
            between = word.key in _CONNECT and any(use[i + 1 : i + 3])
            if used or (runs[-1] and between):
                runs[-1].append(word)
            else:
                runs.append([])
        return max(runs, key=lambda run: sum(len(word.key) for word in run))


def _maximal(matches: Iterable[Match]) -> list[Match]:
    """Leaves out matches that are a part of others which are no weaker."""
    candidates = [*matches]
    return [
        m
        for m in candidates
        if not any(
            other.holds(m)
            and other.letters > m.letters
            and other.strength >= m.strength
            for other in candidates
        )
    ]
