"""Adaptive computation time against a loop over positions in float64."""

import numpy as np
import pytest
from gradients import gradient, tensor, to_numpy
from keras import ops

from keras_attention.ops import halting

B, T, STEPS, THRESHOLD = 2, 5, 4, 0.9
VALID = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 1, 0]], bool)


def probabilities(seed=0):
    """Of each step; position 0 halts at once, position 1 never."""
    p = np.random.default_rng(seed).uniform(0.1, 0.7, (STEPS, B, T))
    p[:, :, 0], p[:, :, 1] = 0.95, 0.1
    return p


def by_hand(p, valid=VALID, threshold=THRESHOLD):
    """Weights (STEPS, B, T), N and R, by equations 5 to 8 of Graves (2016)."""
    weights, steps, rest = np.zeros(p.shape), np.zeros((B, T)), np.zeros((B, T))
    for b, t in zip(*np.nonzero(valid)):
        total = 0.0
        for n in range(len(p)):
            steps[b, t] = n + 1
            if total + p[n, b, t] > threshold:
                weights[n, b, t] = rest[b, t] = 1 - total
                break
            weights[n, b, t] = p[n, b, t]
            total += p[n, b, t]
    return weights, steps, rest


def run(p, valid=VALID, threshold=THRESHOLD):
    state, weights = halting.initial_halting(tensor(valid, "bool")), []
    for one in p:
        weight, state = halting.halting_step(tensor(one), state, threshold)
        weights.append(weight)
    return weights, state


@pytest.mark.backends("all")
@pytest.mark.parametrize("seed", [0, 1])
def test_halting_equals_its_equations(seed):
    p = probabilities(seed)
    weights, state = run(p)
    expected, steps, rest = by_hand(p)
    assert {*steps[VALID]} >= {1, 2, STEPS}  # the case has all kinds
    np.testing.assert_allclose(to_numpy(ops.stack(weights)), expected, atol=1e-6)
    np.testing.assert_array_equal(to_numpy(state.updates), steps)
    np.testing.assert_allclose(to_numpy(state.remainder), rest, atol=1e-6)
    np.testing.assert_allclose(to_numpy(state.probability), expected.sum(0), atol=1e-6)
    cost = halting.ponder_cost(state, tensor(VALID, "bool"))
    mean = (steps + rest)[VALID].mean()
    np.testing.assert_allclose(to_numpy(cost), mean, rtol=1e-6)


def test_who_has_halted_stays_so():
    """Whatever h + (1 − h) is rounded to."""
    h = np.random.default_rng(0).uniform(0, 0.4, (50, 1000))
    weights, state = run([h, np.ones_like(h), h, h], np.ones(h.shape, bool))
    np.testing.assert_array_equal(to_numpy(state.updates), 2)
    assert not np.any(to_numpy(ops.stack(weights[2:])))


def test_a_threshold_of_one_is_reached_by_more_than_it():
    _, state = run(np.full((3, 1, 1), 0.5), np.ones((1, 1), bool), 1.0)
    assert to_numpy(state.updates).item() == 3


def test_nothing_valid_costs_nothing():
    nobody = np.zeros((B, T), bool)
    weights, state = run(probabilities(), nobody)
    assert not np.any(to_numpy(ops.stack(weights)))
    assert to_numpy(halting.ponder_cost(state, tensor(nobody, "bool"))) == 0


def test_the_gradient_of_the_cost_is_that_of_the_remainder():
    p = probabilities()
    _, steps, rest = by_hand(p)

    def cost(given):
        state = halting.initial_halting(tensor(VALID, "bool"))
        for n in range(STEPS):
            state = halting.halting_step(given[n], state, THRESHOLD)[1]
        return halting.ponder_cost(state, tensor(VALID, "bool"))

    (found,) = gradient(cost, p)
    earlier = np.arange(1, STEPS + 1)[:, None, None] < steps
    expected = np.where(earlier & (rest > 0) & VALID, -1 / VALID.sum(), 0.0)
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_interpolation_equals_one_update_per_step():
    rng = np.random.default_rng(0)
    states, weights = rng.normal(size=(STEPS, B, T, 3)), rng.uniform(size=(STEPS, B, T))
    y = np.zeros((B, T, 3))
    for x, w in zip(states, weights[..., None]):
        y = w * x + (1 - w) * y
    found = halting.interpolate([*map(tensor, states)], [*map(tensor, weights)])
    np.testing.assert_allclose(to_numpy(found), y, atol=1e-6)
