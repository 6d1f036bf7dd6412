"""The three graph tasks: traversal, shortest path, inference.

Shapes: N graphs, at most P nodes, at most K outgoing edges per node, S path steps, T
sequence steps.
"""

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_attention.datasets.graphs.encoding import Sequences
from keras_attention.datasets.graphs.maps import NONE, Graphs, Network, random_graphs
from keras_attention.datasets.graphs.walks import distances, shortest, triple_of
from keras_attention.datasets.ragged import Range, Seed, at_least_one, span

_ROUNDS = 200  # attempts to sample graphs with a valid question
_SINGLE_EDGES = 10  # edge labels 0 to 9 of the inference task
_RELATIONS_PER_LENGTH = 100
_RELATION_LENGTHS = (2, 5)


class Lesson(NamedTuple):
    """The ranges that set the difficulty of a task.

    Attributes:
        nodes: Number of nodes per graph.
        degree: Number of edges that leave a node.
        length: Number of edges of a path or a relation.
    """

    nodes: tuple[int, int]
    degree: tuple[int, int]
    length: tuple[int, int]


def traversal(
    count: int,
    nodes: Range = (3, 10),
    degree: Range = (2, 4),
    length: Range = (1, 3),
    network: Network | None = None,
    seed: Seed = 0,
    steps: int | None = None,
) -> dict[str, Any]:
    """Traversal: follow edges by label from a node and write each edge's triple.

    A sequence has three phases. The description lists the graph's triples in random
    order. The question is `(source, edge, _)`, then `(_, edge, _)` for each further
    edge. During the answer, the network reads no input and writes the complete triples
    of the walk. The walk is random.

    Args:
        count: N, the number of examples, each with its own graph.
        nodes: P, a number or a (minimum, maximum) range.
        degree: Number of edges that leave a node, or a (minimum, maximum) range.
        length: Number of edges to follow, or a (minimum, maximum) range.
        network: A network to use instead of random graphs, with new labels for each
            example.
        seed: Seed for `numpy.random.default_rng`.
        steps: T. Defaults to the length of the longest sequence.

    Returns:
        The dictionary described in `keras_attention.datasets.graphs`.

    Raises:
        ValueError: a size too small, a range with its minimum above its maximum, more
            nodes than labels, too few `steps`, or no walk of that length in the
            network.

    Example:
        ```python
        data = traversal(count=32, nodes=(3, 10), length=(1, 2), seed=1)
        data["inputs"].shape[-1], data["targets"].shape[-1]  # 92, 90
        ```
    """
    low, high = span(length, "length")
    random = np.random.default_rng(seed)
    draw = _source(nodes, degree, network, random)

    def walk(count: int) -> tuple[np.ndarray, ...]:
        graphs = draw(count)
        steps = random.integers(low, high + 1, count)
        return (*graphs, *_random_walk(graphs, steps, high, random))

    *fields, triples, _ = until_all_fit(walk, count, "graphs", length)
    graphs = Graphs(*fields)
    sizes = (triples[..., 0] != NONE).sum(1)  # (N,)
    sequences = Sequences(graphs, random, 2 * sizes, steps)
    question = triples.copy()
    question[:, 1:, 0] = NONE
    question[..., 2] = NONE
    sequences.phase(sizes, read=question)
    sequences.phase(sizes, answers=triples)
    return sequences.arrays() | {"graphs": graphs}


def shortest_path(
    count: int,
    nodes: Range = (8, 12),
    degree: Range = (2, 4),
    length: Range = (2, 4),
    planning: int = 10,
    network: Network | None = None,
    seed: Seed = 0,
    steps: int | None = None,
) -> dict[str, Any]:
    """Shortest path: go from one node to another over the fewest edges.

    A sequence has four phases. The description lists the graph's triples in random
    order. The question is (source, _, destination). Next, `planning` steps have no
    input. The answer has one triple per step. At each answer step, the network reads
    the previous triple of the true path. At the first answer step, it reads a blank.
    `play` feeds the network's own choices instead.

    Args:
        count: N, the number of examples, each with its own graph.
        nodes: P, a number or a (minimum, maximum) range.
        degree: Number of edges that leave a node, or a (minimum, maximum) range.
        length: Number of edges of a shortest path, or a (minimum, maximum) range. The
            length is sampled from the distances of the graph that lie in the range.
        planning: Number of steps between question and answer; 10 in the paper.
        network: A network to use instead of random graphs, with new labels for each
            example.
        seed: Seed for `numpy.random.default_rng`.
        steps: T. Defaults to the length of the longest sequence.

    Returns:
        The dictionary described in `keras_attention.datasets.graphs`, and `"source"`,
        `"destination"` and `"distance"`, each (N,) int16: two labels, and the number of
        edges between them.

    Raises:
        ValueError: a size too small, a range with its minimum above its maximum, more
            nodes than labels, too few `steps`, or no path of that length in any graph.

    Example:
        ```python
        data = shortest_path(count=32, nodes=(8, 12), length=(2, 3), seed=1)
        data["distance"].max()  # 3
        ```
    """
    low, high = span(length, "length")
    if planning < 0:
        raise ValueError(f"`planning` must not be negative. Received: {planning=}")
    random = np.random.default_rng(seed)
    draw = _source(nodes, degree, network, random)

    def pair(count: int) -> tuple[np.ndarray, ...]:
        graphs = draw(count)
        return (*graphs, *_random_pair(distances(graphs, high), low, high, random))

    *fields, asked, _ = until_all_fit(pair, count, "graphs", length)
    graphs = Graphs(*fields)
    source, destination, distance = asked.T
    triples = shortest(graphs, source, destination, high, random)  # (N, S, 3)
    sequences = Sequences(graphs, random, 1 + planning + distance, steps)
    once, every = np.ones_like(distance), np.arange(count)
    question = np.full((count, 1, 3), NONE, np.int16)
    question[:, 0, 0] = graphs.nodes[every, source]
    question[:, 0, 2] = graphs.nodes[every, destination]
    sequences.phase(once, read=question)
    sequences.phase(planning * once)
    before = np.full_like(triples, NONE)
    before[:, 1:] = triples[:, :-1]
    sequences.phase(distance, read=before, answers=triples)
    return sequences.arrays() | {
        "graphs": graphs,
        "source": question[:, 0, 0],
        "destination": question[:, 0, 2],
        "distance": distance.astype(np.int16),
    }


def inference(
    count: int,
    nodes: Range = (4, 6),
    degree: Range = (2, 4),
    length: Range = (2, 5),
    queries: int = 3,
    planning: int = 10,
    seed: Seed = 0,
    steps: int | None = None,
) -> dict[str, Any]:
    """Inference: follow a relation, a hidden name for a sequence of edges.

    Edges have the labels 0 to 9. A relation is a labeled sequence of two to five edges;
    see `relations`. The network never reads the definition of a relation and must infer
    it. A sequence first lists the graph's triples in random order. Each question then
    has (source, relation, _), `planning` steps without input, and one step to answer
    with the complete triple.

    Args:
        count: N, the number of examples, each with its own graph.
        nodes: P, a number or a (minimum, maximum) range.
        degree: Number of edges that leave a node, or a (minimum, maximum) range, at
            most 10.
        length: Number of edges of a relation, or a (minimum, maximum) range, from 2 to
            5. Relations are sampled among those that exist in the graph.
        queries: Number of successive questions about the same graph.
        planning: Number of steps between question and answer.
        seed: Seed for `numpy.random.default_rng`.
        steps: T. Defaults to the length of the longest sequence.

    Returns:
        The dictionary described in `keras_attention.datasets.graphs`.

    Raises:
        ValueError: an invalid size or range, more nodes than labels, or too few
            `steps`.

    Example:
        ```python
        data = inference(count=32, nodes=(3, 5), degree=2, length=2, seed=1)
        ```
    """
    low, high = span(length, "length", least=_RELATION_LENGTHS[0])
    at_least_one(queries=queries)
    if high > _RELATION_LENGTHS[1]:
        raise ValueError(
            f"`length` must be at most {_RELATION_LENGTHS[1]}. Received: {length=}"
        )
    if planning < 0:
        raise ValueError(f"`planning` must not be negative. Received: {planning=}")
    random = np.random.default_rng(seed)

    def ask(count: int) -> tuple[np.ndarray, ...]:
        graphs = random_graphs(count, nodes, degree, _SINGLE_EDGES, random)
        return (*graphs, *_random_relations(graphs, low, high, queries, random))

    *fields, triples, _ = until_all_fit(ask, count, "graphs", length)
    graphs = Graphs(*fields)
    following = np.full(count, queries * (planning + 2))
    sequences = Sequences(graphs, random, following, steps)
    sequences.ask(triples, planning)
    return sequences.arrays() | {"graphs": graphs}


@functools.cache
def relations() -> Mapping[int, tuple[int, ...]]:
    """Returns the edges of each relation of the inference task, by label (10 to 409).

    Each length from 2 to 5 has 100 distinct sequences of the edges 0 to 9. The
    relations are the same in all examples.
    """
    random = np.random.default_rng(2016)
    paths: dict[int, tuple[int, ...]] = {}
    low, high = _RELATION_LENGTHS
    for length in range(low, high + 1):
        every = _SINGLE_EDGES**length
        for number in random.permutation(every)[:_RELATIONS_PER_LENGTH]:
            edges = np.base_repr(number, _SINGLE_EDGES).zfill(length)
            paths[_SINGLE_EDGES + len(paths)] = tuple(map(int, edges))
    return types.MappingProxyType(paths)  # one for all callers, so it is read-only


def _source(
    nodes: Range, degree: Range, network: Network | None, random: np.random.Generator
) -> Callable[[int], Graphs]:
    """Returns a function that samples the given number of graphs."""
    if network is not None:
        return lambda count: network.graphs(count, random)
    return lambda count: random_graphs(count, nodes, degree, seed=random)


def until_all_fit(
    ask: Callable[[int], tuple[np.ndarray, ...]], count: int, kind: str, length: Range
) -> tuple[np.ndarray, ...]:
    """Samples questions; resamples the rows for which the last array is False."""
    arrays = ask(count)
    for _ in range(_ROUNDS):
        missing = np.flatnonzero(~arrays[-1])
        if not len(missing):
            return arrays
        for old, new in zip(arrays, ask(len(missing)), strict=True):
            old[missing] = new
    raise ValueError(f"`length` must be one that such {kind} have. Received: {length=}")


def _random_walk(
    graphs: Graphs, steps: np.ndarray, most: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Samples in each graph a random walk of exactly `steps` edges, if it has one."""
    nodes, _, ends = graphs
    every = np.arange(len(nodes))
    is_edge = ends != NONE
    onward = [nodes != NONE]  # onward[i]: i more steps are possible
    for _ in range(most):
        reached = np.take_along_axis(onward[-1][:, None], ends.astype(np.intp), 2)
        onward.append((is_edge & reached).any(2))
    can = np.stack(onward)  # (most + 1, N, P)
    allowed = can[steps, every]  # (N, P)
    samples = random.random(allowed.shape)
    here = np.where(allowed, samples, -1).argmax(1)
    triples = np.full((len(nodes), most, 3), NONE, np.int16)
    for step in range(most):
        left = np.maximum(steps - step - 1, 0)
        leads = ends[every, here]  # (N, K)
        allowed = (leads != NONE) & can[left[:, None], every[:, None], leads]
        edge = np.where(allowed, random.random(leads.shape), -1).argmax(1)
        going = steps > step
        triples[going, step] = triple_of(graphs, here, edge)[going]
        here = np.where(going, leads[every, edge], here)
    return triples, np.logical_or.reduce(can[steps, every], axis=1)


def _random_pair(
    apart: np.ndarray, low: int, high: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Samples (N, 3): a source, a destination and their distance, if there are such."""
    count = len(apart)
    flat = apart.reshape(count, -1)  # (N, P P)
    has = np.stack([(flat == d).any(1) for d in range(low, high + 1)], 1)
    distance = low + np.where(has, random.random(has.shape), -1).argmax(1)
    fits = flat == distance[:, None]
    pair = np.where(fits, random.random(flat.shape, np.float32), -1).argmax(1)
    source, destination = np.divmod(pair, apart.shape[-1])
    asked = np.stack([source, destination, distance], 1)
    return asked, np.logical_or.reduce(has, axis=1)


def _random_relations(
    graphs: Graphs, low: int, high: int, queries: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Samples (N, queries, 3): sources, relations and destinations, if there are."""
    nodes, edges, ends = graphs
    count, width = nodes.shape
    graph, start, edge = np.nonzero(ends != NONE)
    leads = np.full((count, width + 1, _SINGLE_EDGES), NONE, np.int16)
    leads[graph, start, edges[graph, start, edge]] = ends[graph, start, edge]
    table = [(k, v) for k, v in relations().items() if low <= len(v) <= high]
    by_length = [[k for k, v in table if len(v) == n] for n in range(low, high + 1)]
    followed = []  # destination per length, node and relation, or -1
    for alike in by_length:
        path = np.array([relations()[label] for label in alike])  # one row per relation
        here = np.broadcast_to(
            np.where(nodes != NONE, np.arange(width), NONE)[..., None],
            (count, width, len(alike)),
        )
        each = np.arange(count)[:, None, None]
        for step in path.T:  # -1, a missing node, selects the last row
            here = leads[each, here, step]
        followed.append(here)
    led = np.stack(followed, 1)  # N × lengths × P × relations
    led = led.reshape(count, len(by_length), -1)  # (N, lengths, P · relations)
    has = (led != NONE).any(2)  # one row per graph
    triples = np.full((count, queries, 3), NONE, np.int16)
    every = np.arange(count)
    labels = np.array(by_length)  # one row per length
    for query in range(queries):
        size = np.where(has, random.random(has.shape), -1).argmax(1)
        open_ = led[every, size]  # (N, P · relations)
        which = np.where(open_ != NONE, random.random(open_.shape), -1).argmax(1)
        start, relation = np.divmod(which, labels.shape[1])
        end = open_[every, which]
        triple = (nodes[every, start], labels[size, relation], nodes[every, end])
        triples[:, query] = np.stack(triple, 1)
    return triples, has.any(1)
