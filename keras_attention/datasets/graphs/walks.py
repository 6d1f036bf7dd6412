"""Shortest paths in graphs: finding them, checking answers and playing.

Shapes: N graphs, at most P nodes, at most K outgoing edges per node, S path steps, T
sequence steps.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from keras_attention.datasets.graphs.encoding import ANSWER, NEW_PHASE, TRIPLE, encode
from keras_attention.datasets.graphs.maps import NONE, Graphs
from keras_attention.datasets.ragged import Seed

_FAR = np.int16(np.iinfo(np.int16).max)


class Verdict(NamedTuple):
    """The output of `check_paths`; each field is (N,) bool.

    Attributes:
        valid: The path follows edges of the graph from source to destination.
        shortest: The path is valid, and no path is shorter.
    """

    valid: np.ndarray
    shortest: np.ndarray


class Played(NamedTuple):
    """The output of `play`.

    Attributes:
        paths: (N, S, 3) int16, the chosen triples up to the destination, padded with
            -1.
        verdict: Whether the paths are valid and shortest.
        data: The played examples. The inputs hold the chosen triples. Each target is
            the first edge of a shortest path from the current node. If several paths
            are shortest, the chosen edge has priority. Training on these examples is
            the paper's form of DAgger.
    """

    paths: np.ndarray
    verdict: Verdict
    data: dict[str, Any]


def distances(graphs: Graphs, most: int | None = None) -> np.ndarray:
    """Returns the distance in edges between all pairs of nodes, (N, P, P) int16.

    Args:
        graphs: N graphs.
        most: Maximum search distance. Defaults to the number of nodes.

    Returns:
        The distances. The distance is 0 from a node to itself, and the largest int16
        if there is no path.
    """
    joined = graphs.adjacent().astype(np.float32)  # (N, P, P)
    width = joined.shape[1]
    reached = np.broadcast_to(np.eye(width, dtype=bool), joined.shape).copy()
    apart = np.where(reached, np.int16(0), _FAR)
    front = reached.astype(np.float32)
    for step in range(1, 1 + (width if most is None else most)):
        new = (np.matmul(front, joined) > 0) & ~reached
        if not new.any():
            break
        apart[new] = step
        reached |= new
        front = new.astype(np.float32)
    return apart


def shortest(
    graphs: Graphs,
    source: np.ndarray,
    destination: np.ndarray,
    most: int,
    random: np.random.Generator,
) -> np.ndarray:
    """Returns a shortest path for each graph: (N, `most`, 3) triples.

    Ties are broken at random. Source and destination are indices into `graphs.nodes`.
    """
    every = np.arange(len(source))
    left = distances(graphs)[every, :, destination]  # (N, P), edges to the destination
    triples = np.full((len(source), most, 3), NONE, np.int16)
    here = source
    for step in range(most):
        going = here != destination
        edge = _best_edge(graphs, left, here, random)
        target = graphs.ends[every, here, edge]
        triples[going, step] = triple_of(graphs, here, edge)[going]
        here = np.where(going, target, here)
    return triples


def check_paths(
    graphs: Graphs, source: np.ndarray, destination: np.ndarray, paths: np.ndarray
) -> Verdict:
    """Checks whether paths are valid and shortest.

    Args:
        graphs: N graphs.
        source: (N,) labels of the start nodes.
        destination: (N,) labels of the destination nodes.
        paths: (N, S, 3) triples of labels, padded with -1.

    Raises:
        ValueError: a label is not in the graph, or sizes do not match.

    Example:
        ```python
        data = shortest_path(count=32)
        ends = data["graphs"], data["source"], data["destination"]
        check_paths(*ends, play(model.predict, data).paths).shortest.mean()
        ```
    """
    every = np.arange(len(graphs.nodes))
    if paths.shape[:1] + paths.shape[2:] != (len(every), 3):
        raise ValueError(
            f"`paths` must be ({len(every)}, S, 3), as many as graphs. "
            f"Received: paths.shape={paths.shape}"
        )
    start = _place(graphs, source, "source")
    goal = _place(graphs, destination, "destination")
    here, valid, taken = start, np.ones(len(every), bool), np.zeros(len(every), int)
    for triple in np.moveaxis(paths, 1, 0):  # (N, 3)
        going = triple[:, 0] != NONE
        leads = graphs.ends[every, here]  # (N, K)
        same = (
            (leads != NONE)
            & (graphs.edges[every, here] == triple[:, 1, None])
            & (graphs.nodes[every[:, None], leads] == triple[:, 2, None])
        )
        right = same.any(1) & (graphs.nodes[every, here] == triple[:, 0])
        valid &= right | ~going
        here = np.where(going & right, leads[every, same.argmax(1)], here)
        taken += going
    valid &= here == goal
    least = distances(graphs)[every, start, goal]
    return Verdict(valid, valid & (taken == least))


def choose(graphs: Graphs, here: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Returns the index of the most likely outgoing edge, (N,).

    The score of a triple is the sum of the scores of its nine digits. As in the paper,
    only triples that begin at the current node are compared.

    Args:
        graphs: N graphs.
        here: (N,) indices of the current nodes. Each must have an outgoing edge.
        scores: (N, 90) logits for nine softmaxes over ten digits.
    """
    every = np.arange(len(graphs.nodes))
    digits = scores.reshape(-1, 9, 10).astype(np.float64)
    digits = digits - np.logaddexp.reduce(digits, -1, keepdims=True)
    leads, edges = graphs.ends[every, here], graphs.edges[every, here]  # (N, K)
    triples = np.stack(
        [
            np.broadcast_to(graphs.nodes[every, here][:, None], leads.shape),
            edges,
            np.where(leads != NONE, graphs.nodes[every[:, None], leads], NONE),
        ],
        -1,
    )  # (N, K, 3)
    likely = np.einsum("nkd,nd->nk", encode(triples), digits.reshape(-1, TRIPLE))
    return np.where(leads != NONE, likely, -np.inf).argmax(1)


def play(
    predict: Callable[[dict[str, np.ndarray]], np.ndarray],
    data: dict[str, Any],
    beta: float = 0.0,
    extra: int = 1,
    seed: Seed = 0,
) -> Played:
    """Lets a network answer shortest paths step by step from its own choices.

    At each answer step, the network's scores select an outgoing edge of the current
    node. The chosen triple is the next input. A path ends at its destination or after
    the last step.

    Args:
        predict: Maps `{"inputs": (N, T, 92), "answer_mask": (N, T)}` to (N, T, 90)
            logits, for example a model's `predict`. It must be causal. It is called
            once per answer step, always with the same T.
        data: The output of `shortest_path`, or `Played.data`.
        beta: Probability that a step follows a shortest path instead of the network.
            Use 0 for evaluation. The paper trains with 0.8.
        extra: Number of additional steps allowed beyond a shortest path.
        seed: A seed of `numpy.random.default_rng`, for `beta` and for ties between
            shortest paths.

    Raises:
        ValueError: a `beta` outside 0 to 1, a negative `extra`.

    Example:
        ```python
        played = play(model.predict, shortest_path(count=100, seed=1))
        played.verdict.shortest.mean()
        ```
    """
    if not 0 <= beta <= 1 or extra < 0:
        raise ValueError(
            "`beta` must be from 0 to 1, and `extra` not negative. "
            f"Received: {beta=}, {extra=}"
        )
    random = np.random.default_rng(seed)
    graphs, distance = data["graphs"], data["distance"].astype(int)
    every, most = np.arange(len(distance)), int(distance.max()) + extra
    begin = data["answer_mask"].argmax(1)  # (N,), first answer step
    inputs, mask, targets = _emptied(data, begin, most)
    here = _place(graphs, data["source"], "source")
    goal = _place(graphs, data["destination"], "destination")
    left = distances(graphs)[every, :, goal]  # (N, P)
    paths = np.full((len(every), most, 3), NONE, np.int16)
    for step in range(most):
        at = begin + step
        going = (here != goal) & (left[every, here] != _FAR) & (step < distance + extra)
        rows = every[going]
        if not len(rows):
            break
        mask[rows, at[going]] = True
        inputs[rows, at[going], ANSWER] = 1
        scores = np.asarray(predict({"inputs": inputs, "answer_mask": mask}))
        chosen = choose(graphs, here, scores[every, at])
        best = _best_edge(graphs, left, here, random, chosen)
        edge = np.where(random.random(len(every)) < beta, best, chosen)
        targets[rows, at[going]] = encode(triple_of(graphs, here, best))[going]
        taken, target = triple_of(graphs, here, edge), graphs.ends[every, here, edge]
        paths[rows, step] = taken[going]
        if step + 1 < most:
            inputs[rows, at[going] + 1, :TRIPLE] = encode(taken)[going]
        here = np.where(going, target, here)
    # Clear the inputs after the last answer step.
    inputs[..., :TRIPLE] *= (np.arange(mask.shape[1]) < begin[:, None])[..., None] | (
        mask[..., None]
    )
    verdict = check_paths(graphs, data["source"], data["destination"], paths)
    lengths = (begin + (paths[..., 0] != NONE).sum(1)).astype(np.int32)
    arrays = {
        "inputs": inputs,
        "answer_mask": mask,
        "targets": targets,
        "lengths": lengths,
    }
    return Played(paths, verdict, {**data, **arrays})


def _emptied(
    data: dict[str, Any], begin: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns inputs, mask and targets with empty answers of at most `most` steps."""
    count, steps = data["answer_mask"].shape
    steps = max(steps, int(begin.max()) + most)
    described = np.arange(data["inputs"].shape[1]) < begin[:, None]  # (N, T)
    inputs = np.zeros((count, steps, data["inputs"].shape[-1]), np.float32)
    inputs[:, : described.shape[1]] = data["inputs"] * described[..., None]
    inputs[np.arange(count), begin, NEW_PHASE] = 1
    mask = np.zeros((count, steps), bool)
    return inputs, mask, np.zeros((count, steps, TRIPLE), np.float32)


def _best_edge(
    graphs: Graphs,
    left: np.ndarray,
    here: np.ndarray,
    random: np.random.Generator,
    preferred: np.ndarray | None = None,
) -> np.ndarray:
    """Returns an edge on a shortest path: `preferred` if possible, or a random edge."""
    every = np.arange(len(here))
    leads = graphs.ends[every, here]  # (N, K)
    after = np.where(leads != NONE, left[every[:, None], leads].astype(float), np.inf)
    best = after == after.min(1, keepdims=True)
    samples = random.random(leads.shape)
    if preferred is not None:
        samples[every, preferred] = 1
    return np.where(best, samples, -1).argmax(1)


def triple_of(graphs: Graphs, here: np.ndarray, edge: np.ndarray) -> np.ndarray:
    """Returns the labels of one edge per graph, (N, 3)."""
    every = np.arange(len(here))
    target = graphs.ends[every, here, edge]
    source, end = graphs.nodes[every, here], graphs.nodes[every, target]
    return np.stack([source, graphs.edges[every, here, edge], end], 1)


def _place(graphs: Graphs, labels: np.ndarray, name: str) -> np.ndarray:
    """Returns the index of each graph's node with the given label."""
    is_node = graphs.nodes == np.asarray(labels)[:, None]
    if not is_node.any(1).all():
        missing = int(np.flatnonzero(~is_node.any(1))[0])
        raise ValueError(
            f"`{name}` must be a node of its graph. "
            f"Received: {name}[{missing}]={labels[missing]}"
        )
    return is_node.argmax(1)
