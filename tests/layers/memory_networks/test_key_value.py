"""The hop of a key-value memory network against its equations in NumPy."""

import numpy as np
import pytest
import references
from calling import TRAINS
from gradients import gradient, to_numpy
from keras import ops

from keras_attention import layers, record_attention

B, T, M, D, F = 2, 3, 5, 7, 4  # F: features that the matrix mixes


def hop_inputs():
    return references.normals((B, D), (B, M, D), (B, M, D), dtype="float32")


def make(features=None, normalizer="softmax", **more):
    """A hop whose R is not the identity."""
    hop = layers.KeyValueHop(features, normalizer, "he_normal", **more)
    hop.build((B, D), (B, M, D))
    if features is not None and features < D:
        hop.scale.assign(0.3)
    return hop


def matrix(hop):
    """R, whole."""
    kernel = to_numpy(hop.query_dense.kernel, "float64")
    r = np.zeros((D, D))
    r[: len(kernel), : len(kernel)] = kernel
    for i in range(len(kernel), D):
        r[i, i] = to_numpy(hop.scale, "float64")
    return r


def hop_once(q, v, k, mask, r, normalizer="softmax"):
    """p = softmax(qᵀk), o = Σ p v, q′ = R (q + o)."""
    q, v, k = (x.astype("float64") for x in (q, v, k))
    p = references.NORMALIZERS[normalizer](np.einsum("bd,bmd->bm", q, k), mask)
    return (q + np.einsum("bm,bmd->bd", p, v)) @ r, p


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("features", [None, F, D])
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax"])
def test_hop_equals_its_equations(features, normalizer, masked):
    q, v, k = hop_inputs()
    mask = references.holed(B, M) if masked else None
    hop = make(features, normalizer)
    assert len(hop.trainable_weights) == (2 if features == F else 1)
    found, p = hop(q, v, k, value_mask=mask, return_attention_scores=True)
    expected = hop_once(q, v, k, mask, matrix(hop), normalizer)
    np.testing.assert_allclose(to_numpy(found), expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(to_numpy(p), expected[1], rtol=1e-4, atol=1e-5)
    if not masked:
        fused = hop(q, v, k)
        np.testing.assert_allclose(to_numpy(fused), to_numpy(found), rtol=1e-6)


@pytest.mark.parametrize("features", [None, F])
def test_at_first_the_hop_only_adds_what_it_finds(features):
    q, v, k = hop_inputs()
    found = layers.KeyValueHop(features)(q, v, k)
    expected = hop_once(q, v, k, None, np.eye(D))[0]
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-4, atol=1e-5)


def test_many_queries_are_single_ones_side_by_side():
    q, v, k = hop_inputs()
    states = np.stack([q, 2 * q, -q], axis=1)  # (B, T, D)
    seen = np.random.default_rng(0).random((B, T, M)) < 0.6
    hop = make(F)
    many = hop(states, v, k, attention_mask=seen, return_attention_scores=True)
    assert many[0].shape == (B, T, D)
    assert many[1].shape == (B, T, M)
    for t in range(T):
        one = hop(
            states[:, t], v, k, attention_mask=seen[:, t], return_attention_scores=True
        )
        for a, b in zip(many, one):
            np.testing.assert_allclose(to_numpy(a)[:, t], to_numpy(b), rtol=1e-4)
    causal = hop(states, v, k, use_causal_mask=True, return_attention_scores=True)[1]
    np.testing.assert_array_equal(
        to_numpy(causal) > 0, np.broadcast_to(np.tri(T, M) > 0, (B, T, M))
    )


def test_a_prepared_memory_gives_the_same():
    arrays = *hop_inputs(), references.holed(B, M)
    q, v, k, mask = map(ops.convert_to_tensor, arrays)
    hop = make(F)
    expected = hop(q, v, k, value_mask=mask, return_attention_scores=True)
    *found, state = hop.attend(q, hop.prepare(v, k, mask))
    assert state == ()
    for a, b in zip(found, expected):
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), rtol=1e-5)


@pytest.mark.parametrize("dtype", references.DTYPES)
def test_hop_over_nothing(dtype):
    q, v, k = hop_inputs()
    mask = references.holed(B, M)
    hop = make(F, dtype=dtype)
    found, p = hop(q, v, k, value_mask=mask, return_attention_scores=True)
    alone = references.rounded(q, dtype)[1] @ matrix(hop)  # R q
    np.testing.assert_allclose(to_numpy(found)[1], alone, rtol=0.02, atol=0.02)
    assert np.all(to_numpy(p)[~mask] == 0)
    changed = [np.where(mask[:, :, None], x, np.float32(1e4)) for x in (v, k)]
    again = hop(q, *changed, value_mask=mask)
    np.testing.assert_array_equal(to_numpy(again), to_numpy(found))
    if not TRAINS:
        return
    slopes = gradient(
        lambda *x: ops.sum(hop(*x, value_mask=mask)), q, v, k, dtype=dtype
    )
    assert all(np.all(np.isfinite(slope)) for slope in slopes)
    for slope in slopes[1:]:
        assert np.all(slope[~mask] == 0)
        assert slope[0, 0].any()


def test_weights_are_recorded():
    q, v, k = hop_inputs()
    hop = layers.KeyValueHop(name="hop")
    with record_attention() as maps:
        _, p = hop(q, v, k, return_attention_scores=True)
    np.testing.assert_array_equal(maps["hop"], to_numpy(p))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: layers.KeyValueHop(0),
            "`features` must be at least 1. Received: features=0",
        ),
        (
            lambda: layers.KeyValueHop(normalizer="max"),
            r"`normalizer` must be one of \['entmax15'",
        ),
        (
            lambda: layers.KeyValueHop(D + 1)(np.ones((B, D)), np.ones((B, M, D))),
            r"`features` must not exceed the query's width. Received: features=8, "
            r"query.shape=\(2, 7\)",
        ),
        (
            lambda: layers.KeyValueHop()(
                np.ones((B, D)), np.ones((B, M, 2)), np.ones((B, M, D))
            ),
            r"`value` must be as wide as `query`.*value\.shape=\(2, 5, 2\)",
        ),
        (
            lambda: layers.KeyValueHop()(np.ones((B, 2)), np.ones((B, M, D))),
            "`query` and `key` must have the same width",
        ),
    ],
)
def test_what_does_not_fit(call, message):
    with pytest.raises(ValueError, match=message):
        call()
