"""Knowledge bases of triples: reading them, and the facts around an entity."""

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from keras_attention.datasets import files

INVERSE = "!"  # before a relation's name: read from its object to its subject


class Fact(NamedTuple):
    """A triple, in the direction in which the file has it.

    Attributes:
        subject: The entity that the fact is about.
        relation: What holds between the two.
        object: The other entity.
    """

    subject: str
    relation: str
    object: str


class Neighbourhood(NamedTuple):
    """What `KnowledgeBase.around` returns.

    Attributes:
        facts: Triples (key entity, relation, value entity) of indices into
            `KnowledgeBase.entities` and `KnowledgeBase.relations`.
        cut: How many facts of the entities that were reached were left out.
    """

    facts: list[tuple[int, int, int]]
    cut: int


class KnowledgeBase:
    """Facts, found by the entities in them, in both directions.

    A fact `subject | relation | object` can be read from its subject, as the key
    (subject, relation) with the object as its value, and from its object, as the key
    (object, !relation) with the subject as its value.

    Args:
        facts: The facts; one that comes twice counts once.

    Attributes:
        entities: The names of all entities, in the order in which they come.
        relations: The names of the relations by index: `""` for padding, the
            relations, and their inverses with a `!` before the name.

    Raises:
        ValueError: No facts, or a relation whose name is another's inverse.

    Example:
        ```python
        knowledge = KnowledgeBase([Fact("Heat", "directed_by", "Michael Mann")])
        knowledge.relations  # ("", "directed_by", "!directed_by")
        knowledge.facts_about("Michael Mann")
        # [Fact("Michael Mann", "!directed_by", "Heat")]
        ```
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        unique = dict.fromkeys(Fact(*fact) for fact in facts)
        if not unique:
            raise ValueError("`facts` must hold at least one. Received: facts=[]")
        names = tuple(dict.fromkeys(fact.relation for fact in unique))
        inverses = tuple(INVERSE + name for name in names)
        clash = sorted(set(names) & set(inverses))
        if clash:
            raise ValueError(
                f"A relation may not be named as another's inverse, '{INVERSE}' and "
                f"its name. Received: relation={clash[0]!r}"
            )
        both = (name for fact in unique for name in (fact.subject, fact.object))
        self.entities: tuple[str, ...] = tuple(dict.fromkeys(both))
        self.relations: tuple[str, ...] = ("", *names, *inverses)
        self._index = {name: index for index, name in enumerate(self.entities)}
        self._about: list[list[tuple[int, int]]] = [[] for _ in self.entities]
        relation_index = {name: index for index, name in enumerate(names, 1)}
        for fact in unique:
            relation = relation_index[fact.relation]
            subject, value = self._index[fact.subject], self._index[fact.object]
            self._about[subject].append((relation, value))
            self._about[value].append((relation + len(names), subject))
        self._size = len(unique)

    def __len__(self) -> int:
        return self._size

    def __contains__(self, entity: str) -> bool:
        return entity in self._index

    def __repr__(self) -> str:
        return (
            f"<KnowledgeBase of {len(self)} facts about {len(self.entities)} entities>"
        )

    def index(self, entity: str) -> int:
        """An entity's place in `entities`.

        Raises:
            ValueError: There is no such entity.
        """
        if entity not in self._index:
            raise ValueError(
                f"`entity` must be one of the knowledge base's {len(self.entities)} "
                f"entities, spelt as there. Received: entity={entity!r}"
            )
        return self._index[entity]

    def facts_about(self, entity: str) -> list[Fact]:
        """The facts in which an entity occurs, read from it."""
        return [
            Fact(entity, self.relations[relation], self.entities[value])
            for relation, value in self._about[self.index(entity)]
        ]

    def around(self, entity: str, hops: int = 1, size: int = 64) -> Neighbourhood:
        """The facts about an entity, then those about the values of these, and so on.

        This is the key hashing of a key-value memory: a fact is picked if its key
        entity is the question's or was reached by a fact picked before. Within a hop,
        the entities with the fewest facts come first, so that those which occur
        nearly everywhere, such as a year or a genre, are the first to be cut. A fact
        that leads back from there to the question's own entity is left out.

        Args:
            entity: Where to begin.
            hops: How many facts a path may have.
            size: How many facts to pick at most.

        Returns:
            `Neighbourhood`.

        Raises:
            ValueError: There is no such entity, or a number below 1.

        Example:
            ```python
            facts, cut = knowledge.around("Heat", hops=2, size=128)
            ```
        """
        check_size("hops", hops)
        check_size("size", size)
        start = self.index(entity)
        back = Counter(value for _, value in self._about[start])
        picked: list[tuple[int, int, int]] = []
        cut = 0
        seen, edge = {start}, [start]
        for _ in range(hops):
            reached: list[int] = []
            for key in sorted(edge, key=lambda e: len(self._about[e])):
                room = size - len(picked)
                if room == 0:  # not even looked through: some have thousands
                    cut += len(self._about[key]) - back[key]
                    continue
                onward = self._about[key]
                if key != start:
                    onward = [fact for fact in onward if fact[1] != start]
                picked.extend((key, *fact) for fact in onward[:room])
                cut += max(len(onward) - room, 0)
                reached.extend(value for _, value in onward[:room])
            edge = [e for e in dict.fromkeys(reached) if e not in seen]
            seen.update(edge)
        return Neighbourhood(picked, cut)


def load(path: str | os.PathLike[str], separator: str = "|") -> list[Fact]:
    r"""Reads a knowledge base from a text file, which may be gzipped.

    Args:
        path: A UTF-8 file, a fact a line: subject, relation and object, with the
            separator between them.
        separator: What stands between the three, such as `"|"` or `"\t"`.

    Returns:
        A list of `Fact`, in the order of the lines.

    Raises:
        ValueError: A line that is not a fact, or not UTF-8; the message gives the
            file and the line.
        DataNotFoundError: No such file.
        DamagedDataError: A gzipped file is truncated or altered.

    Example:
        ```python
        knowledge = KnowledgeBase(load("kb.txt"))
        ```
    """
    return parse(read_lines(path), separator, str(path))


def parse(
    lines: str | Iterable[str], separator: str = "|", source: str = "<text>"
) -> list[Fact]:
    """Parses text of a fact a line; empty lines are passed over.

    Args:
        lines: The text, or its lines.
        separator: What stands between subject, relation and object.
        source: The name of the text in error messages, for example its file name.

    Returns:
        A list of `Fact`.

    Raises:
        ValueError: No separator, or a line that is not three names with separators
            between them; the message gives `source` and the line.

    Example:
        ```python
        parse("Heat|directed_by|Michael Mann")
        ```
    """
    if not separator:
        raise ValueError(
            f"`separator` must not be empty. Received: separator={separator!r}"
        )
    if isinstance(lines, str):
        lines = lines.split("\n")  # `splitlines` splits within some names, too
    facts = []
    for count, line in enumerate(lines, 1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(separator)]
        if len(fields) != 3 or not all(fields):
            raise ValueError(
                f"{source}, line {count}: a fact must be a subject, a relation and an "
                f"object with {separator!r} between them. Received: {line.strip()!r}"
            )
        facts.append(Fact(*fields))
    return facts


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a UTF-8 file, which may be gzipped.

    Raises:
        ValueError: The file is not UTF-8; the message gives the line.
        DataNotFoundError: No such file.
        DamagedDataError: A gzipped file is truncated or altered.
    """
    path = Path(path)
    if not path.is_file():
        raise files.DataNotFoundError(f"There is no file {path}.")
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise files.DamagedDataError(
                f"{path} is truncated or altered ({error}). Get it again."
            ) from error
    try:
        return content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: not UTF-8 text ({error}).") from error


def check_size(name: str, size: int) -> None:
    """Raises a ValueError unless a size is a whole number of at least 1."""
    if not isinstance(size, int) or size < 1:
        raise ValueError(
            f"`{name}` must be a whole number of at least 1. Received: {name}={size!r}"
        )
