"""The three questions about graphs: traversal, shortest path, inference.

Shapes: N graphs, P nodes at most, K edges at most that leave a node, S steps of a path,
T steps of a sequence.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from keras_attention.datasets.graphs.encoding import Sequences
from keras_attention.datasets.graphs.maps import NONE, Graphs, Network, random_graphs
from keras_attention.datasets.graphs.walks import distances, shortest
from keras_attention.datasets.ragged import Range, Seed, at_least_one, span

_ROUNDS = 200  # of drawing graphs anew where none of the questions fits
_SINGLE_EDGES = 10  # of the inference task: labels 0 to 9
_RELATIONS_PER_LENGTH = 100
_RELATION_LENGTHS = (2, 5)


class _Chosen(NamedTuple):
    """Graphs, and what is asked about each of them."""

    graphs: Graphs
    asked: np.ndarray
    fits: np.ndarray  # (N,) bool


def traversal(
    count: int,
    nodes: Range = (3, 10),
    degree: Range = (2, 4),
    length: Range = (1, 3),
    network: Network | None = None,
    seed: Seed = 0,
    steps: int | None = None,
) -> dict[str, Any]:
    """Traversal: from a node follow edges by their labels; name each edge's triple.

    Phases: the graph's triples in random order; the question, first (source, edge, _),
    then (_, edge, _) for each further edge; the answer, in which nothing is read and
    the complete triples of the walk are asked for. The walk is random.

    Args:
        count: N, how many examples, each about a graph of its own.
        nodes: P, a number, or the least and the greatest.
        degree: How many edges leave a node: one number, or a (minimum, maximum) pair.
        length: How many edges to follow: one number, or a (minimum, maximum) pair.
        network: Walk on this network, numbered anew for each example, in place of
            random graphs.
        seed: Seed for `numpy.random.default_rng`.
        steps: T. Defaults to the length of the longest sequence.

    Returns:
        The dictionary that the package describes.

    Raises:
        ValueError: a size too small, a range with its minimum above its maximum, more
            nodes than labels, too few `steps`, or a network without a walk of that
            length.

    Example:
        ```python
        data = traversal(count=32, nodes=(3, 10), length=(1, 2), seed=1)
        data["inputs"].shape[-1], data["targets"].shape[-1]  # 92, 90
        ```
    """
    low, high = span(length, "length")
    random = np.random.default_rng(seed)
    draw = _source(nodes, degree, network, random)

    def walk(graphs: Graphs) -> _Chosen:
        count = len(graphs.nodes)
        steps = random.integers(low, high + 1, count)
        return _random_walk(graphs, steps, high, random)

    graphs, triples, _ = _until_all_fit(draw, walk, count, "length", length)
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
    """Shortest path: from one node to another over as few edges as possible.

    Phases: the graph's triples in random order; the question, (source, _, destination);
    `planning` steps without input; the answer, one triple a step. In the answer the
    network reads, at each step, the triple chosen at the step before: here the true
    one, and none at the first. `play` puts in what a network chooses itself.

    Args:
        count: N, how many examples, each about a graph of its own.
        nodes: P, a number, or the least and the greatest.
        degree: How many edges leave a node: one number, or a (minimum, maximum) pair.
        length: How many edges a shortest path has: one number, or a (minimum, maximum)
            pair, of which one is drawn among those that the graph has.
        planning: Steps between question and answer; 10 in the paper.
        network: Ask about this network, numbered anew for each example, in place of
            random graphs.
        seed: Seed for `numpy.random.default_rng`.
        steps: T. Defaults to the length of the longest sequence.

    Returns:
        The dictionary that the package describes, and `"source"`, `"destination"` and
        `"distance"`, each (N,) int16: two labels, and how many edges there are between.

    Raises:
        ValueError: a size too small, a range with its minimum above its maximum, more
            nodes than labels, too few `steps`, or no graph with a path of that length.

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

    def pair(graphs: Graphs) -> _Chosen:
        apart = distances(graphs, high)
        return _random_pair(graphs, apart, low, high, random)

    graphs, asked, _ = _until_all_fit(draw, pair, count, "length", length)
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
    """Inference: where a relation leads, which is a hidden name for several edges.

    Edges have the labels 0 to 9. A relation is a sequence of two to five of them with a
    label of its own, see `relations`; what it stands for is never read, and has to be
    inferred. Phases: the graph's triples in random order; then, for each question,
    (source, relation, _), `planning` steps without input, and one step to answer with
    the complete triple.

    Args:
        count: N, how many examples, each about a graph of its own.
        nodes: P, a number, or the least and the greatest.
        degree: How many edges leave a node: one number, or a (minimum, maximum) pair,
            at most 10.
        length: How many edges a relation stands for: one number, or a (minimum,
            maximum) pair, from 2 to 5; drawn among those that the graph has.
        queries: How many questions follow each other about the same graph.
        planning: Steps between question and answer.
        seed: Seed for `numpy.random.default_rng`.
        steps: T. Defaults to the length of the longest sequence.

    Returns:
        The dictionary that the package describes.

    Raises:
        ValueError: a size or range that does not fit, more nodes than labels, or too
            few `steps`.

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

    def draw(count: int) -> Graphs:
        return random_graphs(count, nodes, degree, _SINGLE_EDGES, random)

    def ask(graphs: Graphs) -> _Chosen:
        return _random_relations(graphs, low, high, queries, random)

    graphs, triples, _ = _until_all_fit(draw, ask, count, "length", length)
    following = np.full(count, queries * (planning + 2))
    sequences = Sequences(graphs, random, following, steps)
    once = np.ones(count, int)
    for query in np.moveaxis(triples[:, :, None], 1, 0):  # (N, 1, 3) each
        question = query.copy()
        question[..., 2] = NONE
        sequences.phase(once, read=question)
        sequences.phase(planning * once)
        sequences.phase(once, answers=query)
    return sequences.arrays() | {"graphs": graphs}


@functools.cache
def relations() -> dict[int, tuple[int, ...]]:
    """The relations of the inference task: what each label from 10 to 409 stands for.

    100 different sequences of the edges 0 to 9 for each length from 2 to 5, the same in
    every example.
    """
    random = np.random.default_rng(2016)
    found: dict[int, tuple[int, ...]] = {}
    low, high = _RELATION_LENGTHS
    for length in range(low, high + 1):
        every = _SINGLE_EDGES**length
        for number in random.permutation(every)[:_RELATIONS_PER_LENGTH]:
            edges = np.base_repr(number, _SINGLE_EDGES).zfill(length)
            found[_SINGLE_EDGES + len(found)] = tuple(map(int, edges))
    return found


def _source(
    nodes: Range, degree: Range, network: Network | None, random: np.random.Generator
) -> Callable[[int], Graphs]:
    """What draws so many graphs."""
    if network is not None:
        return lambda count: network.graphs(count, random)
    return lambda count: random_graphs(count, nodes, degree, seed=random)


def _until_all_fit(
    draw: Callable[[int], Graphs],
    ask: Callable[[Graphs], _Chosen],
    count: int,
    name: str,
    value: Range,
) -> _Chosen:
    """Graphs and questions, with those drawn anew that have no such question."""
    chosen = ask(draw(count))
    for _ in range(_ROUNDS):
        missing = np.flatnonzero(~chosen.fits)
        if not len(missing):
            return chosen
        again = ask(draw(len(missing)))
        for kept, new in zip(chosen.graphs, again.graphs, strict=True):
            kept[missing] = new
        chosen.asked[missing], chosen.fits[missing] = again.asked, again.fits
    raise ValueError(
        f"`{name}` must be one that such graphs have. Received: {name}={value}"
    )


def _random_walk(
    graphs: Graphs, steps: np.ndarray, most: int, random: np.random.Generator
) -> _Chosen:
    """A walk of so many steps in each graph, that never comes to a dead end."""
    nodes, edges, ends = graphs
    every = np.arange(len(nodes))
    is_edge, onward = (
        ends != NONE,
        [nodes != NONE],
    )  # onward[i]: i more steps can be made
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
        reached_now = leads[every, edge]
        triple = (
            nodes[every, here],
            edges[every, here, edge],
            nodes[every, reached_now],
        )
        triples[going, step] = np.stack(triple, 1)[going]
        here = np.where(going, reached_now, here)
    possible = np.logical_or.reduce(can[steps, every], axis=1)  # (N,)
    return _Chosen(graphs, triples, possible)


def _random_pair(
    graphs: Graphs, apart: np.ndarray, low: int, high: int, random: np.random.Generator
) -> _Chosen:
    """(N, 3): a source, a destination and how far apart they are."""
    count = len(apart)
    flat = apart.reshape(count, -1)  # (N, P P)
    has = np.stack([(flat == d).any(1) for d in range(low, high + 1)], 1)
    distance = low + np.where(has, random.random(has.shape), -1).argmax(1)
    fits = flat == distance[:, None]
    pair = np.where(fits, random.random(flat.shape, np.float32), -1).argmax(1)
    source, destination = np.divmod(pair, apart.shape[-1])
    return _Chosen(
        graphs,
        np.stack([source, destination, distance], 1),
        np.logical_or.reduce(has, axis=1),
    )


def _random_relations(
    graphs: Graphs, low: int, high: int, queries: int, random: np.random.Generator
) -> _Chosen:
    """(N, Q, 3): sources, relations and where they lead."""
    nodes, edges, ends = graphs
    count, width = nodes.shape
    graph, start, edge = np.nonzero(ends != NONE)
    leads = np.full((count, width + 1, _SINGLE_EDGES), NONE, np.int16)
    leads[graph, start, edges[graph, start, edge]] = ends[graph, start, edge]
    table = [(k, v) for k, v in relations().items() if low <= len(v) <= high]
    by_length = [[k for k, v in table if len(v) == n] for n in range(low, high + 1)]
    followed = []  # for each length, node and relation: the end or -1
    for alike in by_length:
        path = np.array([relations()[label] for label in alike])  # one row a relation
        here = np.broadcast_to(
            np.where(nodes != NONE, np.arange(width), NONE)[..., None],
            (count, width, len(alike)),
        )
        each = np.arange(count)[:, None, None]
        for step in path.T:  # a missing node, -1, is the last row: it leads nowhere
            here = leads[each, here, step]
        followed.append(here)
    led = np.stack(followed, 1).reshape(count, len(by_length), -1)  # (N, lengths, P R)
    has = (led != NONE).any(2)  # one row a graph
    triples = np.full((count, queries, 3), NONE, np.int16)
    every = np.arange(count)
    labels = np.array(by_length)  # one row a length
    for query in range(queries):
        size = np.where(has, random.random(has.shape), -1).argmax(1)
        open_ = led[every, size]  # (N, P R)
        which = np.where(open_ != NONE, random.random(open_.shape), -1).argmax(1)
        start, relation = np.divmod(which, labels.shape[1])
        end = open_[every, which]
        triple = (nodes[every, start], labels[size, relation], nodes[every, end])
        triples[:, query] = np.stack(triple, 1)
    return _Chosen(graphs, triples, has.any(1))
