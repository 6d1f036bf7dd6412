"""Retrieval from the candidates of an index, and the bound on what these leave out."""

import importlib.util

import keras
import numpy as np
import pytest
from calling import plain

from keras_attention.models import AssociativeMemory, VectorIndex
from keras_attention.models.hopfield import steps

S, D = 211, 13


def floats(rows, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, D)).astype("float32")


def memory_of(patterns, **arguments):
    memory = AssociativeMemory(**{"chunk_size": 64, **arguments})
    memory.store(patterns)
    return memory


class Nearest:
    """The exact index, in NumPy: it needs no FAISS."""

    exact = True

    def __init__(self, patterns, count):
        self.patterns, self.count, self.size = patterns, count, len(patterns)
        self.asked = 0

    def candidates(self, words, query=None):
        assert len(words) == 0
        assert query.dtype == "float32"
        self.asked += 1
        return np.sort(np.argsort(-(self.patterns @ query))[: self.count])


class Fixed:
    """Always the same candidates."""

    def __init__(self, size, found):
        self.size, self.found = size, found

    def candidates(self, words, query=None):
        return self.found


def softmax_over(patterns, query, beta, chosen):
    """One step over some of the patterns, in float64."""
    x = patterns[chosen].astype("float64")
    z = beta * x @ query.astype("float64")
    p = np.exp(z - z.max())
    return p @ x / p.sum()


@pytest.mark.backends("all")
def test_a_step_is_the_softmax_over_the_candidates():
    patterns, queries = floats(S), floats(70, 1)  # more than one block
    memory, index = memory_of(patterns, beta=0.7), Nearest(patterns, 9)
    found = memory.retrieve(queries, steps=1, index=index, max_left_out=1)
    for one, query in zip(plain(found), queries, strict=True):
        expected = softmax_over(patterns, query, 0.7, index.candidates((), query))
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.backends("all")
def test_with_a_large_beta_an_index_retrieves_what_all_patterns_give():
    patterns = floats(S)
    queries = patterns[:70].reshape(2, 35, D) + 0.1 * floats(70, 1).reshape(2, 35, D)
    memory, index = memory_of(patterns, beta=4.0), Nearest(patterns, 40)
    expected, walk = memory.retrieve(queries, return_trajectory=True)
    found, own = memory.retrieve(queries, return_trajectory=True, index=index)
    np.testing.assert_allclose(plain(found), plain(expected), atol=1e-3)
    np.testing.assert_array_equal(own.steps, walk.steps)
    # Each step asks again, only for the queries that still moved.
    assert index.asked == own.steps.sum()
    assert (own.steps > 1).any()


@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("count", [1, 10, S - 1, S])
def test_the_bound_is_one(beta, count):
    """The left-out weight and the error of a step, in float64, are below the bounds."""
    for seed in range(5):
        patterns, queries = floats(S, seed), floats(17, seed + 100)
        memory, index = memory_of(patterns, beta=beta), Nearest(patterns, count)
        bounds = plain(memory.left_out_weight(queries, index))
        found = plain(
            memory.retrieve(queries, steps=1, index=index, max_left_out=1)
        ).astype("float64")
        radius = np.linalg.norm(patterns, axis=1).max()
        for query, bound, one in zip(queries, bounds, found, strict=True):
            z = np.sort(beta * patterns.astype("float64") @ query.astype("float64"))
            p = np.exp(z - z.max())
            left = p[: S - count].sum() / p.sum()
            assert left <= bound * (1 + 1e-4) + 1e-37  # the least float32
            rest = (S - count) * np.exp(z[S - count] - z.max())
            formula = rest / (rest + p[S - count :].sum())
            np.testing.assert_allclose(bound, formula, rtol=1e-4, atol=1e-37)
            whole = softmax_over(patterns, query, beta, np.arange(S))
            error = np.linalg.norm(one - whole)
            assert error <= 2 * bound * radius + 1e-5


@pytest.mark.backends("all")
def test_small_betas_are_refused_with_the_weight():
    patterns, queries = floats(S), floats(7, 1)
    memory, index = memory_of(patterns, beta=0.1), Nearest(patterns, 20)
    bound = 100 * plain(memory.left_out_weight(queries, index)).max()
    message = (
        rf"beta=0\.1 and 20 candidates of {S} patterns, which leave out at most "
        rf"{bound:.3g} % of the weight; max_left_out=0\.01 allows 1 %"
    )
    with pytest.raises(ValueError, match=message):
        memory.retrieve(queries, index=index)
    found = Fixed(S, np.arange(20))
    with pytest.raises(ValueError, match=r"leave out by an estimate \(the index is a"):
        memory.retrieve(queries, index=found)
    assert memory.retrieve(queries, index=index, max_left_out=1).shape == (7, D)


def test_lists_of_many_lengths_and_all_patterns(monkeypatch):
    class Varying(Nearest):
        def candidates(self, words, query=None):
            self.count = 3 + self.asked
            found = super().candidates(words, query)
            return None if self.asked == 5 else found

    monkeypatch.setattr(steps, "NUMBERS", 2**9)  # few states at a time
    patterns, queries = floats(S), floats(23, 1)
    memory, index = memory_of(patterns, beta=0.7), Varying(patterns, 0)
    found = plain(memory.retrieve(queries, steps=1, index=index, max_left_out=1))
    again = Varying(patterns, 0)
    for one, query in zip(found, queries, strict=True):
        chosen = again.candidates((), query)
        chosen = np.arange(S) if chosen is None else chosen
        expected = softmax_over(patterns, query, 0.7, chosen)
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-5)


def test_no_queries():
    patterns = floats(S)
    memory, index = memory_of(patterns), Nearest(patterns, 20)
    assert memory.retrieve(floats(0), index=index).shape == (0, D)
    assert memory.left_out_weight(floats(0), index).shape == (0,)


@pytest.mark.skipif(
    importlib.util.find_spec("faiss") is None, reason="faiss is not installed"
)
def test_a_vector_index_of_the_patterns(monkeypatch):
    patterns = floats(S)
    memory = memory_of(patterns, beta=4.0)
    queries = patterns[:31] + 0.1 * floats(31, 1)
    index = VectorIndex(memory.patterns, "flat", count=40)
    expected = memory.retrieve(queries)
    np.testing.assert_allclose(
        plain(memory.retrieve(queries, index=index)), plain(expected), atol=1e-3
    )
    # The patterns are compared with the index once, and again if they changed.
    checks = []
    monkeypatch.setattr(index, "check_keys", lambda keys: checks.append(len(keys)))
    memory.retrieve(queries, index=index)
    assert checks == []
    memory.store(floats(1, 9))
    memory.forget(S)
    memory.retrieve(queries, index=index)
    assert checks == [S]
    monkeypatch.undo()
    memory.forget(0)
    memory.store(floats(1, 9))
    with pytest.raises(ValueError, match="`index` must be built from the keys of thi"):
        memory.retrieve(queries, index=index)


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        ({}, {"index": "flat"}, "`index` must be a VectorIndex, or have .*'flat'"),
        ({}, {"index": Fixed(9, None)}, rf"from the {S} patterns .*index\.size=9"),
        ({}, {"max_left_out": -0.1}, r"`max_left_out` must be .*max_left_out=-0\.1"),
        ({}, {"max_left_out": 1.5}, r"`max_left_out` must be at most 1\. .*=1\.5"),
        ({"normalizer": "sparsemax"}, {}, "`normalizer` must be 'softmax' for an ind"),
        ({"similarity": "cosine"}, {}, "`similarity` must be 'dot' for an index"),
        ({"kind": "classical"}, {}, "`kind` must be 'modern' for an index"),
        *(
            ({}, {"index": Fixed(S, np.array(found))}, r"`index\.candidates` must retu")
            for found in ([], [1.0], [[1]], [2, 1], [3, 3], [-1, 4], [5, S])
        ),
    ],
)
def test_errors(arguments, given, message):
    patterns = np.sign(floats(S))
    memory = memory_of(patterns, **arguments)
    given = {"index": Nearest(patterns, 9), **given}
    with pytest.raises(ValueError, match=message):
        memory.retrieve(patterns[:2], **given)
    np.testing.assert_array_equal(plain(memory.patterns), patterns)


def test_an_empty_memory():
    with pytest.raises(ValueError, match="The memory is empty"):
        AssociativeMemory().left_out_weight(floats(2), Fixed(0, None))


def test_half_precision_patterns():
    patterns = floats(S).astype("float16")
    policy = keras.DTypePolicy("float16")
    memory = memory_of(patterns, beta=4.0, dtype=policy)
    index = Nearest(patterns.astype("float32"), 40)
    queries = patterns[:9]
    found = memory.retrieve(queries, index=index)
    assert keras.backend.standardize_dtype(found.dtype) == "float16"
    expected = memory.retrieve(queries)
    np.testing.assert_allclose(plain(found), plain(expected), atol=2e-2)
