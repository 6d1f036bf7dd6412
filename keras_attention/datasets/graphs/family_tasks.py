"""The family tree: who is the maternal great uncle of a person?

Shapes: N families, at most P people, S basic relations, T sequence steps.
"""

import functools
from typing import Any

import numpy as np

from keras_attention.datasets.graphs.encoding import Sequences
from keras_attention.datasets.graphs.families import (
    KINDS,
    Families,
    kinship,
    random_families,
)
from keras_attention.datasets.graphs.maps import NONE, Graphs
from keras_attention.datasets.graphs.tasks import until_all_fit
from keras_attention.datasets.graphs.walks import triple_of
from keras_attention.datasets.ragged import Range, Seed, at_least_one, span

_MOST = 5  # basic relations in a relation


def family_tree(
    count: int,
    people: Range = (10, 16),
    length: Range = (1, 5),
    queries: int = 3,
    planning: int = 10,
    seed: Seed = 0,
    steps: int | None = None,
) -> dict[str, Any]:
    """Family tree: name the relative of a person, given the label of the relation.

    This is `inference` on families. The description lists the basic relations of the
    family (`KINDS`) as triples (person, relation, relative) in random order. Each
    question then has (person, relation, _), `planning` steps without input, and one
    step to answer with the complete triple. The relations are those of `kinship`. The
    network never reads their definitions.

    Args:
        count: N, the number of examples, each with its own family.
        people: P, a number or a (minimum, maximum) range; see `random_families`.
        length: Number of basic relations in a relation, or a (minimum, maximum) range,
            from 1 to 5. The length is sampled among those that exist in the family,
            then a relation of this length, then a person who has such a relative.
        queries: Number of successive questions about the same family.
        planning: Number of steps between question and answer.
        seed: Seed for `numpy.random.default_rng`.
        steps: T. Defaults to the length of the longest sequence.

    Returns:
        The dictionary described in `keras_attention.datasets.graphs`; `"families"`, the
        `Families`; `"paths"`, (N, queries, 5, 3) int16, the triples of the basic
        relations that lead to each answer, padded with -1; and `"questions"`,
        (N, queries) int, the steps of the questions.

    Raises:
        ValueError: an invalid size or range, too few `steps`, or no relation of that
            length in such families.

    Example:
        ```python
        data = family_tree(count=32, people=(10, 16), length=(2, 5), seed=1)
        ```
    """
    low, high = span(length, "length")
    at_least_one(queries=queries)
    if high > _MOST:
        raise ValueError(f"`length` must be at most {_MOST}. Received: {length=}")
    if planning < 0:
        raise ValueError(f"`planning` must not be negative. Received: {planning=}")
    random = np.random.default_rng(seed)

    def ask(count: int) -> tuple[np.ndarray, ...]:
        graphs, female = random_families(count, people, random)
        return (*graphs, female, *_random_questions(graphs, low, high, queries, random))

    *fields, female, triples, paths, _ = until_all_fit(ask, count, "families", length)
    families = Families(Graphs(*fields), female)
    following = np.full(count, queries * (planning + 2))
    sequences = Sequences(families.graphs, random, following, steps)
    questions = sequences.ask(triples, planning)
    return sequences.arrays() | {
        "graphs": families.graphs,
        "families": families,
        "paths": paths,
        "questions": questions,
    }


@functools.cache
def _relations(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the relations of a length: labels (R,) and basic relations (R, S)."""
    table = {k: path for k, path in kinship().items() if len(path) == length}
    return np.array([*table]), np.array([*table.values()])


def _random_questions(
    graphs: Graphs, low: int, high: int, queries: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples triples (N, queries, 3), paths (N, queries, 5, 3), if there are any."""
    nodes, _, ends = graphs
    count, width = nodes.shape
    every = np.arange(count)
    # Rows of all families in one table. Row `width` of each stands for a missing
    # person, and leads to itself.
    rows_of = every[:, None] * (width + 1)
    leads = np.full((count, width + 1, len(KINDS)), width)
    leads[:, :width] = np.where(ends != NONE, ends, width)
    table = (leads + rows_of[..., None]).ravel()
    first = np.where(nodes != NONE, np.arange(width), width) + rows_of
    led = []  # per length, the relative by person and relation, N × P × relations
    for length in range(low, high + 1):
        here = first[..., None]  # (N, P, 1)
        for step in _relations(length)[1].T:
            here = table[here * len(KINDS) + step]
        here = here - rows_of[..., None]
        led.append(np.where(here < width, here, NONE))
    has = np.stack([(ends != NONE).any((1, 2)) for ends in led], 1)  # a row per family
    triples = np.full((count, queries, 3), NONE, np.int16)
    paths = np.full((count, queries, _MOST, 3), NONE, np.int16)
    for query in range(queries):
        size = np.where(has, random.random(has.shape), -1).argmax(1)
        for number, relatives in enumerate(led):
            rows = every[size == number]
            labels, path = _relations(low + number)
            related = relatives[rows] != NONE
            samples = random.random((len(rows), len(labels)), np.float32)
            relation = np.where(related.any(1), samples, -1).argmax(1)
            samples = random.random((len(rows), width), np.float32)
            can = related[np.arange(len(rows)), :, relation]
            person = np.where(can, samples, -1).argmax(1)
            triples[rows, query] = np.stack(
                [
                    nodes[rows, person],
                    labels[relation],
                    nodes[rows, relatives[rows, person, relation]],
                ],
                1,
            )
            paths[rows, query] = _walked(graphs.take(rows), person, path[relation])
    return triples, paths, np.logical_or.reduce(has, axis=1)


def _walked(graphs: Graphs, here: np.ndarray, path: np.ndarray) -> np.ndarray:
    """Returns the triples of following basic relations (N, S) from persons (N,)."""
    every = np.arange(len(here))
    triples = np.full((len(here), _MOST, 3), NONE, np.int16)
    for step, kind in enumerate(path.T):
        triples[:, step] = triple_of(graphs, here, kind)
        here = graphs.ends[every, here, kind]
    return triples
