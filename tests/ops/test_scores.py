"""Scores against float64 references, over values and dtypes."""

import keras
import numpy as np
import pytest
import references
from gradients import gradient, tensor, to_numpy
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from keras_attention.ops import normalizers, scores

pytestmark = pytest.mark.backends("all")

NAMES = list(references.SCORES)
# (..., T, D) and (..., S, D)
SHAPES = [(2, 3, 5), (2, 7, 5)]


@pytest.mark.parametrize("name", NAMES)
@references.examples
@given(data=st.data())
def test_equals_reference(name, data):
    query, key = (data.draw(references.arrays(shape, size=4)) for shape in SHAPES)
    dtype = data.draw(st.sampled_from(references.DTYPES))
    similar = scores.get(name)(tensor(query, dtype), tensor(key, dtype))
    assert keras.backend.standardize_dtype(similar.dtype) == dtype
    query, key = references.rounded(query, dtype), references.rounded(key, dtype)
    expected = references.SCORES[name](query, key)
    # A sum of products is as exact as its largest part.
    q, k = np.linalg.norm(query, axis=-1), np.linalg.norm(key, axis=-1)
    sizes = (q[..., :, None] + k[..., None, :]) ** 2 + 1
    sizes = np.ones_like(sizes) if name == "cosine" else sizes
    error = (4 * references.ROUNDING[dtype] + 1e-6) * sizes
    assert np.all(np.abs(to_numpy(similar) - expected) <= error)


@pytest.mark.parametrize("name", NAMES)
def test_gradient_equals_finite_differences(name):
    query, key = references.normal(2, 3, 5), references.normal(2, 7, 5, seed=1)
    probe = references.normal(2, 3, 7, seed=2)
    found = gradient(
        lambda q, k: ops.sum(tensor(probe) * scores.get(name)(q, k)), query, key
    )
    reference = references.SCORES[name]
    expected = (
        references.differences(lambda q: (probe * reference(q, key)).sum(), query),
        references.differences(lambda k: (probe * reference(query, k)).sum(), key),
    )
    for slope, wanted in zip(found, expected):
        np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-5)


def _bilinear(query, key, kernel):
    return references.each_pair(lambda q, k: k @ kernel @ q)(query, key)


def _additive(query, key, scale):
    return references.each_pair(lambda q, k: scale @ np.tanh(q + k))(query, key)


WEIGHTED = [  # score, reference, shapes of query, key and weight
    (scores.bilinear, _bilinear, [(2, 3, 5), (2, 7, 4), (4, 5)]),
    (scores.additive, _additive, [(2, 3, 5), (2, 7, 5), (5,)]),
]


@pytest.mark.parametrize(("score", "reference", "shapes"), WEIGHTED)
@references.examples
@given(data=st.data())
def test_weighted_score_equals_reference(score, reference, shapes, data):
    given_ = [data.draw(references.arrays(shape, size=2)) for shape in shapes]
    dtype = data.draw(st.sampled_from(references.DTYPES))
    similar = score(*(tensor(x, dtype) for x in given_))
    assert keras.backend.standardize_dtype(similar.dtype) == dtype
    query, key, weight = (references.rounded(x, dtype) for x in given_)
    expected = reference(query, key, weight)
    sizes = reference(np.abs(query), np.abs(key), np.abs(weight)) + 1
    if score is scores.additive:
        sizes = np.abs(weight).sum() * 4 + 1  # tanh of a sum that is rounded first
    error = (8 * references.ROUNDING[dtype] + 1e-6) * sizes
    assert np.all(np.abs(to_numpy(similar) - expected) <= error)


@pytest.mark.parametrize(("score", "reference", "shapes"), WEIGHTED)
def test_weighted_gradient_equals_finite_differences(score, reference, shapes):
    inputs = references.normals(*shapes)
    probe = references.normal(2, 3, 7, seed=9)
    found = gradient(lambda *x: ops.sum(tensor(probe) * score(*x)), *inputs)
    for i, slope in enumerate(found):

        def moved(x, i=i):
            there = [*inputs[:i], x, *inputs[i + 1 :]]
            return (probe * reference(*there)).sum()

        expected = references.differences(moved, inputs[i])
        np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", references.DTYPES)
def test_cosine_of_a_zero_vector(dtype):
    query, key = references.normal(3, 5), references.normal(7, 5, seed=1)
    query[1] = 0
    key[4] = 0
    similar = to_numpy(scores.cosine(tensor(query, dtype), tensor(key, dtype)))
    assert np.all(similar[1] == 0)
    assert np.all(similar[:, 4] == 0)
    assert np.all(similar[[0, 2]][:, :4] != 0)
    found = gradient(lambda q, k: ops.sum(scores.cosine(q, k)), query, key, dtype=dtype)
    assert all(np.all(np.isfinite(slope)) for slope in found)


@pytest.mark.parametrize("dtype", references.DTYPES)
def test_cosine_of_long_vectors_does_not_overflow(dtype):
    long = np.array([[3e4, 4e4], [3e-4, 4e-4]])
    similar = to_numpy(scores.cosine(tensor(long, dtype), tensor(long, dtype)))
    np.testing.assert_allclose(similar, 1, rtol=2e-2 if dtype != "float32" else 1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rbf_in_half_precision_neither_cancels_nor_overflows(dtype):
    x = np.concatenate([300 + references.normal(3, 5), np.full((1, 5), -3e4)])
    x = references.rounded(x, dtype)
    similar = to_numpy(scores.rbf(tensor(x, dtype), tensor(x, dtype)))
    lowest = -65504.0 if dtype == "float16" else -np.inf
    expected = np.maximum(references.SCORES["rbf"](x, x), lowest)
    error = references.ROUNDING[dtype] * np.abs(expected) + 0.3  # 1e-7 of 5 · 300²
    error[3, 3] = 1e3  # 1e-7 of (3e4)² · 5
    assert np.all(np.abs(similar - expected) <= error)


@references.examples
@given(gamma=st.floats(0.1, 2.0), size=st.floats(0.1, 3.0))
def test_softmax_of_rbf_is_the_normalized_kernel(gamma, size):
    query, key = size * references.normal(3, 5), size * references.normal(7, 5, seed=1)
    similar = scores.rbf(tensor(query), tensor(key), gamma)
    weights = to_numpy(normalizers.softmax(similar))
    distances = np.linalg.norm(query[:, None] - key[None], axis=-1)
    kernel = np.exp(-gamma * distances**2)  # (3, 7)
    expected = kernel / kernel.sum(-1, keepdims=True)
    np.testing.assert_allclose(weights, expected, rtol=1e-3, atol=1e-6)


def test_rbf_is_never_positive_and_takes_a_tensor():
    x = tensor(100 * references.normal(3, 5))
    similar = to_numpy(scores.rbf(x, x, ops.convert_to_tensor(0.5)))
    assert np.all(similar <= 0)
    np.testing.assert_allclose(np.diag(similar), 0, atol=1e-2)


@pytest.mark.parametrize("name", NAMES)
def test_queries_and_keys_of_two_widths(name):
    message = (
        r"`query` and `key` must have the same width \(last axis\) for this score; "
        r"'general' and 'additive' scores compare all widths\. "
        r"Received: query\.shape=\(3, 5\), key\.shape=\(7, 4\)"
    )
    with pytest.raises(ValueError, match=message):
        scores.get(name)(tensor(np.ones((3, 5))), tensor(np.ones((7, 4))))


def test_get_takes_callables_and_names_what_it_knows():
    mine = lambda query, key: None  # noqa: E731
    assert scores.get(mine) is mine
    known = "cosine.*dot.*rbf.*scaled_dot"
    with pytest.raises(ValueError, match=f"{known}.*Received: score='dott'"):
        scores.get("dott")


@pytest.mark.parametrize("width", [1, 7, 16])
@pytest.mark.parametrize("gamma", [1.0, 100.0])
@pytest.mark.parametrize("offset", [2005.0, 20000.0, -20000.0])
def test_rbf_far_from_the_origin(offset, gamma, width):
    """Years, for example, whose squares cancel in float32."""
    rng = np.random.default_rng(0)
    query = offset + rng.integers(-15, 15, (3, width)) + 0.25
    key = offset + rng.integers(-15, 15, (31, width))
    weights = normalizers.softmax(scores.rbf(tensor(query), tensor(key), gamma))
    expected = references.softmax(gamma * references.SCORES["rbf"](query, key))
    np.testing.assert_allclose(to_numpy(weights), expected, rtol=1e-5, atol=1e-6)


def test_distant_key_does_not_spoil_distances_of_others():
    query, key = references.normal(3, 16), references.normal(5, 16, seed=1)
    key[2] = 1e6  # a masked key may hold anything
    similar = to_numpy(scores.rbf(tensor(query), tensor(key)))
    expected = references.SCORES["rbf"](query, key)
    np.testing.assert_allclose(similar, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4, 1e10, 1e20, 1e38])
def test_cosine_of_every_size(size):
    query, key = references.normal(3, 5), references.normal(7, 5, seed=1)
    similar = to_numpy(scores.cosine(tensor(size * query), tensor(key / size)))
    if size > 1e10:  # vectors with a norm below 1e-12 count as 0
        similar = to_numpy(scores.cosine(tensor(size * query), tensor(key)))
    expected = references.SCORES["cosine"](query, key)
    np.testing.assert_allclose(similar, expected, atol=1e-6)
    slopes = gradient(
        lambda q, k: ops.sum(scores.cosine(q, k)), query * min(size, 1e20), key
    )
    assert all(np.all(np.isfinite(slope)) for slope in slopes)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_show_what_is_not_finite(name, bad):
    query, key = references.normal(2, 3, 9), references.normal(2, 7, 9, seed=1)
    query[0, 1, 2] = key[1, 4, 3] = bad
    with np.errstate(all="ignore"):
        similar = to_numpy(scores.get(name)(tensor(query), tensor(key)))
        expected = references.SCORES[name](query, key)
    shown = ~np.isfinite(expected)
    assert np.all(~np.isfinite(similar[shown]))
    np.testing.assert_allclose(similar[~shown], expected[~shown], atol=1e-4)


WIDE = [  # queries and keys with which tanh(q + k) is not what clipped values give
    (60.0, -50.0),
    (-60.0, 58.5),
    (1e4, -1e4 + 0.5),
    (1e20, -1e20),
    (200.0, 3.0),
    (-3.0, 200.0),
    (40.0, -42.0),
    (np.inf, -50.0),
    (np.inf, -np.inf),
    (np.nan, 50.0),
    (1.0, np.nan),
]


@pytest.mark.parametrize("batch", [1, 64])  # below and above the least work that pays
def test_additive_far_from_zero_in_every_size(batch):
    """The factored form clipped queries and keys to ±43."""
    scale = references.normal(8, seed=2)
    for q, k in WIDE:
        query = references.normal(batch, 5, 8)
        key = references.normal(batch, 7, 8, seed=1)
        query[:, 1, 2], key[:, 3, 2] = q, k
        with np.errstate(all="ignore"):
            expected = _additive(rounded32(query), rounded32(key), scale)
            similar = scores.additive(tensor(query), tensor(key), tensor(scale))
            precomputed = scores.precompute_key(tensor(key))
            single = scores.additive(tensor(query[:, 1:2]), precomputed, tensor(scale))
        error = {"rtol": 0, "atol": 2e-6 * np.abs(scale).sum() + 1e-6}
        np.testing.assert_allclose(to_numpy(similar), expected, **error)
        np.testing.assert_allclose(to_numpy(single), expected[:, 1:2], **error)


def rounded32(x):
    return x.astype("float32").astype("float64")


@pytest.mark.parametrize("batch", [1, 64])
def test_gradient_of_additive_far_from_zero(batch):
    query, key = 20 * references.normal(batch, 5, 8), references.normal(batch, 7, 8)
    query[:, 1, 2], key[:, 3, 2] = 60.25, -60.0
    scale = references.normal(8, seed=2)
    found = gradient(lambda *x: ops.sum(scores.additive(*x)), query, key, scale)
    query, key = rounded32(query), rounded32(key)
    units = np.tanh(query[:, :, None] + key[:, None])
    part = scale * (1 - units**2)
    expected = part.sum(2), part.sum(1), units.sum((0, 1, 2))
    for slope, wanted in zip(found, expected):
        np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-4)


def test_rbf_of_arrays_and_of_no_keys():
    query = np.ones((1, 3, 16), "float32")
    assert to_numpy(scores.rbf(query, query)).tolist() == [[[0.0] * 3] * 3]
    assert tuple(scores.rbf(query, query[:, :0]).shape) == (1, 3, 0)
