"""`ops.loop` against plain loops in NumPy, with gradients, on every backend."""

import numpy as np
import pytest
from calling import needs_training
from gradients import gradient, to_numpy
from keras import ops

from keras_attention.ops.sequence import loop

pytestmark = pytest.mark.backends("all")  # each backend has its own kernel

T, B, D = 5, 2, 3


def data(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(T, B, D)).astype("float32")
    kernel = rng.normal(size=(D, D)).astype("float32")
    return x, kernel


def recurrence(x, kernel):
    """hₜ = tanh(hₜ₋₁ W + xₜ); outputs hₜ and hₜ₋₁."""

    def step(state, now):
        h = ops.tanh(ops.matmul(state["h"], kernel) + now[0])
        return {"h": h}, (h, state["h"])

    start = {"h": ops.zeros((ops.shape(x)[1], D), "float32")}
    return loop.scan(step, start, (x,))


def reference(x, kernel):
    h, hs = np.zeros((B, D)), []
    for now in x.astype("float64"):
        h = np.tanh(h @ kernel + now)
        hs.append(h)
    return np.stack(hs)


def test_scan_is_a_loop():
    x, kernel = data()
    state, (after, before) = recurrence(*map(ops.convert_to_tensor, (x, kernel)))
    expected = reference(x, kernel)
    np.testing.assert_allclose(to_numpy(after), expected, atol=1e-6)
    np.testing.assert_allclose(to_numpy(state["h"]), expected[-1], atol=1e-6)
    np.testing.assert_allclose(to_numpy(before)[1:], expected[:-1], atol=1e-6)
    assert (to_numpy(before)[0] == 0).all()


@needs_training
def test_gradients_go_back_through_every_step():
    x, kernel = data()

    def loss(x, kernel):
        state, (after, _) = recurrence(x, kernel)
        return ops.sum(after**2) + ops.sum(state["h"])

    found = gradient(loss, x, kernel)
    rng = np.random.default_rng(1)
    for which, array in enumerate((x, kernel)):
        direction = rng.normal(size=array.shape)

        def value(step, which=which, direction=direction):
            given = [x.astype("float64"), kernel.astype("float64")]
            given[which] = given[which] + step * direction
            hs = reference(*given)
            return (hs**2).sum() + hs[-1].sum()

        slope = (value(1e-5) - value(-1e-5)) / 2e-5
        assert np.sum(found[which] * direction) == pytest.approx(slope, rel=1e-3)


@pytest.mark.backends("tensorflow", reason="of TensorFlow's graphs")
@pytest.mark.parametrize("xla", [False, True])
def test_a_graph_of_unknown_length(xla):
    import tensorflow as tf

    x, kernel = data()
    spec = tf.TensorSpec([None, None, D])

    @tf.function(jit_compile=xla, input_signature=[spec])
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            state, (after, _) = recurrence(x, kernel)
            loss = tf.reduce_sum(after)
        return state["h"], after, tape.gradient(loss, x)

    for length in (T, T - 2, 1):
        _, after, slope = run(x[:length])
        np.testing.assert_allclose(after, reference(x[:length], kernel), atol=1e-6)
        assert np.isfinite(slope).all()
        assert (slope.numpy() != 0).all()


@pytest.mark.backends("tensorflow", reason="of TensorFlow's graphs")
def test_a_graph_knows_the_shape_of_the_outputs():
    import tensorflow as tf

    x, kernel = data()

    @tf.function
    def run(x):
        _, (after, _) = recurrence(x, kernel)
        assert after.shape == reference(*data()).shape
        return after

    run(tf.constant(x))


@pytest.mark.backends("jax", reason="of JAX' compiled functions")
def test_compiled_on_jax():
    import jax

    x, kernel = data()
    state, _ = jax.jit(recurrence)(x, kernel)
    np.testing.assert_allclose(state["h"], reference(x, kernel)[-1], atol=1e-6)


def test_choose_takes_rows():
    new = {"a": ops.ones((2, 3)), "b": ops.ones((2,))}
    old = {"a": ops.zeros((2, 3)), "b": ops.zeros((2,))}
    chosen = loop.choose(ops.convert_to_tensor([True, False]), new, old)
    np.testing.assert_array_equal(to_numpy(chosen["a"]), [[1, 1, 1], [0, 0, 0]])
    np.testing.assert_array_equal(to_numpy(chosen["b"]), [1, 0])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((), "`inputs` must hold at least one tensor. Received: none"),
        ((np.ones((2, 1)), np.ones((3, 1))), r"one length \(axis 0\)"),
        ((np.ones((0, 1)),), "at least one step. Received: none"),
    ],
)
def test_errors(inputs, message):
    with pytest.raises(ValueError, match=message):
        loop.scan(lambda s, x: (s, x), (), inputs)
