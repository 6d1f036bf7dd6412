"""Monotonic attention, in its three modes, against NumPy."""

import keras
import numpy as np
import pytest
import references
from calling import few_compiled
from gradients import gradient, to_numpy
from keras import ops
from stepping import assert_steps_equal_the_whole, query_and_memory, with_weights

from keras_attention import layers

B, T, S, D, V, U = 2, 3, 5, 7, 11, 13
FULL = np.ones((B, S), bool)
HOLED = np.array([[True, False, True, True, True], [False, True, True, True, False]])


def inputs():
    return query_and_memory(B, T, S, D, V)


def expected(p, hard=False):
    """Weights (B, T, S) of probabilities (B, T, S), walk by walk from place 0."""
    weights = np.zeros(p.shape)
    for b in range(len(p)):
        last = np.eye(p.shape[2])[0]
        for t in range(p.shape[1]):
            if not p[b, t].any():
                continue
            stop = (p[b, t] >= 0.5) * 1.0 if hard else p[b, t]
            for s in range(p.shape[2]):
                weights[b, t, s] = stop[s] * sum(
                    last[i] * np.prod(1 - stop[i:s]) for i in range(s + 1)
                )
            last = weights[b, t]
    return weights


def probabilities(w, mask):
    """The default score: the normalized additive one, and r."""
    q, _, k = (x.astype("float64") for x in inputs())
    v = w["score/gain"] * w["score/scale"] / np.linalg.norm(w["score/scale"])
    hidden = (q @ w["score/query/kernel"])[:, :, None]
    hidden = hidden + (k @ w["score/key/kernel"] + w["score/key/bias"])[:, None]
    score = np.tanh(hidden) @ v + w["bias"]
    return np.where(mask[:, None], 1 / (1 + np.exp(-score)), 0)


@pytest.mark.parametrize("mode", ["parallel", "recursive", "hard"])
@pytest.mark.parametrize("mask", [FULL, HOLED], ids=["full", "holed"])
def test_equals_its_equations(mode, mask):
    layer = layers.MonotonicAttention(units=U, mode=mode, inference_mode=None)
    w = with_weights(layer, *inputs(), numbers=False)
    found = layer(*inputs(), value_mask=mask, return_attention_scores=True)
    weights = expected(probabilities(w, mask), mode == "hard")
    np.testing.assert_allclose(to_numpy(found[1]), weights, atol=1e-5)
    np.testing.assert_allclose(to_numpy(found[0]), weights @ inputs()[1], atol=1e-5)


@pytest.mark.parametrize("mode", ["parallel", "recursive"])
def test_by_hand(mode):
    """Scores log(1) and log(3), so that p is 0.5 and 0.75; as in TensorFlow Addons."""
    layer = layers.MonotonicAttention("dot", mode=mode, inference_mode=None)
    key = np.log([[[1.0], [3.0]]]).astype("float32")
    query = np.ones((1, 2, 1), "float32")
    _, weights = layer(query, key, return_attention_scores=True)
    # First: 0.5, 0.5·0.75. Then: 0.5·0.5, 0.75·(0.5·0.5 + 0.375).
    wanted = [[0.5, 0.375], [0.25, 0.46875]]
    np.testing.assert_allclose(to_numpy(weights)[0], wanted, atol=1e-6)


def test_hard_by_hand():
    """Stops at 1, stays, goes on to 3, and finds nothing behind it."""
    key = np.eye(4, dtype="float32")[None]
    query = np.array([[[-1, 1, 1, 1], [1, 1, -1, 1], [1, -1, -1, 1], [1, 1, 1, -1]]])
    layer = layers.MonotonicAttention("dot")
    _, weights = layer(query.astype("float32"), key, return_attention_scores=True)
    wanted = [[0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    np.testing.assert_array_equal(to_numpy(weights)[0], wanted)


@pytest.mark.backends("all")
@few_compiled("mode", ["parallel", "recursive", "hard"])
def test_step_by_step_equals_at_once(mode):
    q, v, k = inputs()
    layer = layers.MonotonicAttention(units=U, mode=mode, inference_mode=None)
    with_weights(layer, q, v, k, numbers=False)
    weights, state = assert_steps_equal_the_whole(layer, q, v, k, HOLED)
    np.testing.assert_allclose(to_numpy(state), weights[:, -1], atol=1e-5)


def test_soft_while_training_and_hard_afterwards():
    layer = layers.MonotonicAttention(units=U, score_bias=0.5)
    w = with_weights(layer, *inputs(), numbers=False)
    p = probabilities(w, FULL)
    for training, hard in ((True, False), (False, True), (None, True)):
        found = layer(*inputs(), training=training, return_attention_scores=True)
        np.testing.assert_allclose(to_numpy(found[1]), expected(p, hard), atol=1e-5)
    # What `sample` returned says so to `attend`, though there is no noise.
    q, v, k = (ops.convert_to_tensor(x) for x in inputs())
    memory = layer.prepare(v, k)
    noise = layer.sample((B, T, S), True)
    assert layer.sample((B, T, S), False) is None
    found = layer.attend(q, memory, random=noise)[1]
    np.testing.assert_allclose(to_numpy(found), expected(p), atol=1e-5)
    found = layer.attend(q[:, 0], memory, random=noise[:, 0])[1]
    np.testing.assert_allclose(to_numpy(found), expected(p)[:, 0], atol=1e-5)


def test_noise_is_drawn_while_training_alone():
    layer = layers.MonotonicAttention(
        "dot", inference_mode=None, sigmoid_noise=2.0, seed=1
    )
    q, v, k = inputs()
    still = [to_numpy(layer(q, v, k)) for _ in range(2)]
    np.testing.assert_array_equal(*still)
    moved = [to_numpy(layer(q, v, k, training=True)) for _ in range(2)]
    assert not np.allclose(moved[0], moved[1])
    assert not np.allclose(moved[0], still[0])
    noise = to_numpy(layer.sample((53, 7, 11), True))
    assert abs(noise.std() - 2.0) < 0.1
    # Noise counts as a part of the score.
    noise = layer.sample((B, T, S), True)
    layer.bias.assign(0.25)
    _, weights, _ = layer.attend(q, layer.prepare(v, k), random=noise)
    score = q.astype("float64") @ np.swapaxes(k, 1, 2) + 0.25 + to_numpy(noise)
    wanted = expected(1 / (1 + np.exp(-score)))
    np.testing.assert_allclose(to_numpy(weights), wanted, atol=1e-5)


def test_a_query_that_sees_nothing_keeps_the_place():
    q, v, k = inputs()
    layer = layers.MonotonicAttention("dot", inference_mode=None)
    there = np.array([[True, False, True]] * B)
    found = layer(q, v, k, query_mask=there, return_attention_scores=True)[1]
    short = layer(q[:, [0, 2]], v, k, return_attention_scores=True)[1]
    np.testing.assert_allclose(to_numpy(found)[:, [0, 2]], to_numpy(short), atol=1e-6)
    assert (to_numpy(found)[:, 1] == 0).all()


@pytest.mark.backends("all")
@pytest.mark.parametrize("mode", ["parallel", "recursive"])
def test_gradient_reaches_the_first_query(mode):
    """The last weights depend on the first query, through every step between."""
    q, v, k = inputs()
    layer = layers.MonotonicAttention(units=U, mode=mode, inference_mode=None)
    w = with_weights(layer, q, v, k, numbers=False)
    first = to_numpy(q)

    def wanted_loss(query):
        v_ = w["score/gain"] * w["score/scale"] / np.linalg.norm(w["score/scale"])
        hidden = (query @ w["score/query/kernel"])[:, :, None]
        keys = k.astype("float64") @ w["score/key/kernel"] + w["score/key/bias"]
        p = 1 / (1 + np.exp(-(np.tanh(hidden + keys[:, None]) @ v_ + w["bias"])))
        return (expected(p) @ v.astype("float64"))[:, -1].sum()

    def loss(query):
        return ops.sum(layer(query, v, k)[:, -1])

    (found,) = gradient(loss, q)
    wanted = references.differences(wanted_loss, first)
    assert np.abs(wanted[:, 0]).max() > 1e-4
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize("policy", ["float16", "bfloat16"])
def test_the_alignment_is_kept_in_float32(policy):
    layer = layers.MonotonicAttention(units=U, inference_mode=None, dtype=policy)
    q, v, k = inputs()
    layer(q, v, k)
    _, weights, state = layer.attend(q, layer.prepare(v, k))
    assert keras.backend.standardize_dtype(state.dtype) == "float32"
    assert keras.backend.standardize_dtype(weights.dtype) == policy


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"`mode` must be one of.*mode='soft'"):
        layers.MonotonicAttention(mode="soft")
    with pytest.raises(ValueError, match=r"`inference_mode` must be .*='soft'"):
        layers.MonotonicAttention(inference_mode="soft")
    with pytest.raises(ValueError, match=r"`mode` must be one of.*mode=None"):
        layers.MonotonicAttention(mode=None)
    with pytest.raises(ValueError, match="`sigmoid_noise` must be at least 0"):
        layers.MonotonicAttention(sigmoid_noise=-1.0)
    with pytest.raises(ValueError, match="`units` must be at least 1"):
        layers.MonotonicAttention(units=0)
    q, v, _ = inputs()
    with pytest.raises(ValueError, match="must have the same width"):
        layers.MonotonicAttention("dot")(q, v)
