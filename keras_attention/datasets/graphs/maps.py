"""Graphs with labeled nodes and edges: random graphs and networks from files.

Shapes: N graphs, at most P nodes, at most K outgoing edges per node.
"""

import csv
import io
import os
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from keras_attention.datasets.files import read_text
from keras_attention.datasets.ragged import Range, Seed, at_least_one, span

Named = tuple[str, str, str]  # a station, a line and a station
LABELS = 1000  # number of node and edge labels: 0 to 999
NONE = -1  # marks a missing node, a missing edge or a blank label


class Graphs(NamedTuple):
    """N directed graphs; -1 marks missing nodes and edges.

    Attributes:
        nodes: (N, P) int16, the node labels, unique within a graph.
        edges: (N, P, K) int16, the labels of the outgoing edges, unique within a node.
        ends: (N, P, K) int16, the destination of each edge, as an index into `nodes`.
    """

    nodes: np.ndarray
    edges: np.ndarray
    ends: np.ndarray

    def take(self, which: np.ndarray) -> "Graphs":
        """Selects graphs by index or mask."""
        return Graphs(self.nodes[which], self.edges[which], self.ends[which])

    def adjacent(self) -> np.ndarray:
        """Returns the adjacency, (N, P, P): edges lead from axis 1 to axis 2."""
        count, width = self.nodes.shape
        joined = np.zeros((count, width, width), bool)
        graph, start, edge = np.nonzero(self.ends != NONE)
        joined[graph, start, self.ends[graph, start, edge]] = True
        return joined

    def triples(self, graph: int) -> np.ndarray:
        """Returns all triples (source, edge, destination) of one graph, (edges, 3)."""
        start, edge = np.nonzero(self.ends[graph] != NONE)
        labels = self.nodes[graph]
        ends = labels[self.ends[graph, start, edge]]
        return np.stack([labels[start], self.edges[graph, start, edge], ends], 1)


def random_graphs(
    count: int,
    nodes: Range = (8, 12),
    degree: Range = (2, 4),
    edge_labels: int | None = None,
    seed: Seed = 0,
) -> Graphs:
    """Generates planar graphs: random points in a square, joined to their neighbors.

    Each node has edges to its K nearest neighbors; K is sampled per node. Node labels
    are sampled from 0 to 999. Each graph also samples P edge labels from 0 to 999. The
    edges of a node have distinct labels from this sample; edges of different nodes may
    share a label.

    Args:
        count: N, the number of graphs.
        nodes: P, a number or a (minimum, maximum) range, from 2 to 1,000.
        degree: K, a number or a (minimum, maximum) range. A node has at most P − 1
            edges.
        edge_labels: Sample edge labels from 0 to `edge_labels` - 1 instead, as in the
            inference task.
        seed: Seed for `numpy.random.default_rng`.

    Raises:
        ValueError: a size too small, a range with its minimum above its maximum, more
            nodes than labels, or more edges per node than `edge_labels`.

    Example:
        ```python
        graphs = random_graphs(count=32, nodes=(3, 10), degree=(2, 4))
        graphs.nodes.shape, graphs.edges.shape  # (32, 10), (32, 10, 4)
        ```
    """
    at_least_one(count=count)
    fewest, most = span(nodes, "nodes", least=2)
    low, high = span(degree, "degree")
    _enough_labels("nodes", most, LABELS)
    if edge_labels is not None:
        _enough_labels("degree", high, edge_labels)
    random = np.random.default_rng(seed)
    present = np.arange(most) < random.integers(fewest, most + 1, count)[:, None]
    point = random.random((count, most, 2), np.float32)
    point[~present] = np.inf
    ends, is_valid = _nearest(point, min(high, most - 1))  # (N, P, K)
    width = ends.shape[-1]
    joins = random.integers(low, high + 1, (count, most))[..., None] > np.arange(width)
    joins &= is_valid
    names = sample_distinct(random, (count, most), LABELS)
    if edge_labels is None:
        samples = sample_distinct(random, (count, most), LABELS)  # (N, P)
        chosen = _order(random, (count, most, most), present[:, None])[..., :width]
        labels = np.take_along_axis(samples[:, None], chosen, 2)
    else:
        labels = _order(random, (count, most, edge_labels))[..., :width]
    return Graphs(
        np.where(present, names, NONE).astype(np.int16),
        np.where(joins, labels, NONE).astype(np.int16),
        np.where(joins, ends, NONE).astype(np.int16),
    )


@dataclass(frozen=True)
class Network:
    """A real network, for example an underground map.

    Attributes:
        stations: The names of the nodes.
        lines: The names of the edges.
        links: (edges, 3) int, one row per edge: start station, line and end station, as
            indices into `stations` and `lines`.
        positions: (P, 2) float, the longitude and latitude of each station, or None.
        colors: A color such as "#AE6017" for each line, or None.
    """

    stations: tuple[str, ...]
    lines: tuple[str, ...]
    links: np.ndarray
    positions: np.ndarray | None = None
    colors: tuple[str, ...] | None = None

    def graphs(self, count: int, seed: Seed = 0) -> Graphs:
        """Returns the network `count` times, each time with new random labels.

        Each station and each line has one label. If a line leaves a station more than
        once, the additional edges get other labels, distinct at that station.
        """
        at_least_one(count=count)
        random = np.random.default_rng(seed)
        order = np.argsort(self.links[:, 0], kind="stable")
        start, line, end = self.links[order].T
        degree = np.bincount(start, minlength=len(self.stations))
        place = np.arange(len(start)) - (np.cumsum(degree) - degree)[start]
        shape = (count, len(self.stations), int(degree.max()))
        edges, ends = np.full(shape, NONE, np.int16), np.full(shape, NONE, np.int16)
        ends[:, start, place] = end
        name = _numbers_of_edges(start, line, len(self.lines))
        numbers = sample_distinct(random, (count, int(name.max()) + 1), LABELS)
        edges[:, start, place] = numbers[:, name]
        nodes = sample_distinct(random, shape[:2], LABELS).astype(np.int16)
        return Graphs(nodes, edges, ends)

    @property
    def edges(self) -> list[Named]:
        """All edges by name, as (station, line, station)."""
        return [
            (self.stations[a], self.lines[by], self.stations[b])
            for a, by, b in self.links.tolist()
        ]

    def names(self, graphs: Graphs, graph: int, triples: np.ndarray) -> list[Named]:
        """Translates triples of labels into names.

        Args:
            graphs: The output of `Network.graphs`.
            graph: The index of one of the graphs.
            triples: (S, 3) labels of that graph; -1 is blank.

        Returns:
            S tuples (station, line, station). Blank or unknown labels become "". The
            additional labels of a line that leaves its station several times have its
            name, too.
        """
        station = dict(zip(graphs.nodes[graph].tolist(), self.stations, strict=True))
        line = self.links[np.argsort(self.links[:, 0], kind="stable"), 1]
        edges = graphs.edges[graph]
        by_label = zip(edges[edges != NONE].tolist(), line.tolist(), strict=True)
        lines = {label: self.lines[number] for label, number in by_label}
        return [
            (station.get(a, ""), lines.get(by, ""), station.get(b, ""))
            for a, by, b in np.asarray(triples).tolist()
        ]


def read_network(path: str | os.PathLike[str], both_ways: bool = False) -> Network:
    """Reads a network from a file of comma-separated values.

    The first row is `from,to,line`. Every other row is a connection from one station to
    another. Traversal follows lines by name, so the name of a line should include the
    direction: `Bank,Liverpool Street,Central east`.

    Args:
        path: Path of a UTF-8 file.
        both_ways: Whether every connection also leads back on the same line.

    Raises:
        DataNotFoundError: there is no such file.
        ValueError: the first row differs, a row does not have three names (the message
            gives the line number), there are no connections, or there are more stations
            or lines than the 1,000 labels.

    Example:
        ```python
        underground = read_network("underground.csv", both_ways=True)
        graphs = underground.graphs(count=32, seed=1)
        ```
    """
    text = read_text(path)
    try:
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise ValueError(f"{path}: is no table of names ({error}).") from error
    if not rows or [name.strip() for name in rows[0]] != ["from", "to", "line"]:
        raise ValueError(
            f"{path}: the first line must be 'from,to,line'. "
            f"Received: {','.join(rows[0]) if rows else ''!r}"
        )
    joined: dict[Named, None] = {}
    for number, row in enumerate(rows[1:], 2):
        if not row:
            continue
        names = [name.strip() for name in row]
        if len(names) != 3 or not all(names) or names[0] == names[1]:
            raise ValueError(
                f"{path}, line {number}: a connection must be two stations and a line. "
                f"Received: {','.join(row)!r}"
            )
        start, end, line = names
        joined[start, line, end] = None
        if both_ways:
            joined[end, line, start] = None
    if not joined:
        raise ValueError(f"{path} has no connection.")
    stations = dict.fromkeys(name for start, _, end in joined for name in (start, end))
    lines = dict.fromkeys(line for _, line, _ in joined)
    _enough_labels("nodes", len(stations), LABELS)
    station = {name: place for place, name in enumerate(stations)}
    number_of = {name: place for place, name in enumerate(lines)}
    links = np.array(
        [(station[a], number_of[line], station[b]) for a, line, b in joined]
    )
    names_of_edges = _numbers_of_edges(links[:, 0], links[:, 1], len(lines))
    _enough_labels("lines", int(names_of_edges.max()) + 1, LABELS)
    return Network(tuple(stations), tuple(lines), links)


def _numbers_of_edges(start: np.ndarray, line: np.ndarray, lines: int) -> np.ndarray:
    """Returns the label number of each edge: usually the number of its line.

    If a line leaves a station several times, the additional edges get new numbers.
    """
    seen: dict[tuple[int, int], int] = {}
    names: dict[tuple[int, int], int] = {(by, 0): by for by in range(lines)}
    numbers = []
    for pair in zip(start.tolist(), line.tolist(), strict=True):
        again = seen.get(pair, 0)
        seen[pair] = again + 1
        numbers.append(names.setdefault((pair[1], again), len(names)))
    return np.array(numbers)


def _nearest(point: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the nearest other points, and whether they exist, each (N, P, K)."""
    here = np.isfinite(point[..., 0])
    point = np.where(here[..., None], point, 0)
    apart = ((point[:, :, None] - point[:, None]) ** 2).sum(-1)  # (N, P, P)
    apart[~(here[:, :, None] & here[:, None])] = np.inf
    itself = np.arange(point.shape[1])
    apart[:, itself, itself] = np.inf
    ends = np.argsort(apart, -1, kind="stable")[..., :width]
    return ends, np.isfinite(np.take_along_axis(apart, ends, -1))


def sample_distinct(
    random: np.random.Generator, shape: tuple[int, int], labels: int
) -> np.ndarray:
    """Samples rows of distinct numbers below `labels`, uniformly, in random order."""
    samples = np.argpartition(
        random.random((shape[0], labels), np.float32), shape[1] - 1, axis=1
    )[:, : shape[1]]
    return random.permuted(samples, axis=1)


def _order(
    random: np.random.Generator,
    shape: tuple[int, ...],
    allowed: np.ndarray | None = None,
) -> np.ndarray:
    """Returns random permutations of the last axis. Disallowed indices come last."""
    samples = random.random(shape, np.float32)
    if allowed is not None:
        samples = np.where(allowed, samples, np.float32(np.inf))
    return np.argsort(samples, -1)


def _enough_labels(name: str, needed: int, labels: int) -> None:
    if needed > labels:
        raise ValueError(
            f"`{name}` must be at most {labels}, the number of labels. "
            f"Received: {name}={needed}"
        )
