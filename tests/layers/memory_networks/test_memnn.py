"""O and R against the equations of the paper, written plainly in NumPy."""

import keras
import numpy as np
import pytest
from gradients import to_numpy

from keras_attention.layers import FactFinder, WordResponder

B, M, L, D, K, WORDS, V = 3, 7, 4, 5, 3, 19, 11


def table(layer, name, hop=None):
    """A block of U: the embeddings of all features in one of their versions."""
    part = getattr(layer, name)
    part = part if hop is None else part[hop if layer.hop_versions else 0]
    return to_numpy(part.weights[0].value)


def bag(u, features):
    """U Φ, word by word; 0 is padding."""
    return sum((u[f] for f in features if f), np.zeros(u.shape[1]))


def mapped(layer, x):
    """Tanh(W tanh(x) + b), or x itself."""
    if layer.map is None:
        return x
    kernel, bias = (to_numpy(w.value) for w in layer.map.weights)
    return np.tanh(np.tanh(x) @ kernel + bias)


class Hop:
    """What one hop of one question compares: s_O, and Φxᵀ U_Oᵀ U_O of Φt."""

    def __init__(self, layer, query, records, x):
        self.times, self.x = records[:, 0], x
        u = table(layer, "candidate")
        keys = np.stack([mapped(layer, bag(u, r[1:])) for r in records])
        self.similar = keys @ query
        self.weights = np.zeros(3)
        if layer.time:
            self.weights = query @ to_numpy(layer.times.weights[0].value)

    def prefers(self, y, other):
        """s_Ot(x, y, y′)."""
        older = np.array(
            [
                self.x < self.times[y],
                self.x < self.times[other],
                self.times[y] < self.times[other],
            ]
        )
        return self.similar[y] - self.similar[other] + self.weights @ older

    def winner(self, found):
        t = -1
        for i in np.argsort(-self.times):
            if self.times[i] >= 0 and i not in found:
                t = i if t < 0 or self.prefers(i, t) > 0 else t
        return t

    def over(self, t):
        """Each pair with the older one as y."""
        older = self.times < self.times[t]
        scores = [
            self.prefers(i, t) if older[i] else -self.prefers(t, i)
            for i in range(len(self.times))
        ]
        return [0 if i == t else score for i, score in enumerate(scores)]


def find(layer, question, records, given=None):
    """All hops of one question: the scores, and the slots."""
    state = bag(table(layer, "question"), question)
    x, scores, found = records[:, 0].max() + 1, [], []
    for k in range(layer.supports):
        hop = Hop(layer, mapped(layer, state), records, x)
        taken = hop.winner(found) if given is None else given[k]
        scores.append(hop.over(taken))
        found.append(taken)
        x = records[taken, 0]
        if k + 1 < layer.supports:
            state = state + bag(table(layer, "found", k), records[taken, 1:])
    return np.array(scores), found


@pytest.fixture
def inputs():
    rng = np.random.default_rng(0)
    times = np.stack([rng.permutation(M) + 1 for _ in range(B)])
    times[1, 2] = -1  # an empty slot
    records = rng.integers(1, WORDS, (B, M, 1 + L))
    records[0, 3, 3:] = 0
    records[1, 2, 1:] = 0
    records[..., 0] = times
    question = rng.integers(1, WORDS, (B, L))
    question[2, 3] = 0
    return question.astype("int32"), records.astype("int32")


def made(cls, *arguments, **more):
    keras.utils.set_random_seed(5)
    layer = cls(WORDS, *arguments, supports=K, **more)
    layer.build(None)
    for weight in layer.weights:  # 0.1 would leave time without a say
        weight.assign(5 * weight)
    return layer


KINDS = pytest.mark.parametrize(
    "kind",
    [
        {"time": False},
        {"time": True},
        {"time": True, "nonlinear": True, "hop_versions": True},
    ],
    ids=["plain", "time", "nonlinear"],
)


@KINDS
def test_facts_are_found_by_the_pass(inputs, kind):
    layer = made(FactFinder, D, **kind)
    output = layer(*inputs)
    found, facts = to_numpy(output["found"], "int64"), to_numpy(output["facts"])
    for b in range(B):
        scores, slots = find(layer, inputs[0][b], inputs[1][b])
        assert found[b].tolist() == slots
        there = inputs[1][b, :, 0] >= 0
        np.testing.assert_allclose(
            facts[b][:, there], scores[:, there], rtol=1e-4, atol=1e-4
        )
        assert (facts[b][:, ~there] < -1e30).all()


@KINDS
def test_given_facts_count_while_training_alone(inputs, kind):
    layer = made(FactFinder, D, **kind)
    given = np.array([[4, 0, 6], [5, 1, 0], [0, 2, 1]], "int32")
    taught = layer(*inputs, given, training=True)
    np.testing.assert_array_equal(to_numpy(taught["found"]), given)
    facts = to_numpy(taught["facts"])
    for b in range(B):
        scores, _ = find(layer, inputs[0][b], inputs[1][b], given[b])
        there = inputs[1][b, :, 0] >= 0
        np.testing.assert_allclose(
            facts[b][:, there], scores[:, there], rtol=1e-4, atol=1e-4
        )
    alone = layer(*inputs, training=True)
    for other in (layer(*inputs, given), layer(*inputs, given, training=False)):
        for name, tensor in alone.items():
            np.testing.assert_array_equal(to_numpy(other[name]), to_numpy(tensor))


def test_nothing_more_ends_the_search(inputs):
    """A record of time 0 that wins: this hop and all behind it find nothing."""
    question, records = inputs
    records[:, 4, 0] = 0
    records[:, 4, 1:] = WORDS - 1
    records[:, :4, 1:] %= WORDS - 1
    records[:, 5:, 1:] %= WORDS - 1
    question[:] = 1
    layer = made(FactFinder, D, time=False)
    query, candidate = (p.weights[0] for p in (layer.question, layer.candidate))
    table = to_numpy(candidate.value)
    table[WORDS - 1] = 99 * to_numpy(query.value)[1]  # much like the question
    candidate.assign(table)
    found = to_numpy(layer(question, records)["found"], "int64")
    np.testing.assert_array_equal(found, -1)
    # While training, a −1 says the same.
    given = np.array([[1, -1, -1]] * B, "int32")
    taught = layer(question, records, given, training=True)
    np.testing.assert_array_equal(to_numpy(taught["found"]), given)


def test_a_label_of_nothing_more_needs_its_record(inputs):
    """The label −1 is scored where the last record has time 0, and nowhere else."""
    question, records = inputs
    records[:, -1, 0] = 0, 8, -1
    labels = np.array([[-1, -1, -1]] * B, "int32")
    facts = made(FactFinder, D)(question, records, labels, training=True)["facts"]
    shown = to_numpy(facts) > -1e30  # (B, K, M)
    np.testing.assert_array_equal(shown[0], [records[0, :, 0] >= 0] * K)
    assert not shown[1:].any()


def test_an_empty_memory_finds_nothing(inputs):
    question, records = inputs
    records[0, :, 0] = -1
    records[0, :, 1:] = 0
    output = made(FactFinder, D)(question, records)
    assert to_numpy(output["found"])[0].tolist() == [-1] * K
    assert np.isfinite(to_numpy(output["facts"])).all()


@KINDS
def test_the_word_that_answers(inputs, kind):
    kind = {name: value for name, value in kind.items() if name != "time"}
    layer = made(WordResponder, V, D, **kind)
    found = np.array([[4, 0, 6], [5, -1, -1], [0, 2, -1]], "int32")
    answer = to_numpy(layer(*inputs, found))
    for b in range(B):
        state = bag(table(layer, "question"), inputs[0][b])
        for k, slot in enumerate(found[b]):
            if slot >= 0:
                state = state + bag(table(layer, "found", k), inputs[1][b, slot, 1:])
        expected = table(layer, "words") @ mapped(layer, state)
        np.testing.assert_allclose(answer[b], expected, rtol=1e-4, atol=1e-4)


def test_errors(inputs):
    with pytest.raises(
        ValueError,
        match=r"`supporting_facts` must have shape \(batch, 3\), one fact a hop\. "
        r"Received: supporting_facts\.shape=\(3, 2\)",
    ):
        made(FactFinder, D)(*inputs, np.zeros((B, 2), "int32"))
    for name in ("features", "embedding_dim", "supports"):
        sizes = {"features": 9, "embedding_dim": 3, "supports": 1, name: 0}
        with pytest.raises(ValueError, match=f"`{name}` must be at least 1"):
            FactFinder(**sizes)
        with pytest.raises(ValueError, match=f"`{name}` must be at least 1"):
            WordResponder(vocabulary_size=5, **sizes)
