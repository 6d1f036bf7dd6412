"""Graphs: how they are drawn and told, and that every answer is true of its graph."""

import itertools
from collections import Counter, deque

import numpy as np
import pytest

from keras_attention.datasets import DataNotFoundError, graphs

N = 60


def described(data, row):
    """What a sequence tells: its triples, by phase, read back from the inputs alone."""
    length = data["lengths"][row]
    inputs = data["inputs"][row, :length]
    assert not data["inputs"][row, length:].any()
    read = [label_by_label(step[:90]) for step in inputs]
    begins = [*np.flatnonzero(inputs[:, 90]), length]
    assert begins[0] == 0
    return [read[a:b] for a, b in itertools.pairwise(begins)]


def label_by_label(step):
    labels = []
    for digits in step.reshape(3, 3, 10):
        if not digits.any():
            labels.append(None)
        else:
            assert (digits.sum(1) == 1).all()
            labels.append(int("".join(str(d) for d in digits.argmax(1))))
    return tuple(labels)


def answers(data, row):
    mask = data["answer_mask"][row]
    np.testing.assert_array_equal(data["inputs"][row, :, 91], mask)
    assert not data["targets"][row][~mask].any()
    return [label_by_label(step) for step in data["targets"][row, mask]]


def breadth_first(triples, source):
    """Edges to every node that can be reached, by the plainest search."""
    apart, queue = {source: 0}, deque([source])
    while queue:
        here = queue.popleft()
        for start, _, end in triples:
            if start == here and end not in apart:
                apart[end] = apart[here] + 1
                queue.append(end)
    return apart


def test_random_graphs_join_the_nearest_points():
    drawn = graphs.random_graphs(200, nodes=(3, 8), degree=(2, 4), seed=1)
    sizes = (drawn.nodes >= 0).sum(1)
    assert set(sizes) == set(range(3, 9))
    degrees = Counter()
    for graph, size in enumerate(sizes):
        names = drawn.nodes[graph, :size]
        assert len(set(names)) == size
        assert (drawn.nodes[graph, size:] == -1).all()
        edge_names = set()
        for node in range(8):
            ends = drawn.ends[graph, node][drawn.ends[graph, node] >= 0]
            edges = drawn.edges[graph, node][drawn.edges[graph, node] >= 0]
            assert len(ends) == len(edges) == len(set(ends)) == len(set(edges))
            assert node not in ends
            assert (ends < size).all()
            assert (
                len(ends) == 0 if node >= size else 2 <= len(ends) <= min(4, size - 1)
            )
            edge_names |= set(edges)
            degrees[len(ends), size] += 1
        assert len(edge_names) <= size  # as many names of edges as nodes
    assert min(degrees[k, 8] for k in (2, 3, 4)) > 30
    labels = graphs.random_graphs(400, nodes=20, seed=2).nodes
    assert labels.min() == 0
    assert labels.max() == 999
    counts = np.bincount(labels.ravel() // 100, minlength=10) / labels.size
    np.testing.assert_allclose(counts, 0.1, atol=0.02)


def test_edges_go_to_near_nodes():
    """If a node has an edge to a far one, it has edges to all nearer ones: planar."""
    drawn = graphs.random_graphs(300, nodes=6, degree=5, seed=1)
    assert (drawn.ends >= 0).all()  # five others, five edges: complete
    one = graphs.random_graphs(3000, nodes=6, degree=1, seed=2)
    back = np.take_along_axis(one.ends[..., 0], one.ends[..., 0].astype(int), 1)
    mutual = (back == np.arange(6)).any(1)
    assert mutual.all()  # the closest pair of all are each other's nearest


def test_codes_of_labels():
    triples = np.array([[417, 3, -1], [0, 999, 50]])
    code = graphs.encode(triples)
    assert code.shape == (2, 90)
    ones = [np.flatnonzero(row).tolist() for row in code]
    assert ones[0] == [4, 11, 27, 30, 40, 53]
    assert ones[1] == [0, 10, 20, 39, 49, 59, 60, 75, 80]
    assert graphs.decode(code[1]).tolist() == [0, 999, 50]
    with np.errstate(divide="ignore"):
        assert graphs.decode(np.log(code[1])).tolist() == [0, 999, 50]


def test_traversal():
    data = graphs.traversal(N, nodes=(3, 9), degree=(2, 4), length=(1, 5), seed=3)
    assert (data["inputs"].shape[2], data["targets"].shape[2]) == (92, 90)
    lengths, orders = Counter(), 0
    for row in range(N):
        told, question, answer = described(data, row)
        graph = {tuple(triple) for triple in data["graphs"].triples(row).tolist()}
        assert set(told) == graph
        assert len(told) == len(graph)
        orders += told != sorted(told)
        path = answers(data, row)
        assert set(path) <= graph
        for (_, _, end), (start, _, _) in itertools.pairwise(path):
            assert end == start
        asked = [(None, edge, None) for _, edge, _ in path]
        asked[0] = (*path[0][:2], None)
        assert question == asked
        assert answer == [(None, None, None)] * len(path)
        lengths[len(path)] += 1
        # Source and edges suffice to find the path.
        here = question[0][0]
        for _, edge, _ in question:
            ((_, _, here),) = (t for t in graph if t[:2] == (here, edge))
        assert here == path[-1][2]
    assert set(lengths) == {1, 2, 3, 4, 5}
    assert orders > 0.9 * N


def test_shortest_path():
    data = graphs.shortest_path(N, nodes=(6, 12), length=(2, 4), seed=4)
    for row in range(N):
        told, question, planning, answer = described(data, row)
        ((source, blank, destination),) = question
        assert blank is None
        assert (source, destination) == (data["source"][row], data["destination"][row])
        assert planning == [(None, None, None)] * 10
        path = answers(data, row)
        assert answer == [(None, None, None), *path[:-1]]  # the step before is read
        assert set(path) <= set(told)
        assert path[0][0] == source
        assert path[-1][2] == destination
        for (_, _, end), (start, _, _) in itertools.pairwise(path):
            assert end == start
        apart = breadth_first(told, source)
        assert apart[destination] == len(path) == data["distance"][row]
    assert set(data["distance"]) == {2, 3, 4}


def test_distances_are_those_of_a_plain_search():
    drawn = graphs.random_graphs(20, nodes=(4, 9), degree=(1, 2), seed=6)
    apart = graphs.distances(drawn)
    far = np.iinfo(np.int16).max
    for graph in range(20):
        names = drawn.nodes[graph][drawn.nodes[graph] >= 0]
        triples = drawn.triples(graph).tolist()
        for place, name in enumerate(names):
            plain = breadth_first(triples, name)
            want = [plain.get(other, far) for other in names]
            assert apart[graph, place, : len(names)].tolist() == want
    assert (apart[..., 0] == far).any()
    near = graphs.distances(drawn, most=2)
    np.testing.assert_array_equal(near, np.where(apart > 2, far, apart))


def test_inference():
    data = graphs.inference(N, nodes=(4, 8), degree=(2, 4), queries=2, seed=7)
    meaning = graphs.relations()
    assert sorted(meaning) == list(range(10, 410))
    assert len(set(meaning.values())) == 400
    assert Counter(map(len, meaning.values())) == {2: 100, 3: 100, 4: 100, 5: 100}
    with pytest.raises(TypeError):
        meaning[10] = (0,)  # all callers share it
    used = Counter()
    for row in range(N):
        told, *phases = described(data, row)
        assert {edge for _, edge, _ in told} <= set(range(10))
        assert len(phases) == 6  # question, planning, answer, twice
        given = answers(data, row)
        assert len(given) == 2
        for number, (source, relation, end) in enumerate(given):
            assert phases[3 * number] == [(source, relation, None)]
            assert phases[3 * number + 1] == [(None, None, None)] * 10
            assert phases[3 * number + 2] == [(None, None, None)]
            here = source
            for edge in meaning[relation]:
                ((_, _, here),) = (t for t in told if t[:2] == (here, edge))
            assert here == end
            used[len(meaning[relation])] += 1
    assert set(used) == {2, 3, 4, 5}


def test_paths_are_judged():
    data = graphs.shortest_path(N, nodes=(8, 10), degree=(2, 3), length=(2, 3), seed=8)
    width = data["answer_mask"].sum(1).max()
    right = np.full((N, width + 2, 3), -1)
    for row in range(N):
        right[row, : data["distance"][row]] = answers(data, row)

    def judge(paths):
        return graphs.check_paths(
            data["graphs"], data["source"], data["destination"], paths
        )

    assert judge(right).shortest.all()
    other_end = right.copy()
    other_end[:, 0, 2] = other_end[:, 0, 0]  # no edge leads back to the node itself
    assert not judge(other_end).valid.any()
    other_edge = right.copy()
    other_edge[:, 1, 1] = 1000
    assert not judge(other_edge).valid.any()
    cut = right.copy()
    cut[np.arange(N), data["distance"] - 1] = -1
    assert not judge(cut).valid.any()
    longer, there_and_back = right.copy(), 0  # a detour over the first node again
    for row in range(N):
        triples = data["graphs"].triples(row)
        first = right[row, 0]
        back = triples[(triples[:, 0] == first[2]) & (triples[:, 2] == first[0])]
        if len(back):
            there_and_back += 1
            longer[row, 2:] = right[row, :-2]
            longer[row, 1] = back[0]
    detour = (longer != right).any((1, 2))
    verdict = judge(longer)
    assert there_and_back > 5
    assert verdict.valid.all()
    np.testing.assert_array_equal(verdict.shortest, ~detour)


def teacher(data):
    """A network that knows the graph: it answers by the plainest search, step by step.

    It sees the whole of `predict`'s inputs, and uses of them only what came before.
    """

    def predict(arrays):
        scores = np.zeros((*arrays["answer_mask"].shape, 90))
        for row, mask in enumerate(arrays["answer_mask"]):
            step = np.flatnonzero(mask)[-1]
            before = label_by_label(arrays["inputs"][row, step, :90])
            here = data["source"][row] if before[0] is None else before[2]
            if here == data["destination"][row]:
                continue
            triples = data["graphs"].triples(row).tolist()
            best = min(
                (t for t in triples if t[0] == here),
                key=lambda t: breadth_first(triples, t[2]).get(
                    data["destination"][row], 99
                ),
            )
            scores[row, step] = graphs.encode(np.array(best))
        return scores

    return predict


def test_a_network_that_knows_plays_every_path():
    data = graphs.shortest_path(20, nodes=(6, 8), length=(2, 3), seed=9)
    played = graphs.play(teacher(data), data)
    assert played.verdict.valid.all()
    assert played.verdict.shortest.all()
    np.testing.assert_array_equal((played.paths[..., 0] >= 0).sum(1), data["distance"])
    np.testing.assert_array_equal(played.data["lengths"], data["lengths"])
    for row in range(20):  # as played, it is a sequence that one could have been given
        phases = described(played.data, row)
        path = answers(played.data, row)
        assert path == [tuple(t) for t in played.paths[row][: len(path)].tolist()]
        assert phases[3] == [(None, None, None), *path[:-1]]


def guesser(seed):
    """A network that knows nothing."""
    random = np.random.default_rng(seed)

    def predict(arrays):
        return random.normal(size=(*arrays["answer_mask"].shape, 90))

    return predict


def test_what_was_played_can_be_played_again():
    data = graphs.shortest_path(20, nodes=(6, 8), length=(2, 3), seed=9)
    first = graphs.play(guesser(3), data, extra=2)
    assert (first.data["lengths"] != data["lengths"]).any()
    again = graphs.play(teacher(data), first.data)
    assert again.verdict.shortest.all()
    np.testing.assert_array_equal(again.data["lengths"], data["lengths"])


def test_a_network_that_guesses_and_one_that_is_helped():
    data = graphs.shortest_path(200, nodes=(8, 12), length=(2, 4), seed=10)
    guess = guesser(1)
    alone = graphs.play(guess, data, extra=2)
    assert 0.01 < alone.verdict.shortest.mean() < 0.4
    assert alone.verdict.valid.mean() > alone.verdict.shortest.mean()
    assert graphs.play(guess, data, beta=1.0).verdict.shortest.all()
    for row in range(200):  # the inputs hold what was chosen, the targets what was best
        taken = [tuple(t) for t in alone.paths[row].tolist() if t[0] >= 0]
        triples = data["graphs"].triples(row).tolist()
        assert set(taken) <= {tuple(t) for t in triples}
        assert described(alone.data, row)[3] == [(None, None, None), *taken[:-1]]
        for (start, _, _), best in zip(taken, answers(alone.data, row), strict=True):
            assert best[0] == start
            goal = data["destination"][row]
            here, after = (
                breadth_first(triples, n).get(goal) for n in (start, best[2])
            )
            assert after == here - 1


UNDERGROUND = """\
from,to,line
Bank,Holborn,Central
Holborn,Green Park,Piccadilly
Green Park,Victoria,Victoria
Holborn,Euston,Northern

Euston,Victoria,Victoria
"""


def test_a_network_from_a_file(tmp_path):
    path = tmp_path / "map.csv"
    path.write_text(UNDERGROUND, "utf-8")
    network = graphs.read_network(path, both_ways=True)
    assert network.stations == ("Bank", "Holborn", "Green Park", "Victoria", "Euston")
    assert network.lines == ("Central", "Piccadilly", "Victoria", "Northern")
    assert len(network.links) == 10
    drawn = network.graphs(50, seed=1)
    for graph in range(50):
        triples = drawn.triples(graph).tolist()
        names = dict(zip(drawn.nodes[graph].tolist(), network.stations, strict=True))
        ends = {(names[a], names[b]) for a, _, b in triples}
        assert ends == {
            (network.stations[a], network.stations[b]) for a, _, b in network.links
        }
        for start in names:
            edges = [edge for a, edge, _ in triples if a == start]
            assert len(edges) == len(set(edges))  # Victoria leaves Victoria twice
    assert len({tuple(nodes) for nodes in drawn.nodes.tolist()}) == 50
    data = graphs.shortest_path(30, length=3, network=network, seed=2)
    assert set(data["distance"]) == {3}
    walks = graphs.traversal(30, length=7, network=network, seed=2)
    assert (walks["answer_mask"].sum(1) == 7).all()
    one_way = graphs.read_network(path)
    assert len(one_way.links) == 5
    ends_at_victoria = graphs.traversal(30, length=3, network=one_way, seed=2)
    assert (ends_at_victoria["answer_mask"].sum(1) == 3).all()
    with pytest.raises(ValueError, match=r"`length` must be one that such graphs have"):
        graphs.traversal(3, length=4, network=one_way)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", r"map\.csv: the first line must be 'from,to,line'\. .*'a,b'"),
        ("", r"map\.csv: the first line must be"),
        ("from,to,line\n", r"map\.csv has no connection\."),
        (
            "from,to,line\nA,B,x\nA,B\n",
            r"map\.csv, line 3: a connection must be two st",
        ),
        ("from,to,line\nA,A,x\n", r"map\.csv, line 2: a connection must be two stat"),
        (
            "from,to,line\n" + "".join(f"{i},{i + 1},x\n" for i in range(1000)),
            r"`nodes` must be at most 1000, the number of labels\. .* nodes=1001",
        ),
        (
            "from,to,line\n" + "".join(f"A,B,{i}\n" for i in range(1001)),
            r"`lines` must be at most 1000, the number of labels\. .* lines=1001",
        ),
    ],
)
def test_files_that_are_no_network(tmp_path, text, message):
    path = tmp_path / "map.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=message):
        graphs.read_network(path)


def test_a_missing_network(tmp_path):
    with pytest.raises(DataNotFoundError, match=r"There is no file .*map\.csv"):
        graphs.read_network(tmp_path / "map.csv")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: graphs.random_graphs(1, nodes=(5, 1001)),
            r"`nodes` must be at most 1000, the number of labels\. .* nodes=1001",
        ),
        (
            lambda: graphs.random_graphs(1, nodes=1),
            r"`nodes` must be a number of at le",
        ),
        (
            lambda: graphs.inference(1, degree=11),
            r"`degree` must be at most 10, the number of labels",
        ),
        (
            lambda: graphs.shortest_path(1, nodes=4, length=4),
            r"`length` must be one that such graphs have\. Received: length=4",
        ),
        (
            lambda: graphs.shortest_path(1, planning=-1),
            r"`planning` must not be negative\. Received: planning=-1",
        ),
        (lambda: graphs.inference(1, length=(2, 6)), r"`length` must be at most 5"),
        (
            lambda: graphs.inference(1, length=1),
            r"`length` must be a number of at leas",
        ),
        (lambda: graphs.inference(1, queries=0), r"`queries` must be at least 1"),
        (lambda: graphs.traversal(1, steps=4), r"`steps` must hold the longest seq"),
        (
            lambda: graphs.play(len, graphs.shortest_path(1), beta=2),
            r"`beta` must be from 0 to 1, and `extra` not negative\. Received: beta=2",
        ),
        (
            lambda: graphs.check_paths(
                graphs.random_graphs(2), [-5, -5], [0, 0], np.zeros((2, 1, 3))
            ),
            r"`source` must be a node of its graph\. Received: source\[0\]=-5",
        ),
        (
            lambda: graphs.check_paths(
                graphs.random_graphs(2), [0, 0], [0, 0], np.zeros((3, 1, 3))
            ),
            r"`paths` must be \(2, S, 3\), as many as graphs\. Received: .*\(3, 1, 3\)",
        ),
    ],
)
def test_what_does_not_fit(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "task", [graphs.traversal, graphs.shortest_path, graphs.inference]
)
def test_the_same_by_seed(task):
    one, same, other = task(9, seed=1), task(9, seed=1), task(9, seed=2)
    np.testing.assert_array_equal(one["inputs"], same["inputs"])
    assert not np.array_equal(one["inputs"][:, :9], other["inputs"][:, :9])
