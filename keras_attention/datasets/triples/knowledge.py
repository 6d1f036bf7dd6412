"""Knowledge bases of triples: file readers and facts around an entity."""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.datasets.files import read_text
from keras_attention.datasets.sizes import check_size
from keras_attention.datasets.triples.facts import Fact as Fact
from keras_attention.datasets.triples.ntriples import parse_ntriples
from keras_attention.datasets.triples.tables import parse_csv

INVERSE = "!"  # prefix of an inverse relation, from object to subject
RDF = (".ttl", ".rdf", ".owl", ".nq", ".trig", ".jsonld")  # formats that are not read


class Neighbourhood(NamedTuple):
    """The output of `KnowledgeBase.around`.

    Attributes:
        facts: Triples (key entity, relation, value entity) of indices into
            `KnowledgeBase.entities` and `KnowledgeBase.relations`.
        cut: Number of facts about reached entities that were left out.
    """

    facts: list[tuple[int, int, int]]
    cut: int


class KnowledgeBase:
    """Facts indexed by their entities, in both directions.

    A fact `subject | relation | object` gives two entries. The key (subject, relation)
    has the object as its value. The key (object, !relation) has the subject as its
    value.

    Args:
        facts: The facts; duplicates count once.

    Attributes:
        entities: The names of all entities, in order of first appearance.
        relations: The relation names by index: `""` for padding, the relations, and
            their inverses with a `!` prefix.

    Raises:
        ValueError: There are no facts, the name of a relation is empty, or it is also
            the name of an inverse relation.

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
        if "" in names:
            nameless = next(fact for fact in unique if fact.relation == "")
            raise ValueError(
                "Each of `facts` must have a relation with a name, since '' is the "
                f"padding. Received: {nameless}"
            )
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
        self._values: dict[int, dict[int, frozenset[int]]] = {}  # filled by `values`
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
        """Returns the index of an entity in `entities`.

        Raises:
            ValueError: The entity is unknown.
        """
        if entity not in self._index:
            raise ValueError(
                f"`entity` must be one of the knowledge base's {len(self.entities)} "
                f"entities, spelt as there. Received: entity={entity!r}"
            )
        return self._index[entity]

    def facts_about(self, entity: str) -> list[Fact]:
        """Returns all facts about an entity. The entity is the subject of each fact."""
        return [
            Fact(entity, self.relations[relation], self.entities[value])
            for relation, value in self._about[self.index(entity)]
        ]

    def pairs(self, index: int) -> list[tuple[int, int]]:
        """Returns (relation, value) of all facts about the entity with an index."""
        return self._about[index]

    def values(self, index: int) -> dict[int, frozenset[int]]:
        """Returns the values of each relation of the entity with an index."""
        if index not in self._values:
            values: dict[int, set[int]] = {}
            for relation, value in self._about[index]:
                values.setdefault(relation, set()).add(value)
            self._values[index] = {r: frozenset(v) for r, v in values.items()}
        return self._values[index]

    def inverse(self, relation: int) -> int:
        """Returns the index of the inverse of a relation."""
        half = len(self.relations) // 2
        return relation + half if relation <= half else relation - half

    def to_array(self) -> np.ndarray:
        """Returns all facts in both directions, int32 (F, 3).

        A row has the key entity, the relation and the value entity, as indices into
        `entities` and `relations`. The facts about an entity are adjacent, in the order
        of `facts_about`. A `HopReader` reads this array.
        """
        rows = [(e, *pair) for e, pairs in enumerate(self._about) for pair in pairs]
        return np.array(rows, np.int32)

    def around(self, entity: str, hops: int = 1, size: int = 64) -> Neighbourhood:
        """Returns the facts within a number of hops around an entity.

        This is the key hashing of a key-value memory. A fact is selected if its key
        entity is the question's entity or the value of a selected fact. Within a hop,
        the entities with the fewest facts come first, so very frequent entities, such
        as a year or a genre, are cut first. Facts that lead back to the question's
        entity are left out.

        Args:
            entity: The start entity.
            hops: Maximum number of facts per path.
            size: Maximum number of facts.

        Raises:
            ValueError: The entity is unknown, or a number is below 1.

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
                if room == 0:  # some entities have thousands of facts
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


def load(
    path: str | os.PathLike[str],
    separator: str | None = None,
    header: bool | None = None,
    language: str = "en",
) -> list[Fact]:
    r"""Reads a knowledge base from a plain or gzipped UTF-8 file.

    The name of the file gives its format; a last `.gz` is ignored:

    - `.csv`: a table, see `parse_csv`; `.tsv`: a table with tabs between the columns.
    - `.nt`: N-Triples, see `parse_ntriples`.
    - other names: one fact per line: subject, relation and object, joined by `|`.

    Args:
        path: The file.
        separator: The separator of the three fields, such as `"|"` or `"\t"`. If it is
            given, a table has this separator. Files that are no table are read line by
            line, without quotes.
        header: For tables: whether the first row names the columns; None to find out.
        language: For N-Triples: the preferred language of labels.

    Returns:
        A list of `Fact`, in the order of the lines.

    Raises:
        ValueError: A line is not a fact or not UTF-8; the message gives the file and
            the line. Or the file holds no fact, or is RDF of another format.
        DataNotFoundError: No such file.
        DamagedDataError: A gzipped file is truncated or altered.

    Example:
        ```python
        knowledge = KnowledgeBase(load("paintings.csv"))
        ```
    """
    suffix = Path(str(path).lower().removesuffix(".gz")).suffix
    if suffix in RDF:
        raise ValueError(
            "`path` must be a table, N-Triples or lines; other RDF must be converted "
            "to N-Triples (.nt) first, for example by rdflib's `rdfpipe -o nt`. "
            f"Received: path={str(path)!r}"
        )
    if suffix in (".csv", ".tsv"):
        separator = "\t" if suffix == ".tsv" and separator is None else separator
        facts = parse_csv(read_text(path), separator, header, str(path))
    elif suffix == ".nt" and separator is None:
        facts = parse_ntriples(read_text(path), language, str(path))
    else:
        separator = "|" if separator is None else separator
        facts = parse(read_text(path), separator, str(path))
    if not facts:
        raise ValueError(f"{path} holds no fact.")
    return facts


def parse(
    lines: str | Iterable[str], separator: str = "|", source: str = "<text>"
) -> list[Fact]:
    """Parses text with one fact per line; empty lines are skipped.

    Args:
        lines: The text, or its lines.
        separator: The separator of subject, relation and object.
        source: The name of the text in error messages, for example its file name.

    Raises:
        ValueError: The separator is empty, or a line is not three separated names; the
            message gives `source` and the line.

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
        lines = lines.removeprefix("\ufeff")  # a byte order mark
        lines = lines.split("\n")  # `splitlines` also splits inside some names
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
