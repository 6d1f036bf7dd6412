"""The mixture of generated and copied words, against plain NumPy in float64."""

import numpy as np
import pytest
from gradients import gradient, tensor, to_numpy
from keras import ops

from keras_attention.ops import copying

pytestmark = pytest.mark.backends("all")

B, T, S, V, X = 2, 3, 5, 7, 4
IDS = np.array([[1, 7, 4, 7, 9], [8, 4, 4, 0, 0]])  # 7 and more are extra ids


def inputs():
    """Logits, gates and weights; the last two words of the second source are masked."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(S), (B, T))
    weights[1, :, 3:] = 0
    return rng.normal(size=(B, T, V)), rng.normal(size=(B, T, 1)), weights


def mixture(logits, gate, weights):
    """p(w) of See et al., equation 9, word by word."""
    g = 1 / (1 + np.exp(-gate[..., 0]))
    p = np.zeros((B, T, V + X))
    softmax = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    p[..., :V] = g[..., None] * softmax
    for b, t, s in np.ndindex(B, T, S):
        p[b, t, IDS[b, s]] += (1 - g[b, t]) * weights[b, t, s]
    return p


def call(logits, gate, weights, ids=IDS):
    return copying.pointer_generator(logits, gate, weights, tensor(ids, "int32"), X)


def test_it_is_the_published_mixture():
    z, gate, weights = inputs()
    wanted = mixture(z, gate, weights)
    found = to_numpy(call(*map(tensor, (z, gate, weights))))
    np.testing.assert_allclose(np.exp(found), wanted, atol=1e-6)
    np.testing.assert_allclose(np.exp(found).sum(-1)[0], 1, rtol=1e-6)
    assert (np.exp(found[wanted == 0]) == 0).all()
    step = to_numpy(call(*(tensor(x[:, 1]) for x in (z, gate, weights))))
    np.testing.assert_allclose(step, found[:, 1], atol=1e-5)


def test_its_gradients_are_finite_differences():
    arrays = inputs()
    along = np.random.default_rng(1).normal(size=(B, T, V + X))
    along *= mixture(*arrays) > 0

    def total(*arrays):
        p = mixture(*arrays)
        return (along * np.log(np.where(p > 0, p, 1))).sum()

    found = gradient(lambda *x: ops.sum(tensor(along) * call(*x)), *arrays)
    for n, array in enumerate(arrays):
        for place in np.ndindex(array.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [x.copy() for x in arrays]
                moved[n][place] += step
                ends.append(total(*moved))
            if n == 2 and array[place] == 0:  # a masked word
                continue
            slope = (ends[0] - ends[1]) / 2e-6
            np.testing.assert_allclose(found[n][place], slope, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("gate", [-200.0, 200.0])
def test_a_closed_gate_and_a_masked_source_give_finite_numbers(gate):
    z, _, weights = inputs()
    weights[0] = 0  # nothing to attend to
    arrays = z, np.full((B, T, 1), gate), weights
    assert np.isfinite(to_numpy(call(*map(tensor, arrays)))).all()
    labels = tensor(np.eye(V + X)[[[7, 1, 3], [8, 4, 10]]])
    for slope in gradient(lambda *x: ops.sum(labels * call(*x)), *arrays):
        assert np.isfinite(slope).all()


def test_half_precision():
    z, gate, weights = inputs()
    found = call(*(tensor(x, "float16") for x in (z, gate, weights)))
    wanted = mixture(z, gate, weights)
    np.testing.assert_allclose(np.exp(to_numpy(found)), wanted, atol=2e-3)
