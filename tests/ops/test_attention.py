"""Attention, explicit and fused, against a float64 reference."""

import itertools

import keras
import numpy as np
import pytest
import references
from calling import TRAINS, needs_training
from gradients import gradient, tensor, to_numpy
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from keras_attention.ops import attend, attend_heads, dot_product_attention

pytestmark = pytest.mark.backends("all")  # each backend has its own kernel

PAIRS = list(itertools.product(references.SCORES, references.NORMALIZERS))
B, T, S, D, V = 2, 3, 5, 7, 11
H = 3


def inputs():
    return references.normals((B, T, D), (B, S, D), (B, S, V))


@pytest.mark.parametrize(("score", "normalizer"), PAIRS)
def test_attend_equals_reference(score, normalizer):
    query, key, value = inputs()
    for mask in (None, references.holed_pairs(B, T, S), np.tri(T, S, dtype=bool)):
        output, weights = attend(
            *(tensor(x) for x in (query, key, value)),
            score,
            normalizer,
            None if mask is None else ops.convert_to_tensor(mask),
        )
        expected = references.attention(query, key, value, score, normalizer, mask)
        np.testing.assert_allclose(to_numpy(output), expected[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(to_numpy(weights), expected[1], rtol=1e-4, atol=1e-5)


@references.examples
@given(data=st.data())
def test_fused_equals_reference_and_explicit(data):
    shapes = [(B, T, H, 5), (B, S, H, 5), (B, S, H, 2)]
    query, key, value = (data.draw(references.arrays(s, size=3)) for s in shapes)
    shape = data.draw(st.sampled_from([(B, H, T, S), (B, 1, T, 1)]))
    mask = data.draw(st.none() | references.booleans(shape))
    causal = data.draw(st.booleans())
    dtype = data.draw(st.sampled_from(references.DTYPES))
    allowed = np.tri(T, S, dtype=bool) if causal else np.ones((T, S), bool)
    allowed = allowed if mask is None else allowed & mask
    tensors = [tensor(x, dtype) for x in (query, key, value)]
    fused = dot_product_attention(
        *tensors, None if mask is None else ops.convert_to_tensor(mask), None, causal
    )
    assert keras.backend.standardize_dtype(fused.dtype) == dtype
    q, k, v = (
        np.swapaxes(references.rounded(x, dtype), 1, 2) for x in (query, key, value)
    )
    expected, weights = references.attention(q, k, v, "scaled_dot", mask=allowed)
    error = (32 * references.ROUNDING[dtype] + 1e-5) * 3
    fused = np.swapaxes(to_numpy(fused), 1, 2)  # (B, H, T, V)
    np.testing.assert_allclose(fused, expected, atol=error)
    assert np.all(fused[~weights.any(-1)] == 0)
    heads = [ops.transpose(x, (0, 2, 1, 3)) for x in tensors]
    explicit, _ = attend(*heads, mask=ops.convert_to_tensor(allowed))
    np.testing.assert_allclose(to_numpy(explicit), fused, atol=2 * error)


def test_attend_heads_equals_reference():
    query, key, value = (
        references.normal(2, length, heads, width, seed=length)
        for length, heads, width in ((5, 4, 3), (7, 2, 3), (7, 2, 11))
    )
    output, weights = attend_heads(tensor(query), tensor(key), tensor(value))
    grouped = [np.repeat(x.swapaxes(1, 2), 2, 1) for x in (key, value)]
    expected = references.attention(query.swapaxes(1, 2), *grouped, "scaled_dot")
    output = to_numpy(output).swapaxes(1, 2)  # (B, H, T, V)
    np.testing.assert_allclose(output, expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(to_numpy(weights), expected[1], rtol=1e-4, atol=1e-5)


def test_scale_of_the_fused_path():
    query, key, value = (tensor(x)[:, :, None] for x in inputs())
    fused = dot_product_attention(query, key, value, scale=0.3)
    expected, _ = references.attention(*inputs()[:1], 0.3 * inputs()[1], inputs()[2])
    np.testing.assert_allclose(to_numpy(fused)[:, :, 0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_gradient_equals_finite_differences(path):
    given_, probe = inputs(), references.normal(B, T, V, seed=9)
    mask = references.holed_pairs(B, T, S)
    found = gradient(lambda *x: _loss(path, x, mask, tensor(probe)), *given_)
    for i, slope in enumerate(found):

        def moved(x, i=i):
            there = [*given_[:i], x, *given_[i + 1 :]]
            return (
                probe * references.attention(*there, "scaled_dot", mask=mask)[0]
            ).sum()

        expected = references.differences(moved, given_[i])
        np.testing.assert_allclose(slope, expected, rtol=1e-3, atol=1e-5)


def _loss(path, x, mask, probe=1.0, causal=False):
    return ops.sum(_output(path, x, mask, causal) * probe)


def _output(path, x, mask, causal=False):
    mask = None if mask is None else ops.convert_to_tensor(mask)
    if path == "explicit":
        return attend(*x, mask=mask)[0]
    x = [y[:, :, None] for y in x]
    mask = None if mask is None else mask[:, None]
    return dot_product_attention(*x, mask, is_causal=causal)[:, :, 0]


@pytest.mark.parametrize("dtype", references.DTYPES)
@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_what_is_masked_counts_for_exactly_nothing(path, dtype):
    mask, given_ = references.holed_pairs(B, T, S), inputs()
    output = to_numpy(_output(path, [tensor(x, dtype) for x in given_], mask))
    assert np.all(output[~mask.any(-1)] == 0)
    assert np.all(output[0, [0, 2]] != 0)
    _, key, value = given_
    key[0, 3], value[0, 3], key[1], value[1] = 1e4, 1e4, 1e4, 1e4
    changed = to_numpy(_output(path, [tensor(x, dtype) for x in given_], mask))
    np.testing.assert_array_equal(changed, output)
    if TRAINS:
        slopes = gradient(lambda *x: _loss(path, x, mask), *inputs(), dtype=dtype)
        assert all(np.all(np.isfinite(slope)) for slope in slopes)
        assert np.all(slopes[0][~mask.any(-1)] == 0)
        for slope in slopes[1:]:
            assert np.all(slope[1] == 0)
            assert np.all(slope[0, 3] == 0)
        assert slopes[0][0, 0].any()
        assert slopes[2][0, 0].any()


@needs_training
@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_rows_with_nothing_are_still_where_scores_overflow(path):
    query, key, value = inputs()
    query[1], key[1] = 1e19, 1e19  # their product is more than float32 holds
    mask = references.holed_pairs(B, T, S)
    given_ = [query, key, value]
    assert np.all(to_numpy(_output(path, [tensor(x) for x in given_], mask))[1] == 0)
    for slope in gradient(lambda *x: _loss(path, x, mask), *given_):
        assert np.all(slope[1] == 0)
        assert np.all(np.isfinite(slope))


@pytest.mark.parametrize(("queries", "keys"), [(3, 5), (5, 3)])
@pytest.mark.parametrize("masked", [False, True])
def test_causal_does_not_look_ahead(queries, keys, masked):
    query, key, value = (
        references.normal(1, n, 7, seed=i) for i, n in enumerate([queries, keys, keys])
    )
    mask = np.ones((1, 1, keys), bool) if masked else None
    # One batch entry for each query; of the n-th, only query n is in the loss.
    repeat = [np.repeat(x, queries, axis=0) for x in (query, key, value)]
    own = np.eye(queries)[..., None]
    slopes = gradient(lambda *x: _loss("fused", x, mask, tensor(own), True), *repeat)
    for slope in slopes[1:]:
        seen = np.abs(slope).sum(-1) > 0  # (queries, keys)
        if slope is slopes[1]:  # a query with one key has no choice: no gradient
            np.testing.assert_array_equal(seen[1:], np.tri(queries, keys)[1:] > 0)
        else:
            np.testing.assert_array_equal(seen, np.tri(queries, keys) > 0)


@pytest.mark.parametrize("mask", [None, references.holed_pairs(B, T, S)])
def test_dropout_scales_what_is_left(mask):
    query, key, _ = (tensor(x) for x in inputs())
    value = tensor(np.broadcast_to(np.eye(S), (B, S, S)))
    mask = None if mask is None else ops.convert_to_tensor(mask)
    dropped, weights = attend(query, key, value, mask=mask, dropout=0.4, seed=3)
    again, _ = attend(query, key, value, mask=mask, dropout=0.4, seed=3)
    plain, kept = attend(query, key, value, mask=mask)
    np.testing.assert_array_equal(to_numpy(dropped), to_numpy(again))
    np.testing.assert_array_equal(to_numpy(weights), to_numpy(kept))
    dropped, plain = to_numpy(dropped), to_numpy(plain)
    left = dropped != 0
    np.testing.assert_allclose(dropped[left], plain[left] / 0.6, rtol=1e-5)
    assert 0 < left.sum() < (plain != 0).sum()


def test_tensors_that_do_not_fit():
    x = np.ones((2, 3, 1, 5), "float32")
    with pytest.raises(
        ValueError,
        match=r"`key` must have rank 4, \(batch, length, heads, width\)\. "
        r"Received: key\.shape=\(2, 3, 5\)",
    ):
        dot_product_attention(x, x[:, :, 0], x)
    with pytest.raises(
        ValueError,
        match=r"`query` and `key` must have the same width.*"
        r"query\.shape=\(2, 3, 1, 5\), key\.shape=\(2, 3, 1, 4\)",
    ):
        dot_product_attention(x, x[..., :4], x)
    with pytest.raises(ValueError, match=r"`query` must hold floats.*dtype=int64"):
        dot_product_attention(x.astype("int64"), x, x)
    with pytest.raises(ValueError, match=r"`mask` must have rank 4, shape \(2, 1, 3"):
        dot_product_attention(x, x, x, np.ones((2, 3, 3), bool))
    with pytest.raises(ValueError, match=r"`mask` must be boolean.*dtype=int32"):
        attend(x, x, x, mask=np.ones((3, 3), "int32"))
    with pytest.raises(ValueError, match=r"`mask` must be boolean.*dtype=float32"):
        dot_product_attention(x, x, x, np.ones((2, 1, 3, 3), "float32"))


def test_a_sink_needs_the_softmax():
    x = tensor(references.normal(2, 3, 4, 5))
    with pytest.raises(ValueError, match='`sink` needs normalizer="softmax"'):
        attend_heads(x, x, x, normalizer="sparsemax", sink=keras.ops.zeros(4))
