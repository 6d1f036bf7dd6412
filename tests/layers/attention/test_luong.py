"""Luong's scores and localities, against NumPy."""

import keras
import numpy as np
import pytest
import references
from gradients import to_numpy
from keras import ops
from stepping import assert_steps_equal_the_whole, query_and_memory, with_weights

from keras_attention import layers

B, T, S, D, V, U = 2, 3, 5, 7, 11, 13
SCORES = {
    "dot": {},
    "general": {},
    "concat": {"units": U},
    "location": {"max_length": S + 2},
}
FULL = np.ones((B, S), bool)
HOLED = np.array([[True, False, True, True, True], [False, True, True, True, False]])


def inputs():
    return query_and_memory(B, T, S, D, V)


def score_of(name, w, h, k, s):
    """Equation 7's three scores and equation 8's, of one query and the key at s."""
    if name == "dot":
        return h @ k
    if name == "general":
        return h @ (k @ w["score/kernel/kernel"])
    if name == "concat":
        hidden = np.tanh(np.concatenate([h, k]) @ w["score/kernel"])
        return w["score/scale"] @ hidden
    return h @ w["score/kernel/kernel"][:, s]


def expected(w, name, locality, window, mask):
    """Sections 3.1 and 3.2 over the keys that are there, one query at a time."""
    q, v, k = inputs()
    weights = np.zeros((B, T, S))
    for b, t in np.ndindex(B, T):
        there = np.flatnonzero(mask[b])
        h = q[b, t].astype("float64")
        p = t
        if locality == "local-p":
            hidden = np.tanh(h @ w["place_hidden/kernel"])
            p = len(there) / (1 + np.exp(-(hidden @ w["place/kernel"])[0]))
        place = np.arange(len(there))
        near = np.ones(len(there), bool)
        if locality != "global":
            near = (place >= p - window) & (place <= p + window)
        score = w.get("gain", 1) * np.array(
            [score_of(name, w, h, k[b, s], s) for s in there]
        )
        found = references.softmax(score, near)
        if locality == "local-p":
            found = found * np.exp(-((place - p) ** 2) / (2 * (window / 2) ** 2))
        weights[b, t, there] = found
    return weights @ v, weights


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("locality", ["global", "local-m", "local-p"])
@pytest.mark.parametrize("mask", [FULL, HOLED], ids=["full", "holed"])
def test_equals_its_equations(score, locality, mask):
    layer = layers.LuongAttention(
        score, locality, window=2, scale=score == "general", **SCORES[score]
    )
    w = with_weights(layer, *inputs())
    found = layer(*inputs(), value_mask=mask, return_attention_scores=True)
    wanted = expected(w, score, locality, 2, mask)
    for a, b in zip(found, wanted):
        np.testing.assert_allclose(to_numpy(a), b, atol=1e-5)
    fused = layer(*inputs(), value_mask=mask)
    np.testing.assert_allclose(to_numpy(fused), wanted[0], atol=1e-5)


def test_scaled_score_by_hand():
    """As TensorFlow Addons documents it: the score times g, which starts at 1."""
    layer = layers.LuongAttention("dot", scale=True)
    q, k = np.array([[[2.0]]], "float32"), np.array([[[1.0], [0.5]]], "float32")
    _, weights = layer(q, k, return_attention_scores=True)
    odds = np.exp(2.0 - 1.0)
    assert to_numpy(weights)[0, 0, 0] == pytest.approx(odds / (1 + odds))
    layer.gain.assign(0.5)
    _, weights = layer(q, k, return_attention_scores=True)
    odds = np.exp(1.0 - 0.5)
    assert to_numpy(weights)[0, 0, 0] == pytest.approx(odds / (1 + odds))


@pytest.mark.parametrize("locality", ["global", "local-m", "local-p"])
def test_step_by_step_equals_at_once(locality):
    q, v, k = inputs()
    layer = layers.LuongAttention(locality=locality, window=1, units=U)
    with_weights(layer, q, v, k)
    _, state = assert_steps_equal_the_whole(layer, q, v, k, HOLED)
    if locality == "local-m":
        assert to_numpy(state).tolist() == [T, T]
    else:
        assert state == ()


def test_time_stands_still_for_a_query_that_sees_nothing():
    q, v, k = inputs()
    layer = layers.LuongAttention("dot", "local-m", window=1)
    there = np.array([[False, True, True], [True, False, True]])
    found = layer(q, v, k, query_mask=there, return_attention_scores=True)[1]
    seen = to_numpy(found) > 0
    assert seen[0].astype(int).tolist() == [[0] * 5, [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]
    assert seen[1].astype(int).tolist() == [[1, 1, 0, 0, 0], [0] * 5, [1, 1, 1, 0, 0]]
    memory = layer.prepare(v, k, np.array([[True] * S, [False] * S]))
    assert to_numpy(layer.attend(q, memory)[2]).tolist() == [T, 0]


def test_far_past_the_end_there_is_nothing():
    layer = layers.LuongAttention("dot", "local-m", window=1)
    x = np.ones((1, 5, 3), "float32")
    output, weights = layer(x, x[:, :2], return_attention_scores=True)
    weights = to_numpy(weights)[0]
    assert weights.tolist() == [[0.5, 0.5], [0.5, 0.5], [0, 1], [0, 0], [0, 0]]
    assert (to_numpy(output)[0, 3:] == 0).all()


@pytest.mark.parametrize("locality", ["local-m", "local-p"])
def test_padding_in_front_moves_nothing(locality):
    q, v, k = inputs()
    layer = layers.LuongAttention("general", locality, window=1)
    with_weights(layer, q, v, k)
    wanted = layer(q, v, k)
    v, k = (np.pad(x, ((0, 0), (3, 2), (0, 0))) for x in (v, k))
    mask = np.pad(FULL, ((0, 0), (3, 2)))
    found = layer(q, v, k, value_mask=mask)
    np.testing.assert_allclose(to_numpy(found), to_numpy(wanted), atol=1e-5)


def test_places_of_a_long_memory_are_exact_in_half_precision():
    """bfloat16 does not tell place 257 from 256; places are float32."""
    layer = layers.LuongAttention("dot", "local-m", window=1, dtype="bfloat16")
    key = ops.zeros((1, 600, 1), "bfloat16")
    query = ops.zeros((1, 400, 1), "bfloat16")
    weights = to_numpy(layer(query, key, return_attention_scores=True)[1])[0, 399]
    assert np.flatnonzero(weights).tolist() == [398, 399, 400]


def test_location_score_in_any_attention():
    q, v, k = inputs()
    # Keras would number the score by those that were made before.
    layer = layers.Attention(layers.LocationScore(7, name="place"))
    kernel = with_weights(layer, q, v, k)["place/kernel/kernel"]
    wanted = references.softmax(q.astype("float64") @ kernel[:, :S]) @ v
    np.testing.assert_allclose(to_numpy(layer(q, v, k)), wanted, atol=1e-5)


def test_a_memory_longer_than_max_length_is_refused():
    q, v, k = inputs()
    message = r"`max_length` must be at least the number of keys.*max_length=4"
    layer = layers.LuongAttention("location", max_length=4)
    with pytest.raises(ValueError, match=message):
        layer(q, v, k)
    with pytest.raises(ValueError, match=message):
        layers.LocationScore(4)(keras.Input((T, D)), keras.Input((S, D)))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"`score` must be one of .*score='cosin'"):
        layers.LuongAttention("cosin")
    with pytest.raises(ValueError, match=r"`locality` must be one of.*'local'"):
        layers.LuongAttention(locality="local")
    with pytest.raises(ValueError, match="`window` must be at least 1"):
        layers.LuongAttention(window=0)
    with pytest.raises(ValueError, match=r"`units` must be given.*'concat'"):
        layers.LuongAttention("concat")
    with pytest.raises(ValueError, match=r"`max_length` must be given.*'location'"):
        layers.LuongAttention("location")
    q, v, _ = inputs()
    with pytest.raises(ValueError, match="must have the same width"):
        layers.LuongAttention("dot")(q, v)
