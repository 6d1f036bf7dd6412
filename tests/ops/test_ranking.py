"""Margin ranking and the pass over a memory, against plain NumPy in float64."""

import numpy as np
import pytest
import references
from gradients import gradient, tensor, to_numpy
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from keras_attention.ops import ranking

pytestmark = pytest.mark.backends("all")

B, M, N = 3, 7, 5


def cost(label, scores, margin):
    """Σ_{j ≠ r} max(0, γ − s_r + s_j), one class after another."""
    out = np.zeros(label.shape)
    for row in np.ndindex(label.shape):
        for j, score in enumerate(scores[row]):
            if j != label[row]:
                out[row] += max(0, margin - scores[row][label[row]] + score)
    return out


def prefers(similar, weights, x, times, y, other):
    """s_Ot(x, y, y′) of one row."""
    older = [x < times[y], x < times[other], times[y] < times[other]]
    return similar[y] - similar[other] + np.dot(weights, older)


def winner(similar, weights, x, times, free):
    """The pass, from the newest memory to the oldest."""
    t = -1
    for i in sorted(np.flatnonzero(free), key=lambda i: -times[i]):
        if t < 0 or prefers(similar, weights, x, times, i, t) > 0:
            t = i
    return t


@pytest.mark.parametrize("shape", [(B,), (B, 2)])
def test_margin_ranking_equals_its_equation(shape):
    scores = references.normal(*shape, N)
    label = np.random.default_rng(1).integers(0, N, shape)
    found = ranking.margin_ranking(tensor(label, "int32"), tensor(scores), 0.7)
    references.assert_rounds_to(found, cost(label, scores, 0.7), "float32")


def test_gradient_of_margin_ranking():
    scores = references.normal(B, N)
    label = np.array([4, 0, 2], "int32")
    (found,) = gradient(
        lambda s: ops.sum(ranking.margin_ranking(ops.convert_to_tensor(label), s, 0.7)),
        scores,
    )
    expected = references.differences(lambda s: cost(label, s, 0.7).sum(), scores)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", references.DTYPES)
def test_what_is_hidden_costs_nothing_and_has_no_gradient(dtype):
    scores = references.normal(B, N)
    there = np.array([True, False, True, True, False])
    label = np.array([0, 2, 3], "int32")

    def total(s):
        hidden = ranking.hide(s, ops.convert_to_tensor(there))
        cost = ranking.margin_ranking(ops.convert_to_tensor(label), hidden, 9)
        return ops.sum(ops.cast(cost, "float32"))

    found = to_numpy(total(tensor(scores, dtype)))
    kept = np.array([0, 1, 2])  # the labels once the hidden columns are gone
    expected = cost(kept, references.rounded(scores, dtype)[:, there], 9).sum()
    np.testing.assert_allclose(found, expected, rtol=0.05)
    (slope,) = gradient(total, scores, dtype=dtype)
    assert (slope[:, ~there] == 0).all()
    assert np.isfinite(slope).all()


def test_time_features_by_hand():
    times = [5, 1, 3, 3], [2, 4, 3, 4], [4, 2, 3, 2]
    found = to_numpy(ranking.time_features(*(tensor(t, "int32") for t in times)))
    expected = [[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 0, 0]]
    np.testing.assert_array_equal(found, expected)


@references.examples
@given(data=st.data())
def test_one_pass_equals_its_loop(data):
    similar = data.draw(references.arrays((B, M), 2.0))
    weights = data.draw(references.arrays((B, 3), 2.0))
    free = data.draw(references.booleans((B, M)))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    times = np.stack([rng.permutation(M) for _ in range(B)]).astype("int32")
    x = rng.integers(0, M + 2, B).astype("int32")
    found = ranking.one_pass(
        tensor(similar),
        tensor(weights),
        tensor(x, "int32"),
        tensor(times, "int32"),
        tensor(free, "bool"),
    )
    similar, weights = similar.astype("float32"), weights.astype("float32")
    for b, slot in enumerate(to_numpy(found, "int64")):
        expected = winner(similar[b], weights[b], x[b], times[b], free[b])
        if slot != expected:  # sums in another order: only what is all but equal
            margin = prefers(similar[b], weights[b], x[b], times[b], slot, expected)
            assert abs(margin) < 1e-5


def test_preference_is_that_of_the_pass():
    """The older of a pair is y, as where the pass meets the two."""
    similar, weights = references.normal(B, M), references.normal(B, 3, seed=1)
    times = np.array([[3, 1, 4, 7, 5, 2, 6]] * B)
    x, taken = np.array([8, 4, 2]), np.array([0, 3, 1])
    found = ranking.preference_over(
        tensor(taken, "int32"),
        tensor(similar),
        tensor(weights),
        tensor(x, "int32"),
        tensor(times, "int32"),
    )
    expected = np.zeros((B, M))
    for b in range(B):
        row = similar[b], weights[b], x[b], times[b]
        for i in range(M):
            if times[b, i] < times[b, taken[b]]:
                expected[b, i] = prefers(*row, i, taken[b])
            elif i != taken[b]:
                expected[b, i] = -prefers(*row, taken[b], i)
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-5, atol=1e-5)
