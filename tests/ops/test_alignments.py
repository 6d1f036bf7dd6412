"""Alignments: monotonic, local, and what covers what, against plain NumPy."""

import numpy as np
import pytest
import references
from gradients import gradient, tensor, to_numpy
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from keras_attention.ops import alignments

pytestmark = pytest.mark.backends("all")

B, T, S = 2, 3, 7


def expected_stop(p, previous):
    """The probability that a walk stops at s, summed over where it may have begun."""
    p, previous = np.asarray(p, "float64"), np.asarray(previous, "float64")
    out = np.zeros(p.shape)
    for b, s in np.ndindex(p.shape):
        for start in range(s + 1):
            passed = np.prod(1 - p[b, start:s])
            out[b, s] += previous[b, start] * passed * p[b, s]
    return out


def walk(p, start):
    """The first place from the start on with p ≥ 0.5, or None."""
    return next((s for s in range(start, len(p)) if p[s] >= 0.5), None)


@pytest.mark.parametrize("mode", ["parallel", "recursive"])
@references.examples
@given(st.integers(0, 10**6))
def test_expected_stops_equal_their_definition(mode, seed):
    rng = np.random.default_rng(seed)
    p = rng.random((B, S))
    previous = rng.dirichlet(np.ones(S), B)
    found = alignments.monotonic(tensor(p), tensor(previous), mode)
    np.testing.assert_allclose(to_numpy(found), expected_stop(p, previous), atol=1e-5)


@pytest.mark.parametrize("mode", ["parallel", "recursive"])
def test_expected_stops_by_hand(mode):
    p = tensor([[0.5, 0.25, 0.5], [0.5, 0.25, 0.5]])
    previous = tensor([[1.0, 0, 0], [0.5, 0.5, 0]])
    # Second row: q = 0.5, 0.5·0.5 + 0.5 = 0.75, 0.75·0.75 = 0.5625.
    wanted = [[0.5, 0.125, 0.1875], [0.25, 0.1875, 0.28125]]
    found = to_numpy(alignments.monotonic(p, previous, mode))
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_sure_stops_by_hand():
    p = tensor([[0.9, 0.4, 0.5, 0.8], [0.9, 0.1, 0.2, 0.4], [0.6, 0.9, 0.1, 0.1]])
    previous = tensor([[0, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]])
    found = to_numpy(alignments.monotonic(p, previous, "hard"))
    wanted = [[0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    np.testing.assert_array_equal(found, wanted)


def test_sure_stops_equal_a_walk():
    rng = np.random.default_rng(0)
    p, starts = rng.random((53, S)), rng.integers(0, S, 53)
    previous = np.eye(S)[starts]
    wanted = np.zeros((53, S))
    for b, start in enumerate(starts):
        if (stop := walk(p[b], start)) is not None:
            wanted[b, stop] = 1
    found = alignments.monotonic(tensor(p), tensor(previous), "hard")
    np.testing.assert_array_equal(to_numpy(found), wanted)
    # Where p is 0 or 1, the recursion is that walk; the closed form from place 0 on.
    sure = tensor(p >= 0.5)
    found = alignments.monotonic(sure, tensor(previous), "recursive")
    np.testing.assert_array_equal(to_numpy(found), wanted)
    found = to_numpy(alignments.monotonic(sure, tensor(previous), "parallel"))
    np.testing.assert_allclose(found[starts == 0], wanted[starts == 0], atol=1e-6)


@pytest.mark.parametrize("mode", alignments.MONOTONIC)
@pytest.mark.parametrize("edge", [0.0, 1.0, 1e-30])
def test_gradient_of_sure_probabilities_is_finite(mode, edge):
    p = np.full((B, S), edge)
    p[:, 2] = 0.6
    previous = np.eye(S)[[0, 1]]

    def loss(p, previous):
        weights = alignments.monotonic(p, previous, mode)
        return ops.sum(weights * tensor(np.arange(S) + 1.0))

    for slope in gradient(loss, p, previous):
        assert np.isfinite(slope).all()


def test_gradient_of_the_recursion():
    p = np.random.default_rng(0).uniform(0.2, 0.8, (1, 5))
    previous = np.random.default_rng(1).dirichlet(np.ones(5), 1)
    weight = np.arange(5) + 1.0

    def loss(p):
        return (expected_stop(p, previous) * weight).sum()

    wanted = references.differences(loss, p)
    for mode in ("parallel", "recursive"):

        def found(p, mode=mode):
            weights = alignments.monotonic(p, tensor(previous), mode)
            return ops.sum(weights * tensor(weight))

        np.testing.assert_allclose(gradient(found, p)[0], wanted, atol=1e-4)


def test_unknown_mode_is_named():
    p = np.ones((1, 1), "float32")
    with pytest.raises(ValueError, match=r"`mode` must be one of .*mode='soft'"):
        alignments.monotonic(p, p, "soft")


@pytest.mark.parametrize("dtype", references.DTYPES)
def test_half_precision_is_walked_in_float32(dtype):
    p = references.rounded(np.random.default_rng(0).random((B, S)), dtype)
    previous = np.eye(S)[[0, 2]]
    found = alignments.monotonic(tensor(p, dtype), tensor(previous, dtype))
    np.testing.assert_allclose(to_numpy(found), expected_stop(p, previous), atol=1e-5)


def test_places_are_counted_over_what_is_allowed():
    mask = np.array([[[True, True, False, True, False]]])
    found = to_numpy(alignments.positions(tensor(mask, "bool"), 5))
    assert found[mask].tolist() == [0, 1, 2]
    assert to_numpy(alignments.number_of_positions(tensor(mask, "bool"), 5)) == 3
    assert to_numpy(alignments.positions(None, 5)).tolist() == [[[0, 1, 2, 3, 4]]]
    assert to_numpy(alignments.number_of_positions(None, 5)) == 5
    # A mask of queries alone says the same of each key.
    rows = np.array([[[True], [False]]])
    found = to_numpy(alignments.number_of_positions(tensor(rows, "bool"), 5))
    assert found.tolist() == [[5, 0]]


def test_windows_equal_their_equations():
    centre = np.random.default_rng(0).uniform(0, S, (B, T))
    position = np.arange(S)[None, None]
    away = position - centre[..., None]
    near = alignments.local_window(tensor(centre), tensor(position), 2)
    np.testing.assert_array_equal(to_numpy(near, "bool"), np.abs(away) <= 2)
    bell = alignments.gaussian_window(tensor(centre), tensor(position), 3)
    wanted = np.exp(-(away**2) / (2 * 1.5**2))  # σ = D/2
    np.testing.assert_allclose(to_numpy(bell), wanted, atol=1e-6)


def test_coverage_cost_equals_its_equation():
    weights = np.random.default_rng(0).dirichlet(np.ones(S), (B, T))
    wanted = np.zeros((B, T))
    for b, t in np.ndindex(B, T):
        covered = weights[b, :t].sum(0)
        wanted[b, t] = np.minimum(weights[b, t], covered).sum()
    found = to_numpy(alignments.coverage_cost(tensor(weights)))
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert (found[:, 0] == 0).all()
