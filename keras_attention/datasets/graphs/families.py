"""Random families, and the relations between their members by name.

A family is a graph: the nodes are people, and the edges are the eight basic relations
of `KINDS`. A couple has at most one son and one daughter, so each edge of a person
leads to one other person. Marriages are between a woman and a man.

Longer relations are sequences of basic relations, such as mother, mother, brother. The
sequences leave out detours: the husband of the mother is the father, and the sister of
the son is the daughter.

Shapes: N families, at most P people, K = 8 basic relations, S relations in a sequence.
"""

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from keras_attention.datasets.graphs.maps import LABELS, NONE, Graphs, sample_distinct
from keras_attention.datasets.ragged import Range, Seed, at_least_one, span

KINDS = ("mother", "father", "husband", "wife", "son", "daughter", "brother", "sister")
"""The basic relations. Their labels are 0 to 7."""

MOTHER, FATHER, HUSBAND, WIFE, SON, DAUGHTER, BROTHER, SISTER = range(len(KINDS))
_FEMALE = (MOTHER, WIFE, DAUGHTER, SISTER)
_UP, _SPOUSE, _DOWN, _SIDE = (
    (MOTHER, FATHER),
    (HUSBAND, WIFE),
    (SON, DAUGHTER),
    (BROTHER, SISTER),
)
# The basic relations that may follow one of a group without a detour.
_NEXT = {_UP: _UP + _SIDE, _SPOUSE: _UP + _SIDE, _DOWN: _DOWN + _SPOUSE}
_NEXT[_SIDE] = _DOWN + _SPOUSE
_LENGTHS = (2, 5)
_TOTAL = 400  # relations, without the basic ones
_FIRST = 10  # the label of the first of them
_WOMEN = (
    "Ada Alba Anouk Astrid Beryl Bettina Carla Celia Clio Dalia Dora Edith Elke Enid "
    "Fanny Flora Freda Greta Gwen Hazel Hedda Ida Ingrid Iris Jana Judith Karin Lena "
    "Linnea Lotte Mabel Maren Mira Nadia Nora Olga Petra Rhea Romy Signe Thea Ulla "
    "Vera Wanda Yara Zelda"
)
_MEN = (
    "Abel Anton Arvid Basil Bela Bruno Casper Clemens Cyril Diego Edgar Egon Emil Enzo "
    "Felix Franz Gideon Gustav Henrik Hugo Ivo Jasper Jonas Kaspar Kurt Levin Linus "
    "Magnus Marek Nils Olaf Oskar Otto Pavel Quentin Ralf Ruben Silas Stellan Theo "
    "Tilo Ulrich Viktor Wim Yorick Zeno"
)


class Families(NamedTuple):
    """Graphs of families.

    Attributes:
        graphs: N graphs with K = 8; edge k has the label k of `KINDS`.
        female: (N, P) bool, whether a person is a woman; False for missing people.
    """

    graphs: Graphs
    female: np.ndarray


def random_families(count: int, people: Range = (10, 16), seed: Seed = 0) -> Families:
    """Generates families.

    A family begins with one person. New relatives are added to random members until the
    family is large enough: the parents of a person, a spouse, or a child of a couple.

    Args:
        count: N, the number of families.
        people: P, a number or a (minimum, maximum) range, from 3 to 999. A family has
            at most one person more than sampled, since parents come together.
        seed: Seed for `numpy.random.default_rng`.

    Returns:
        `Families`. People have random labels from 0 to 999.

    Raises:
        ValueError: a size too small or too large, or a range with its minimum above its
            maximum.

    Example:
        ```python
        families = random_families(count=32, people=(10, 16), seed=1)
        families.graphs.nodes.shape  # (32, 17)
        ```
    """
    at_least_one(count=count)
    low, high = span(people, "people", least=3)
    if high >= LABELS:
        raise ValueError(
            f"`people` must be below {LABELS}, the number of labels. "
            f"Received: {people=}"
        )
    random = np.random.default_rng(seed)
    shape = (count, high + 1)
    ends = np.full((*shape, len(KINDS)), NONE, np.int16)
    female = np.zeros(shape, bool)
    sizes = np.zeros(count, int)
    for family, size in enumerate(random.integers(low, high + 1, count)):
        sizes[family] = _grow(ends[family], female[family], int(size), random)
    present = np.arange(shape[1]) < sizes[:, None]
    labels = sample_distinct(random, shape, LABELS)
    nodes = np.where(present, labels, NONE).astype(np.int16)
    edges = np.where(ends != NONE, np.arange(len(KINDS)), NONE).astype(np.int16)
    return Families(Graphs(nodes, edges, ends), female)


def _grow(
    ends: np.ndarray, female: np.ndarray, size: int, random: np.random.Generator
) -> int:
    """Fills in a family of `size` or `size` + 1 people, and returns their number."""
    female[0] = random.random() < 0.5
    number = 1
    while number < size:
        person = int(random.integers(number))
        spouse = int(ends[person].take(_SPOUSE).max())
        choice = random.integers(3)
        if choice == 0 and ends[person, MOTHER] == NONE:
            mother, father = number, number + 1
            female[mother] = True
            ends[mother, HUSBAND], ends[father, WIFE] = father, mother
            _add_child(ends, female, mother, father, person)
            number += 2
        elif choice == 1 and spouse == NONE:
            female[number] = not female[person]
            ends[person, WIFE if female[number] else HUSBAND] = number
            ends[number, WIFE if female[person] else HUSBAND] = person
            number += 1
        elif choice == 2 and spouse != NONE:
            free = [kind for kind in _DOWN if ends[person, kind] == NONE]
            if free:
                female[number] = random.choice(free) == DAUGHTER
                couple = (person, spouse) if female[person] else (spouse, person)
                _add_child(ends, female, *couple, number)
                number += 1
    return number


def _add_child(
    ends: np.ndarray, female: np.ndarray, mother: int, father: int, child: int
) -> None:
    """Joins a child to its parents, and to its brother or sister."""
    kind, other = (DAUGHTER, SON) if female[child] else (SON, DAUGHTER)
    ends[[mother, father], kind] = child
    ends[child, [MOTHER, FATHER]] = mother, father
    sibling = ends[mother, other]
    if sibling != NONE:
        ends[sibling, SISTER if female[child] else BROTHER] = child
        ends[child, BROTHER if female[child] else SISTER] = sibling


@functools.cache
def kinship() -> Mapping[int, tuple[int, ...]]:
    """Returns the basic relations of each relation, by its label; read-only.

    The labels 0 to 7 are the basic relations. The labels 10 to 409 are relations of two
    to five basic relations without detours: all of two and of three, and a random
    selection, always the same, of the longer ones, as many of four as of five. Within a
    length, the labels follow the order of the sequences.
    """
    paths_of: dict[int, tuple[int, ...]] = {kind: (kind,) for kind in range(len(KINDS))}
    paths = [*paths_of.values()]
    random = np.random.default_rng(2016)
    label = _FIRST
    for length in range(_LENGTHS[0], _LENGTHS[1] + 1):
        paths = sorted((*path, kind) for path in paths for kind in _onward(path[-1]))
        left, lengths = _FIRST + _TOTAL - label, _LENGTHS[1] + 1 - length
        size = len(paths) if length <= 3 else left // lengths
        for number in sorted(random.permutation(len(paths))[:size]):
            paths_of[label] = paths[number]
            label += 1
    return MappingProxyType(paths_of)


def _onward(kind: int) -> tuple[int, ...]:
    """Returns the basic relations that may follow. A woman has no wife."""
    group = next(group for group in _NEXT if kind in group)
    spouse = HUSBAND if kind in _FEMALE else WIFE
    return tuple(k for k in _NEXT[group] if k not in _SPOUSE or k == spouse)


def relation_name(relation: int | Sequence[int] | np.ndarray) -> str:
    """Returns the English name of a relation, such as "maternal great uncle".

    Several relations may have the same name: a maternal great uncle is a brother of a
    grandmother or of a grandfather.

    Args:
        relation: The label of a relation of `kinship`, or its basic relations: their
            indices in `KINDS`.

    Returns:
        A kinship term, or several: "mother's great aunt's son".

    Raises:
        ValueError: an unknown label, no basic relation, or an unknown one.

    Example:
        ```python
        # The brother of the father of the mother.
        relation_name((0, 1, 6))  # "maternal great uncle"
        ```
    """
    if isinstance(relation, (Sequence, np.ndarray)):
        path = tuple(relation)
    else:
        path = kinship().get(relation, ())
    if not path or not all(kind in range(len(KINDS)) for kind in path):
        raise ValueError(
            "`relation` must be a label of `kinship`, or a sequence of basic relations "
            f"from 0 to {len(KINDS) - 1}. Received: {relation=}"
        )
    words = []
    while path:
        term, size = next(
            (term, size)
            for size in range(len(path), 0, -1)
            if (term := _term(path[:size])) is not None
        )
        words.append(term)
        path = path[size:]
    return "'s ".join(words)


def _term(path: tuple[int, ...]) -> str | None:
    """Returns the kinship term of basic relations, or None."""
    last, length, woman = path[-1], len(path), path[-1] in _FEMALE
    if length == 1:
        return KINDS[last]
    groups = [next(group for group in _NEXT if kind in group) for kind in path]
    side = "maternal" if path[0] == MOTHER else "paternal"
    if groups == [_UP] * length:
        great = "great " * (length - 2)
        return f"{side} {great}grand{'mother' if woman else 'father'}"
    if groups == [_UP] * (length - 1) + [_SIDE]:
        return f"{side} {'great ' * (length - 2)}{'aunt' if woman else 'uncle'}"
    if groups == [_UP, _SIDE, _DOWN]:
        return f"{side} cousin"
    if groups == [_DOWN] * length:
        return f"{'great ' * (length - 2)}grand{KINDS[last]}"
    if groups == [_SIDE] + [_DOWN] * (length - 1):
        return f"{'great ' * (length - 2)}{'niece' if woman else 'nephew'}"
    by_marriage = {
        (_SPOUSE, _UP): "mother" if woman else "father",
        (_SPOUSE, _SIDE): "sister" if woman else "brother",
        (_SIDE, _SPOUSE): "sister" if woman else "brother",
        (_DOWN, _SPOUSE): "daughter" if woman else "son",
    }
    in_law = by_marriage.get((groups[0], groups[-1])) if length == 2 else None
    return None if in_law is None else f"{in_law}-in-law"


def given_names(families: Families, family: int, seed: Seed = 0) -> dict[int, str]:
    """Returns a made-up given name for each member of a family, by label.

    Args:
        families: The families.
        family: The index of one of them.
        seed: Seed for `numpy.random.default_rng`.

    Raises:
        ValueError: more women or men than names.
    """
    random = np.random.default_rng(seed)
    nodes = families.graphs.nodes[family]
    given_name: dict[int, str] = {}
    for text, is_one in ((_WOMEN, True), (_MEN, False)):
        names = text.split()
        labels = nodes[(nodes != NONE) & (families.female[family] == is_one)]
        if len(labels) > len(names):
            raise ValueError(
                f"`family` must have at most {len(names)} women and as many men. "
                f"Received: {len(labels)}"
            )
        chosen = random.permutation(names)[: len(labels)].tolist()
        given_name |= dict(zip(labels.tolist(), chosen, strict=True))
    return given_name
