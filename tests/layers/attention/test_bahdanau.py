"""Bahdanau's attention, its normalized form and its coverage, against NumPy."""

import keras
import numpy as np
import pytest
import references
from gradients import to_numpy
from keras import ops
from stepping import assert_steps_equal_the_whole, query_and_memory, with_weights

from keras_attention import layers

B, T, S, D, V, U, K = 2, 3, 5, 7, 11, 13, 17  # K is the width of a key


def inputs():
    return query_and_memory(B, T, S, D, V, K)


def holed():
    """A hole, a short memory, and a query that may attend to nothing."""
    mask = np.ones((B, T, S), bool)
    mask[0, :, 2] = mask[1, :, 3:] = mask[0, 1] = False
    return mask


def expected(w, query, value, key, mask, normalizer="softmax"):
    """The papers' equations, a query and a key at a time."""
    v = w["score/scale"]
    if "score/gain" in w:
        v = w["score/gain"] * v / np.linalg.norm(v)
    bias = w.get("score/key/bias", 0)
    seen_by = w.get("coverage", np.zeros((1, U)))[0]
    weights = np.zeros((B, T, S))
    for b in range(B):
        coverage = np.zeros(S)
        for t in range(T):
            score = np.zeros(S)
            for s in range(S):
                hidden = query[b, t] @ w["score/query/kernel"]
                hidden = hidden + key[b, s] @ w["score/key/kernel"] + bias
                score[s] = v @ np.tanh(hidden + seen_by * coverage[s])
            weights[b, t] = references.NORMALIZERS[normalizer](score, mask[b, t])
            coverage += weights[b, t]
    return weights @ value.astype("float64"), weights


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"use_bias": False},
        {"normalize": True},
        {"exact": True, "normalizer": "sparsemax"},
        {"coverage": True},
        {"coverage": True, "normalize": True, "normalizer": "entmax15"},
    ],
    ids=str,
)
@pytest.mark.parametrize("mask", [np.ones((B, T, S), bool), holed()], ids=len)
def test_equals_its_equations(arguments, mask):
    q, v, k = inputs()
    layer = layers.BahdanauAttention(U, **arguments)
    w = with_weights(layer, q, v, k)
    found = layer(q, v, k, attention_mask=mask, return_attention_scores=True)
    wanted = expected(w, q, v, k, mask, arguments.get("normalizer", "softmax"))
    for a, b in zip(found, wanted):
        np.testing.assert_allclose(to_numpy(a), b, atol=1e-5)


def test_normalized_score_by_hand():
    """As TensorFlow Addons documents it: g v/‖v‖ tanh(…), g at √(1/units)."""
    layer = layers.BahdanauAttention(4, normalize=True, use_bias=False)
    q, k = np.array([[[1.0]]], "float32"), np.array([[[2.0], [0.0]]], "float32")
    layer(q, k)
    assert to_numpy(layer.score.gain.value) == pytest.approx(0.5)
    layer.score.query_dense.kernel.assign([[0.5, 0.0, 0.0, 0.0]])
    layer.score.key_dense.kernel.assign([[0.25, 0.0, 0.0, 0.0]])
    layer.score.scale.assign([3.0, 0.0, 4.0, 0.0])  # ‖v‖ = 5
    _, weights = layer(q, k, return_attention_scores=True)
    # Scores 0.5 · 3/5 · tanh(1) = 0.228478 and 0.3 · tanh(0.5) = 0.138635.
    odds = np.exp(0.2284782 - 0.1386351)
    wanted = [odds / (1 + odds), 1 / (1 + odds)]
    np.testing.assert_allclose(to_numpy(weights)[0, 0], wanted, atol=1e-6)


def test_coverage_by_hand():
    """Without keys' and queries' part, the score is tanh(w_c c)."""
    layer = layers.BahdanauAttention(1, coverage=True)
    q, k = np.zeros((1, 3, 1), "float32"), np.zeros((1, 2, 1), "float32")
    layer(q, k)
    layer.score.scale.assign([1.0])
    layer.coverage_kernel.assign([[-2.0]])
    memory = layer.prepare(ops.convert_to_tensor(k))
    _, weights, covered = layer.attend(
        ops.convert_to_tensor(q[:, 0]), memory, ops.convert_to_tensor([[1.0, 0.0]])
    )
    odds = np.exp(np.tanh(-2.0))
    wanted = np.array([[odds / (1 + odds), 1 / (1 + odds)]])
    np.testing.assert_allclose(to_numpy(weights), wanted, atol=1e-6)
    np.testing.assert_allclose(to_numpy(covered), wanted + np.eye(2)[:1], atol=1e-6)
    # What has been covered evenly is looked at evenly.
    _, weights = layer(q, k, return_attention_scores=True)
    np.testing.assert_allclose(to_numpy(weights), np.full((1, 3, 2), 0.5), atol=1e-6)


@pytest.mark.parametrize("coverage", [False, True])
def test_step_by_step_equals_at_once(coverage):
    q, v, k = inputs()
    layer = layers.BahdanauAttention(U, coverage=coverage)
    with_weights(layer, q, v, k)
    mask = holed()[:, 0]
    weights, state = assert_steps_equal_the_whole(layer, q, v, k, mask)
    if coverage:
        np.testing.assert_allclose(to_numpy(state), weights.sum(1), atol=1e-5)
    else:
        assert state == ()


def test_a_query_that_sees_nothing_covers_nothing():
    q, v, k = inputs()
    layer = layers.BahdanauAttention(U, coverage=True)
    with_weights(layer, q, v, k)
    there = np.array([[True, False, True]] * B)
    found = layer(q, v, k, query_mask=there, return_attention_scores=True)[1]
    short = layer(q[:, [0, 2]], v, k, return_attention_scores=True)[1]
    np.testing.assert_allclose(to_numpy(found)[:, [0, 2]], to_numpy(short), atol=1e-6)
    assert (to_numpy(found)[:, 1] == 0).all()


@pytest.mark.parametrize("policy", ["float16", "bfloat16", "mixed_bfloat16"])
def test_coverage_is_summed_in_float32(policy):
    layer = layers.BahdanauAttention(U, coverage=True, dtype=policy)
    q, v, k = inputs()
    layer(q, v, k)
    _, _, state = layer.attend(q, layer.prepare(v, k))
    assert keras.backend.standardize_dtype(state.dtype) == "float32"
    assert np.allclose(to_numpy(state).sum(-1), T, atol=0.05)


@pytest.mark.parametrize("coverage", [False, True])
def test_dropout_is_drawn_before_the_steps(coverage):
    q, v, k = inputs()
    layer = layers.BahdanauAttention(U, coverage=coverage, dropout=0.5, seed=1)
    still = layer(q, v, k, return_attention_scores=True)
    again = layer(q, v, k, training=True, return_attention_scores=True)
    # The weights that are returned, and covered, are those before dropout.
    np.testing.assert_allclose(to_numpy(still[1]), to_numpy(again[1]), atol=1e-6)
    assert not np.allclose(to_numpy(still[0]), to_numpy(again[0]), atol=1e-3)
    dropout_mask = layer.sample((B, T, S), True)
    assert set(np.unique(to_numpy(dropout_mask))) <= {0, 2}
    memory = layer.prepare(*map(ops.convert_to_tensor, (v, k)))
    found, weights, _ = layer.attend(
        ops.convert_to_tensor(q), memory, None, dropout_mask
    )
    wanted = (to_numpy(weights) * to_numpy(dropout_mask)) @ v
    np.testing.assert_allclose(to_numpy(found), wanted, atol=1e-5)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"`units` must be at least 1.*units=0"):
        layers.BahdanauAttention(0)
    with pytest.raises(ValueError, match="`normalizer` must be one of"):
        layers.BahdanauAttention(3, normalizer="soft")
    with pytest.raises(ValueError, match="`dropout` must be at least 0"):
        layers.BahdanauAttention(3, dropout=1.0)
