"""Learned memories whose keys are pairs of sub-keys, against all n² keys in NumPy."""

import keras
import numpy as np
import pytest
from gradients import gradient, to_numpy
from heads import close, normal, shaken

from keras_attention import layers
from keras_attention.ops.hopfield.retrieval import product_top_k

B, T, D, N = 2, 3, 8, 5  # N first and N second halves: 25 patterns


def product(**arguments):
    """A layer with random weights, biases included."""
    layer = layers.HopfieldLayer(N * N, keys="product", **arguments)
    layer.build((B, T, D))
    return shaken(layer)


def all_keys(layer):
    """The sub-keys (2, H, n, E/2) and all n² keys of each head, (H, S, E), float64."""
    kernel = to_numpy(layer.weights[-2].value).transpose(1, 0, 3, 2)
    first, second = (np.repeat(kernel[0], N, 1), np.tile(kernel[1], (1, N, 1)))
    return kernel, np.concatenate([first, second], -1)


@pytest.mark.backends("all")
@pytest.mark.parametrize(
    ("n", "k", "dtype"),
    [(7, 4, "float32"), (7, 49, "float32"), (3, 5, "float32"), (7, 4, "bfloat16")],
)
def test_the_best_of_all_sums_are_found_ties_included(n, k, dtype):
    rng = np.random.default_rng(n + k)
    for highest in (2, 50):  # many sums are equal, or few
        first, second = rng.integers(-highest, highest, (2, 11, 3, n)).astype("float32")
        a, b = (keras.ops.cast(x, dtype) for x in (first, second))
        sums, indices = map(keras.ops.convert_to_numpy, product_top_k(a, b, k))
        everything = (first[..., :, None] + second[..., None, :]).reshape(11, 3, -1)
        expected = -np.sort(-everything)[..., :k]
        np.testing.assert_array_equal(sums, expected)
        np.testing.assert_array_equal(
            np.take_along_axis(everything, indices, -1), expected
        )
        assert (np.diff(np.sort(indices)) > 0).all()  # no index twice
        assert (sums.dtype, indices.dtype) == ("float32", "int32")


@pytest.mark.parametrize("top_k", [1, 4, None])
def test_a_lookup_reads_the_values_of_the_best_keys(top_k):
    layer = product(num_heads=2, beta=[0.7, 2.0], top_k=top_k, separate_values=True)
    x, mask = normal(B, T, D), np.array([[1, 0, 1], [1, 1, 1]], bool)
    kernel, bias = map(to_numpy, layer.hopfield.query_dense.weights)
    q = np.einsum("btd,dhe->bhte", x, kernel) + bias[:, None]
    z = np.array([0.7, 2.0])[:, None, None] * (q @ all_keys(layer)[1].swapaxes(1, 2))
    threshold = np.sort(z)[..., -(top_k or N * N), None]
    weights = np.exp(z) * (z >= threshold)
    weights = weights / weights.sum(-1, keepdims=True) * mask[:, None, :, None]
    expected = np.einsum("bhts,sv->btv", weights, to_numpy(layer.values))
    output, returned = layer(x, mask=mask, return_attention_scores=True)
    close(output, expected)
    close(returned, weights)
    close(layer(x, mask=mask), expected)
    assert (to_numpy(output)[0, 1] == 0).all()
    one = layer(x[:, 0], return_attention_scores=True)
    close(one[0], expected[:, 0])
    close(one[1], weights[:, :, 0])


def pairs_and_patterns(normalizer):
    """A layer with product keys that reads all, and one that stores all n² keys."""
    arguments = {"projections": False, "beta": 0.9, "normalizer": normalizer}
    pairs = product(**arguments, top_k=N * N)
    stored = layers.HopfieldLayer(N * N, separate_values=True, **arguments)
    stored.build((B, T, D))
    stored.patterns.assign(all_keys(pairs)[1][0])
    stored.values.assign(to_numpy(pairs.values))
    return pairs, stored


@pytest.mark.parametrize("normalizer", ["softmax", "softmax1", "entmax15", "hardmax"])
def test_with_all_keys_it_is_the_layer_that_stores_them(normalizer):
    pairs, stored = pairs_and_patterns(normalizer)
    x = normal(B, T, D, seed=5)
    for a, b in zip(*(f(x, return_attention_scores=True) for f in (pairs, stored))):
        close(a, b)


def test_gradients_reach_both_halves_of_the_keys_and_the_values():
    x, direction = normal(B, T, D, seed=5), normal(B, T, D, seed=6)
    slopes = []
    for layer in pairs_and_patterns("softmax"):
        weights = [to_numpy(weight.value) for weight in layer.weights]

        def loss(*weights, layer=layer):
            return keras.ops.sum(
                layer.stateless_call(weights, [], x)[0]
                * keras.ops.convert_to_tensor(direction)
            )

        slopes.append(gradient(loss, *weights))
    (kernel, values), (patterns, all_values) = slopes
    close(values, all_values)
    patterns = patterns.reshape(N, N, D)  # of pair (i, j)
    close(kernel[0, 0].T, patterns[..., : D // 2].sum(1))
    close(kernel[0, 1].T, patterns[..., D // 2 :].sum(0))
    assert np.abs(kernel).min() > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_patterns": 24}, r"`num_patterns` must be a square number with.*=24"),
        ({"top_k": 26}, r"`top_k` must be at most 25 with.*top_k=26"),
        ({"top_k": 0}, r"`top_k` must be at least 1.*top_k=0"),
        ({"update_steps": 2}, r"`update_steps` must be 1.*update_steps=2"),
        ({"update_steps": None}, r"`update_steps` must be 1.*update_steps=None"),
        ({"keys": "products"}, r"`keys` must be one of.*keys='products'"),
        ({"keys": None, "top_k": 3}, r"`top_k` must be None, .* keys=None.*top_k=3"),
        ({"key_dim": 3}, r"`key_dim` must be even.*key_dim=3"),
        (
            {"projections": {"query_key_normalization": "rms"}},
            r"`query_key_normalization` must be None.*='rms'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.HopfieldLayer(
            **{"num_patterns": N * N, "keys": "product", **arguments}
        ).build((B, T, D))


def test_the_pairs_are_not_stored():
    with pytest.raises(RuntimeError, match="`patterns` are not stored with keys='prod"):
        _ = product().patterns
    with pytest.raises(ValueError, match=r"`k` must be at most n².*k=10, n=3"):
        product_top_k(np.ones((2, 3)), np.ones((2, 3)), 10)
