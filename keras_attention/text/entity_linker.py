"""Finds the entity that a question is about."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from keras_attention.text.names import NameIndex, Spelling, Word, closest, words_of
from keras_attention.text.questions import (
    CONTENT,
    ENTITY,
    LOOSE,
    QUOTES,
    Match,
    Question,
)
from keras_attention.text.words import tokenize

_BRACKETS = re.compile(r"\[([^\[\]]+)\]")
_SHOWN = 8  # candidates in a message


class UnknownEntityError(ValueError):
    """A question names no known entity.

    Attributes:
        candidates: The entities with the nearest names; may be empty.
    """

    def __init__(self, message: str = "", candidates: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.candidates = tuple(candidates)


class AmbiguousEntityError(UnknownEntityError):
    """A question may be about several entities.

    Attributes:
        candidates: These entities, sorted.
    """


class Link(NamedTuple):
    """The output of `EntityLinker.link`.

    Attributes:
        entity: The entity's name.
        words: The question's words in lower case, with `"<entity>"` in place of the
            entity.
        by: `"brackets"` if the question marks its entity; `"name"` if it has the name,
            perhaps without its article or with other numerals, marks or accents;
            `"alias"`; `"part"` if it has a part of the name; or `"spelling"` if the
            name is misspelt.
        others: Other entities that the question names, or that have the same words in
            their names, sorted; empty if brackets mark the entity.
    """

    entity: str
    words: tuple[str, ...]
    by: str
    others: tuple[str, ...] = ()


class EntityLinker:
    """Finds the entity that a question is about.

    Brackets, as in MetaQA, reveal the entity; its name may itself have brackets, as in
    "who directed [[REC]]". Otherwise, the linker searches for names in the question.
    Case, accents, hyphens, marks, possessive endings, the article at the start of a
    name, a year in brackets, and the way in which numerals are written do not matter,
    but decide between names that are otherwise equal.

    - Names that a capital letter, quotation marks or a possessive ending mark have
      priority, then names with more letters. Ordinary words of questions, such as
      "who", "it" or "actors", are names only if they are marked, or if the question
      has no other words that may be a name.
    - A part of a name is enough if only one entity has these words in its name.
    - Words that are misspelt by a letter, or two in long words, are corrected if
      rapidfuzz is installed (`pip install "keras-attention-family[linking]"`).
    - If several entities fit equally well, `link` raises an `AmbiguousEntityError`. If
      none fits, it raises an `UnknownEntityError`. Both list candidates.

    Args:
        entities: The names of all entities, as in `KnowledgeBase.entities`.
        aliases: Other names: a mapping from each to its entity, or to several entities.
        prefer: Entities that the questions are about, for example the films of a
            knowledge base of films. Where several entities fit, these have priority.

    Raises:
        ValueError: `entities` is one string; an alias is empty, or stands for an
            unknown entity; `prefer` has an unknown entity.

    Example:
        ```python
        linker = EntityLinker(["Heat", "Michael Mann"], {"de Niro's heist": "Heat"})
        linker.link("who directed [Heat]")
        # Link("Heat", ("who", "directed", "<entity>"), "brackets", ())
        linker.link("What is heat's genre?").entity  # "Heat"
        linker.link("what did Mann direct").by  # "part"
        ```
    """

    def __init__(
        self,
        entities: Iterable[str],
        aliases: Mapping[str, str | Iterable[str]] | None = None,
        prefer: Iterable[str] = (),
    ) -> None:
        if isinstance(entities, str):
            raise ValueError(
                "`entities` must hold names, not be one name. Received: "
                f"entities={entities!r}"
            )
        self._known = set(entities)
        self._prefer = frozenset([prefer] if isinstance(prefer, str) else prefer)
        unknown = sorted(self._prefer - self._known)
        if unknown:
            raise ValueError(
                "`prefer` must hold entities that `entities` has. "
                f"Received: prefer with {unknown[0]!r}"
            )
        spellings = [Spelling(name, name) for name in sorted(self._known)]
        for alias, targets in (aliases or {}).items():
            targets = [targets] if isinstance(targets, str) else list(targets)
            if not alias.strip() or not targets or not self._known.issuperset(targets):
                raise ValueError(
                    "`aliases` must map names to entities that `entities` has. "
                    f"Received: aliases={{{alias!r}: {targets!r}}}"
                )
            spellings += [Spelling(alias, target) for target in targets]
        self._index = NameIndex(spellings)

    def link(self, text: str) -> Link:
        """Finds the entity of a question.

        Args:
            text: The question.

        Returns:
            `Link`.

        Raises:
            AmbiguousEntityError: The question fits several entities equally well.
            UnknownEntityError: The name in brackets is unknown, the question has
                several pairs of brackets, or it has neither brackets nor a known name.
        """
        link = self._with_brackets(text)
        if link is not None:
            return link
        marked = _BRACKETS.findall(text)
        if not marked:
            return self._by_name(unicodedata.normalize("NFC", text))
        if len(marked) > 1:
            raise UnknownEntityError(
                "A question may have one entity in brackets. "
                f"Received: {len(marked)} in {text!r}"
            )
        name = marked[0].strip()
        if name not in self._known:
            raise self._unknown(
                f"The entity in brackets is not in the knowledge base: {name!r}.",
                text,
                words_of(name),
            )
        before, after = _BRACKETS.split(text)[::2]
        return Link(name, (*tokenize(before), ENTITY, *tokenize(after)), "brackets")

    def _with_brackets(self, text: str) -> Link | None:
        """Links the name between the first "[" and the last "]".

        The name itself may have brackets. They need no outer pair if they mark no other
        entity: "[REC]" is the film "REC" if there is one, and otherwise "[REC]".
        """
        start, end = text.find("["), text.rfind("]") + 1
        if start < 0 or end <= start:
            return None
        name, whole = text[start + 1 : end - 1].strip(), text[start:end]
        if name not in self._known:
            if whole not in self._known:
                return None
            # The text may have a longer name, such as "[REC] 2".
            longer = [n for n in self._known if whole in n and n in text]
            name = max(longer, key=len)
            start = text.index(name)
            end = start + len(name)
        words = (*tokenize(text[:start]), ENTITY, *tokenize(text[end:]))
        return Link(name, words, "brackets")

    def _by_name(self, text: str) -> Link:
        question = Question(text, self._index, self._prefer)
        match = question.find()
        if match is None or match.strength < CONTENT:
            link = self._symbol(question)
            if link is not None:
                return link
        if match is None:
            raise self._unknown(
                "The question holds no name of the knowledge base's entities; put the "
                "entity in brackets, spelt as there.",
                text,
                question.longest_run(),
            )
        spellings = self._fitting(match, question)
        entity = _only_entity(spellings, text)
        others = {s.entity for s in match.spellings} | question.named_beside(match)
        by = "name" if spellings[0].text == entity else "alias"
        if match.errors or match.tier < LOOSE:
            by = "spelling" if match.errors else "part"
        first, last = question.words[match.start], question.words[match.end - 1]
        words = question.without(first.start, last.end)
        return Link(entity, words, by, tuple(sorted(others - {entity})))

    def _fitting(self, match: Match, question: Question) -> Sequence[Spelling]:
        """Selects the spellings nearest to the question, and preferred entities."""
        words = question.words[match.start : match.end]
        start = words[0].start
        near: Sequence[Spelling] = match.spellings
        whole = match.tier >= LOOSE and not match.errors
        if whole:
            near = closest(near, question.text, start)
        upper = any(word.text != word.text.lower() for word in words)
        exact = upper and question.text.startswith(near[0].text, start)
        among = near if exact else match.spellings
        preferred = [s for s in among if s.entity in self._prefer]
        if whole and preferred:
            return closest(preferred, question.text, start)
        return preferred or near

    def _symbol(self, question: Question) -> Link | None:
        """Links a name without letters and digits, such as "$"."""
        for chunk in re.finditer(r"\S+", question.text):
            name = chunk[0].strip(".?!,;:" + QUOTES)
            if name in self._index.symbols:
                entity = _only_entity(self._index.symbols[name], question.text)
                return Link(entity, question.without(*chunk.span()), "name")
        return None

    def _unknown(
        self, message: str, text: str, words: Sequence[Word]
    ) -> UnknownEntityError:
        near = self._index.nearest(words) if words else []
        if near:
            message += f" Did you mean {', '.join(map(repr, near))}?"
        return UnknownEntityError(f"{message} Received: {text!r}", near)


def _only_entity(spellings: Iterable[Spelling], text: str) -> str:
    """Returns the entity of the spellings, or raises an AmbiguousEntityError."""
    names = sorted({spelling.entity for spelling in spellings})
    if len(names) == 1:
        return names[0]
    shown = ", ".join(map(repr, names[:_SHOWN]))
    others = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    raise AmbiguousEntityError(
        f"The question may be about {shown}{others}; write the whole name, or put it "
        f"in brackets, spelt as in the knowledge base. Received: {text!r}",
        names,
    )
