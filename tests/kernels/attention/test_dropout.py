"""Dropout of attention weights in the kernel of JAX; the mask is never stored."""

import numpy as np
import pytest
import references
from gradients import to_numpy

from keras_attention import kernels
from keras_attention.kernels.attention import tiles as tiled
from keras_attention.layers import MultiHeadAttention

jax = pytest.importorskip("jax")
jnp = jax.numpy
kernel = pytest.importorskip("keras_attention.kernels.attention.jax")

pytestmark = pytest.mark.backends("jax", reason="only JAX has this kernel")

B, T, S, H, G, E, V = 2, 7, 11, 4, 2, 5, 3
RATE = 0.3
SEED = jax.random.PRNGKey(3)


def inputs():
    shapes = (B, T, H, E), (B, S, G, E), (B, S, G, V)
    arrays = references.normals(*shapes)
    mask = np.random.default_rng(9).random((B, 1, 1, S)) < 0.7
    mask[0] = False
    bias = references.normal(1, H, T, S, seed=5)
    return [jnp.asarray(x, "float32") for x in (*arrays, bias)], jnp.asarray(mask)


class Seed:
    """A seed generator that draws the same seed each time."""

    def next(self):
        return SEED


def attend(arrays, mask):
    query, key, value, bias = arrays
    options = mask, E**-0.5, True, bias, RATE, Seed()
    return kernels.dropout_attention(query, key, value, *options)


def expected(arrays, mask):
    """The same with a stored mask, in which the words of all pairs are compared."""
    query, key, value, bias = arrays
    words = kernel.sample(query, key, RATE, SEED)
    kept = kernel.drop(jnp.ones((B, H, T, S)), words)
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (query, key, value))
    k, v = (jnp.repeat(x, H // G, axis=1) for x in (k, v))
    scores = q @ jnp.swapaxes(k, 2, 3) * E**-0.5 + bias
    seen = jnp.broadcast_to(mask & np.tri(T, S, dtype=bool), scores.shape)
    weights = jnp.where(seen, jnp.exp(scores), 0)
    total = weights.sum(-1, keepdims=True)
    weights = weights / jnp.where(total == 0, 1, total) * kept
    return jnp.swapaxes(weights @ v, 1, 2)


@pytest.fixture(params=["tiles", "whole"])
def form(request, monkeypatch):
    if request.param == "tiles":
        sizes = {"LEAST": 1, "FEWEST": 2, "MOST": 2, "SEGMENTS": 2}
        for name, size in sizes.items():
            monkeypatch.setattr(tiled, name, size)


@pytest.mark.usefixtures("form")
def test_output_and_gradients_are_those_of_a_stored_mask():
    arrays, mask = inputs()
    probe = jnp.asarray(references.normal(B, T, H, V, seed=8), "float32")

    def found(function):
        def loss(*x):
            out = function(x, mask)
            return (out * probe).sum(), out

        form = jax.grad(loss, argnums=(0, 1, 2, 3), has_aux=True)
        slopes, out = jax.jit(form)(*arrays)
        return [out, *slopes]

    for ours, wanted in zip(found(attend), found(expected), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)
        assert np.isfinite(ours).all()
    assert not np.asarray(attend(arrays, mask))[0].any()  # no key to attend to


def test_the_rate_and_the_independence_of_the_pairs():
    shape = (1, 512, 2, 1)
    x = jnp.zeros(shape)
    words = kernel.sample(x, x, RATE, jax.random.PRNGKey(7))
    kept = np.asarray(kernel.drop(jnp.ones((1, 2, 512, 512)), words))
    assert set(np.unique(kept)) == {0, np.float32(1 / (1 - RATE))}
    kept = kept > 0
    noise = kept - (1 - RATE)
    sigma = (RATE * (1 - RATE)) ** 0.5
    assert abs(noise.mean()) < 4 * sigma / kept.size**0.5
    for axis in (2, 3):  # the counts of rows and columns are binomial
        spread = noise.sum(axis).std() / (sigma * 512**0.5)
        assert 0.9 < spread < 1.1
    flat = noise[0] / sigma
    pairs = np.einsum("hts,hus->htu", flat, flat) / 512**0.5  # rows with each other
    pairs = pairs[:, ~np.eye(512, dtype=bool)]
    assert abs(pairs.std() - 1) < 0.02
    assert abs(pairs).max() < 6.5
    both = (flat[0] * flat[1]).mean() * 512  # one head with the other
    assert abs(both) < 4
    # Of each four corners of a rectangle, no three determine the fourth.
    corners = flat[:, :256, :256] * flat[:, 256:, :256]
    corners = corners * flat[:, :256, 256:] * flat[:, 256:, 256:]
    assert abs(corners.mean()) * corners.size**0.5 < 4


def layer_and_input(**options):
    layer = MultiHeadAttention(2, 4, dropout=0.4, seed=5, **options)
    x = references.normal(2, 13, 8, seed=1).astype("float32")
    layer.build(x.shape, x.shape)
    return layer, x


def test_the_layer_draws_from_its_seed():
    (layer, x), (same, _) = layer_and_input(), layer_and_input()
    same.set_weights(layer.get_weights())
    steps = [
        [to_numpy(one(x, x, training=True)) for _ in range(2)] for one in (layer, same)
    ]
    np.testing.assert_array_equal(steps[0], steps[1])
    assert np.abs(steps[0][0] - steps[0][1]).max() > 1e-3
    assert np.abs(steps[0][0] - to_numpy(layer(x, x))).max() > 1e-3


def test_the_mean_over_many_steps_is_the_output_without_dropout():
    layer, x = layer_and_input()
    weights = [w.value for w in layer.trainable_variables]

    @jax.jit
    def step(state):
        return layer.stateless_call(weights, state, x, x, training=True)

    state, found = [w.value for w in layer.non_trainable_variables], []
    for _ in range(400):
        out, state = step(state)
        found.append(to_numpy(out))
    error = np.std(found, axis=0) / 400**0.5
    assert (abs(np.mean(found, 0) - to_numpy(layer(x, x))) < 5 * error + 1e-6).all()


def test_other_normalizers_and_returned_weights_stay_explicit(monkeypatch):
    def refuse(*_):
        raise AssertionError("this call needs explicit weights")

    monkeypatch.setattr(kernels, "dropout_attention", refuse)
    for options in ({"normalizer": "sparsemax"}, {"attention_sinks": True}):
        layer, x = layer_and_input(**options)
        layer(x, x, training=True)
    layer, x = layer_and_input()
    layer(x, x, training=True, return_attention_scores=True)
    with pytest.raises(AssertionError, match="explicit"):
        layer(x, x, training=True)
