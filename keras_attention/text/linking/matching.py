"""Finds the words of a question that are a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keras_attention.text.linking.mentions import (
    CONTENT,
    FULL,
    LOOSE,
    MARKED,
    PART,
    SEGMENT,
    Match,
    Question,
)
from keras_attention.text.linking.names import NameIndex
from keras_attention.text.linking.spelling import (
    ARTICLES,
    Word,
    is_special,
    loose,
    numeral,
    with_article_first,
)

_PART_LETTERS = 6  # of a misspelt word that is a part of a name
_REACH = 3  # ordinary words between a name and a word that may be a part of it


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
    near = [w for i, w in enumerate(question.words) if i in reach and w.content]
    entities = {spelling.entity for spelling in best.spellings}
    number = all(word.key.isdecimal() for word in question.words[best.core : best.end])
    if prefer and not entities & prefer and not number:
        best = _parts_instead(question, index, best, prefer)
    if not strays and len(near) == best.content:
        return best
    close = [
        m
        for m in _close_matches(question, index, None if strays else best)
        if (
            not entities.issuperset(spelling.entity for spelling in m.spellings)
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
    return any(spelling.entity in prefer for spelling in match.spellings)


def _parts_instead(
    question: Question, index: NameIndex, best: Match, prefer: frozenset[str]
) -> Match:
    """Adds preferred entities without an article, or of which a match is a part."""
    words = question.words[best.core : best.end]
    key = loose([word.key for word in words])
    whole = [s for s in index.loose.get(key, ()) if s.entity in prefer]
    if whole:
        return best._replace(spellings=(*whole, *best.spellings), tier=LOOSE)
    parts = index.segments.get(key, []) or index.containing(words, True)
    parts = [s for s in parts if s.entity in prefer]
    if not parts or not any(word.content for word in words):
        return best
    return best._replace(spellings=(*parts, *best.spellings), tier=PART)


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
    joint = _joint(question, index, close, prefer)
    return best if joint is None and not content else joint


def _rank(match: Match, prefer: frozenset[str]) -> tuple[float, ...]:
    preferred = _preferred(match, prefer)
    letters = any(c.isalpha() for spelling in match.spellings for c in spelling.text)
    size = match.end - match.start
    return match.strength, preferred, letters, match.letters, match.tier, size


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


def _matches(
    question: Question, words: Sequence[Word], index: NameIndex, within: int = -1
) -> Iterator[Match]:
    """Yields the matches of whole names; if `within` is given, those with that word."""
    keys = [word.key for word in words]
    digits = [numeral(key) for key in keys]
    for start in range(len(words) if within < 0 else within + 1):
        full = short = ""
        for last in range(start, min(start + index.longest + 1, len(words))):
            full += keys[last]
            short += digits[last] if keys[last] not in ARTICLES else ""
            if last < within:
                continue
            fulls, shorts = [full], [short]
            if is_special(keys, last):
                span = with_article_first(question.text, list(words[start : last + 1]))
                fulls = ["".join(word.key for word in span)]
                shorts = [loose([word.key for word in span])]
            owner = words[last].owner
            if owner != keys[last]:
                fulls.append(full[: -len(keys[last])] + owner)
                shorts.append(loose([*keys[start:last], owner]))
            tier, spellings = (
                FULL,
                [s for key in fulls for s in index.full.get(key, ())],
            )
            if not spellings:
                tier = LOOSE
                spellings = [s for key in shorts for s in index.loose.get(key, ())]
            match = (
                question.match(start, last + 1, spellings, tier) if spellings else None
            )
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
        near = {pair for k in (word.key, word.owner) for pair in index.corrections(k)}
        for key, wrong in sorted(near):
            changed = [*words]
            changed[i] = word._replace(key=key, owner=key)
            for match in _matches(question, changed, index, i):
                yield match._replace(errors=wrong)
            if len(key) >= _PART_LETTERS and word.key.isalpha():
                for match in _parts(question, changed, index, i, in_order=True):
                    yield match._replace(errors=wrong)
    for start, end in _spans(words, index):
        held = around is None or (start <= around.start and around.end <= end)
        if end - start > 1 and held:
            spellings, errors = index.misspelt(words[start:end])
            whole = question.match(start, end, spellings, LOOSE, errors)
            if spellings and whole:
                yield whole


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
        spellings = index.segments.get(
            loose([word.key for word in words[start:end]]), []
        )
        tier = SEGMENT if spellings else PART
        spellings = spellings or index.containing(words[start:end], in_order)
        match = question.match(start, end, spellings, tier)
        if spellings and match:
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
    ranked: dict[Match, tuple[float, ...]] = {}
    for m in matches:
        rank = (m.strength, m.content, m.errors == 0)
        if not question.joined(m, index):
            ranked[m] = (*rank, m.letters, m.tier >= LOOSE, -m.errors, m.tier)
    if not ranked:
        return None
    best = max(
        ranked, key=lambda m: (*ranked[m][:3], _preferred(m, prefer), *ranked[m][3:])
    )
    equal = [m for m in ranked if ranked[m] == ranked[best]]
    if best.strength < MARKED:  # which of several words is the name?
        equal += [m for m in ranked if m.apart(best) and m.content >= best.content]
    spellings = dict.fromkeys(spelling for m in equal for spelling in m.spellings)
    return best._replace(spellings=tuple(spellings))
