"""Separation, bounds, metastable sizes and capacities, by hand and by their figures."""

import math

import numpy as np
import pytest
from gradients import tensor, to_numpy

from keras_attention.ops.hopfield import retrieval


def test_separation_by_hand():
    patterns = tensor([[[2.0, 0], [0, 1], [1, 1]]])
    found = retrieval.pattern_separation(patterns)
    np.testing.assert_array_equal(to_numpy(found), [[4 - 2, 1 - 1, 2 - 2]])


def test_a_pattern_alone_is_without_limit_and_without_error():
    patterns = tensor([[1.0, 2, 3]])
    assert to_numpy(retrieval.pattern_separation(patterns)) == [np.inf]
    bound = retrieval.retrieval_error_bound(patterns, 1.0, 0.5)
    assert to_numpy(bound) == [0]


def test_bound_equals_its_equation():
    random = np.random.default_rng(0)
    patterns = 2 * random.normal(size=(3, 5, 7))
    for beta, distance in ((0.7, 0.1), (random.uniform(1, 2, (3, 5)), 0.02)):
        given = beta if isinstance(beta, float) else tensor(beta)
        found = retrieval.retrieval_error_bound(tensor(patterns), given, distance)
        similar = patterns @ patterns.swapaxes(-1, -2)
        own = np.einsum("bss->bs", similar).copy()
        delta = own - np.where(np.eye(5) > 0, -np.inf, similar).max(-1)
        longest = np.sqrt(own.max(-1, keepdims=True))
        bound = 2 * 4 * longest * np.exp(-beta * (delta - 2 * distance * longest))
        expected = np.minimum(bound, 2 * longest)
        assert (expected < 2 * longest).any()
        np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-3)


def test_bound_takes_a_separation_that_is_known():
    patterns = tensor(np.random.default_rng(0).normal(size=(5, 7)))
    delta = retrieval.pattern_separation(patterns)
    found = retrieval.retrieval_error_bound(patterns, 2.0, 0.1, delta)
    expected = retrieval.retrieval_error_bound(patterns, 2.0, 0.1)
    np.testing.assert_array_equal(to_numpy(found), to_numpy(expected))
    found = retrieval.retrieval_error_bound(patterns, 2.0, 0.1, delta + 0.1)
    assert (to_numpy(found) < to_numpy(expected)).any()


def test_a_bound_of_what_is_far_does_not_overflow():
    patterns = tensor([[1.0, 0], [0, 1]])
    found = retrieval.retrieval_error_bound(patterns, 1e4, tensor([100.0, 0.0]))
    np.testing.assert_array_equal(to_numpy(found), [2, 0])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_metastable_size_counts(dtype):
    random = np.random.default_rng(0)
    weights = random.dirichlet(np.ones(11) / 5, (3, 5))
    weights[0, 0] = np.eye(11)[7]
    weights[0, 1] = 0  # a state that may retrieve nothing
    weights[0, 2] /= 2  # what goes to nothing does not count
    for mass in (0.5, 0.9):
        found = retrieval.metastable_size(tensor(weights, dtype), mass)
        expected = np.zeros((3, 5), "int32")
        for row in np.ndindex(3, 5):
            ordered = sorted(weights[row], reverse=True)
            while sum(ordered[: expected[row]]) < mass * sum(ordered) - 1e-12:
                expected[row] += 1
        np.testing.assert_array_equal(to_numpy(found), expected)
    assert to_numpy(retrieval.metastable_size(tensor([[0.25] * 4]), 1.0)) == [4]


def test_capacities_are_those_of_the_papers():
    assert retrieval.classical_capacity(100) == pytest.approx(13.8)
    # Degree 2 is d / (2 ln d): the classical memory without an error.
    expected = 100 / (2 * math.log(100))
    assert retrieval.polynomial_capacity(100, 2) == pytest.approx(expected)
    expected = 100**3 / (2 * 15 * math.log(100))
    assert retrieval.polynomial_capacity(100, 4) == pytest.approx(expected)
    assert retrieval.exponential_capacity(20) == pytest.approx(2**10)
    assert retrieval.exponential_capacity(20, 0.1) < 2**10
    assert retrieval.exponential_capacity(10**5) == math.inf
    # Ramsauer et al., after theorem 3: c of two settings.
    for dim, radius, base in ((20, 3.0, 3.1546), (75, 1.0, 1.3718)):
        found = retrieval.modern_capacity(dim, 1.0, radius, 0.001)
        found = (found / math.sqrt(0.001)) ** (4 / (dim - 1))
        assert found == pytest.approx(base, abs=1e-4)
    assert retrieval.modern_capacity(10**5, 9.0, 9.0) == math.inf


def test_errors_of_a_bit():
    expected = {(14, 100, 2): 0.0038, (30, 100, 2): 0.0339, (500, 100, 3): 0.0049}
    expected[800, 40, 4] = 0.0105
    for (count, dim, degree), error in expected.items():
        found = retrieval.bit_error(dim, count, degree)
        assert found == pytest.approx(error, abs=5e-5)


BAD = {
    "mass": (
        lambda: retrieval.metastable_size(tensor([[1.0]]), 0),
        "`mass` must be above 0 and at most 1. Received: mass=0",
    ),
    "beta": (
        lambda: retrieval.retrieval_error_bound(tensor([[1.0, 2]]), -1.0, 0.1),
        "`beta` must be positive and finite. Received: beta=-1.0",
    ),
    "distance": (
        lambda: retrieval.retrieval_error_bound(tensor([[1.0, 2]]), 1.0, -1.0),
        "`distance` must be at least 0. Received: distance=-1.0",
    ),
    "neurons": (
        lambda: retrieval.classical_capacity(-3),
        "`dim` must be at least 1. Received: dim=-3",
    ),
    "degree": (
        lambda: retrieval.polynomial_capacity(10, 1),
        "`degree` must be at least 2. Received: degree=1",
    ),
    "dim": (
        lambda: retrieval.bit_error(1, 3),
        "`dim` must be at least 2. Received: dim=1",
    ),
    "patterns": (
        lambda: retrieval.bit_error(10, 0),
        "`patterns` must be at least 1. Received: patterns=0",
    ),
    "flips": (
        lambda: retrieval.exponential_capacity(10, 0.5),
        "`flips` must be at least 0 and below 0.5. Received: flips=0.5",
    ),
    "radius": (
        lambda: retrieval.modern_capacity(10, 1.0, 0.0),
        "`radius` must be positive and finite. Received: radius=0.0",
    ),
    "failure": (
        lambda: retrieval.modern_capacity(10, 1.0, 1.0, 1.0),
        "`failure` must be between 0 and 1. Received: failure=1.0",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    function, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        function()
