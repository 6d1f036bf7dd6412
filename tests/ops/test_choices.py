"""Choices: how often they are drawn, and the gradients that stand in for theirs."""

import itertools

import keras
import numpy as np
import pytest
import references
from gradients import gradient, tensor, to_numpy
from keras import ops

from keras_attention.ops import choices, normalizers

pytestmark = pytest.mark.backends("all")

B, T, S = 2, 3, 5
MASK = np.array([[True, False, True, True, True], [False, True, True, False, False]])


def test_the_likeliest_is_the_first_of_the_greatest():
    p = np.array([[0.2, 0.4, 0.4, 0.0, 0.0], [0.0] * 5], "float32")
    found = choices.choose(tensor(p))
    np.testing.assert_array_equal(to_numpy(found), [[0, 1, 0, 0, 0], [0] * 5])


@pytest.mark.parametrize("shape", [(S,), (B, S), (B, T, S)])
def test_a_draw_is_the_first_at_which_the_sum_exceeds_it(shape):
    p = np.random.default_rng(0).dirichlet(np.ones(S), shape[:-1]).astype("float32")
    u = np.random.default_rng(1).uniform(size=shape[:-1]).astype("float32")
    place = (np.cumsum(p, -1) <= u[..., None]).sum(-1)
    found = choices.choose(tensor(p), tensor(u))
    np.testing.assert_array_equal(to_numpy(found), np.eye(S)[place])


def test_what_is_masked_is_never_drawn():
    z = references.normal(B, S)
    p = normalizers.softmax(tensor(z), tensor(MASK, "bool"))
    for u in np.linspace(0, 1, 101, endpoint=True):
        found = to_numpy(choices.choose(p, tensor(np.full(B, u))))
        np.testing.assert_array_equal(found.sum(-1), 1)
        assert (found[~MASK] == 0).all()


def test_straight_through_is_the_choice_with_the_softmax_gradient():
    z, w = references.normal(B, S), references.normal(B, S, seed=1)

    def used(z):
        p = normalizers.softmax(z)
        return choices.straight_through(p, choices.choose(p, tensor([0.3, 0.8])))

    value = to_numpy(used(tensor(z)))
    assert set(value.ravel()) == {0.0, 1.0}
    (found,) = gradient(lambda z: ops.sum(used(z) * tensor(w)), z)
    wanted = references.differences(lambda z: (references.softmax(z) * w).sum(), z)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_log_probability_and_its_gradient():
    z = references.normal(B, S)
    choice = np.eye(S)[[2, 1]]

    def logs(z):
        return choices.log_probability(z, tensor(choice), tensor(MASK, "bool"))

    def expected(z):
        return (np.log(references.softmax(z, MASK)[choice > 0])).sum()

    found = to_numpy(logs(tensor(z)))
    assert found.sum() == pytest.approx(expected(z), rel=1e-5)
    (slope,) = gradient(lambda z: ops.sum(logs(z)), z)
    np.testing.assert_allclose(slope, references.differences(expected, z), atol=1e-6)
    assert (slope[~MASK] == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_where_nothing_is_chosen_there_is_no_gradient(dtype):
    z, none = references.normal(B, S), np.zeros((B, S))

    def carried(z):
        logs = choices.log_probability(z, tensor(none), tensor(none, "bool"))
        return ops.sum(choices.carry(tensor(none), logs) + logs[:, None])

    assert float(to_numpy(carried(tensor(z, dtype)))) == 0
    (slope,) = gradient(carried, z, dtype=dtype)
    np.testing.assert_array_equal(slope, 0)


def test_leave_one_out_by_hand():
    cost = np.array([1.0, 2.0, 6.0])
    np.testing.assert_allclose(
        to_numpy(choices.leave_one_out(tensor(cost))), [4, 3.5, 1.5]
    )
    assert to_numpy(choices.leave_one_out(tensor([3.0])))[0] == 0
    counts = np.array([1.0, 0.0, 1.0])  # the second belongs to no mean
    found = choices.leave_one_out(tensor(cost), tensor(counts))
    np.testing.assert_allclose(to_numpy(found), [6, 3.5, 1])
    found = choices.leave_one_out(tensor(cost), tensor([0.0, 1.0, 0.0]))
    np.testing.assert_allclose(to_numpy(found), [2, 0, 2])


def test_the_mean_over_all_draws_is_the_exact_gradient():
    """Every pair of choices of two samples, weighted with its probability."""
    z = references.normal(2, 3)
    cost = 3 + references.normal(2, 3, seed=1)  # of each choice
    p = references.softmax(z)
    exact = references.differences(lambda z: (references.softmax(z) * cost).sum(), z)
    moments = {}
    for baseline in (False, True):
        estimates, chance = [], []

        def surrogate(z, choice, baseline=baseline):
            paid = ops.sum(choice * tensor(cost), axis=-1)
            logs = choices.log_probability(z, choice)
            less = choices.leave_one_out(paid) if baseline else 0.0
            return ops.sum(choices.reinforce(paid, logs, less))

        for places in itertools.product(range(3), repeat=2):
            choice = np.eye(3)[list(places)]
            found, _ = gradient(surrogate, z, choice)
            estimates.append(found)
            chance.append(p[0, places[0]] * p[1, places[1]])
        estimates, chance = np.array(estimates), np.array(chance)[:, None, None]
        mean = (chance * estimates).sum(0)
        np.testing.assert_allclose(mean, exact, atol=1e-5)
        moments[baseline] = (chance * (estimates - mean) ** 2).sum()
    assert moments[True] < 0.5 * moments[False]


def test_the_value_is_the_cost():
    cost, logs = references.normal(B), -1 - references.normal(B, seed=1) ** 2
    found = choices.reinforce(tensor(cost), tensor(logs), 0.3)
    np.testing.assert_array_equal(to_numpy(found), to_numpy(tensor(cost)))
    assert keras.backend.standardize_dtype(found.dtype) == "float32"


def test_log_probability_beside_minus_infinity():
    scores, choice = np.array([[0.0, -np.inf]]), np.array([[1.0, 0.0]])
    logs = choices.log_probability(tensor(scores), tensor(choice))
    assert to_numpy(logs).tolist() == [0.0]
