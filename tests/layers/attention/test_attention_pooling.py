"""Attentive pooling, against NumPy."""

import keras
import numpy as np
import pytest
import references
from gradients import gradient, tensor, to_numpy
from keras import ops
from stepping import with_weights

import keras_attention
from keras_attention import layers

B, S, D, N, H, U = 2, 5, 12, 7, 3, 11
HOLED = np.array([[True, False, True, True, True], [False, True, True, True, False]])


def inputs():
    return references.normal(B, S, D).astype("float32")


def assert_pools(layer, wanted, **given):
    """What a layer returns, with its weights and without."""
    output, weights = layer(inputs(), return_attention_scores=True, **given)
    for found, right in zip((output, weights, layer(inputs(), **given)), wanted):
        assert tuple(found.shape) == right.shape
        np.testing.assert_allclose(to_numpy(found), right, atol=1e-5)


@pytest.mark.parametrize("mask", [np.ones((B, S), bool), HOLED], ids=["full", "holed"])
@pytest.mark.parametrize("units", [None, U])
def test_one_query_equals_the_equations_of_yang(units, mask):
    """Equations 5, 6 and 7: u = tanh(W h + b), a = softmax(uᵀ u_w), s = Σ a h."""
    layer = layers.AttentionPooling(units=units)
    w = with_weights(layer, inputs())
    assert w["queries"].shape == (1, units or D)
    h = inputs().astype("float64")
    u = np.tanh(h @ w["score/hidden/kernel"] + w["score/hidden/bias"])
    weights = references.softmax(u @ w["queries"][0], mask)  # (B, S)
    output = np.einsum("bs,bsd->bd", weights, h)
    assert_pools(layer, (output, weights, output), mask=mask)


def test_several_queries_equal_the_equations_of_lin():
    """Equations 6 and 7: A = softmax(W₂ tanh(W₁ Hᵀ)), M = A H."""
    layer = layers.AttentionPooling(units=U, num_queries=N)
    w = with_weights(layer, inputs())
    h = inputs().astype("float64")
    hidden = np.tanh(h @ w["score/hidden/kernel"] + w["score/hidden/bias"])
    weights = references.softmax(np.einsum("nu,bsu->bns", w["queries"], hidden))
    assert_pools(layer, (weights @ h, weights, weights @ h))


@pytest.mark.parametrize("queries", [1, N])
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax"])
def test_heads_pool_a_slice_each(queries, normalizer):
    layer = layers.AttentionPooling(
        units=U, num_queries=queries, num_heads=H, normalizer=normalizer
    )
    w = with_weights(layer, inputs())
    h = inputs().astype("float64")
    hidden = np.tanh(h @ w["score/hidden/kernel"] + w["score/hidden/bias"])
    of_heads = w["queries"].reshape(H, queries, U)
    similarity = np.einsum("hnu,bsu->bhns", of_heads, hidden)
    mask = np.broadcast_to(HOLED[:, None, None], similarity.shape)
    weights = references.NORMALIZERS[normalizer](similarity, mask)
    slices = h.reshape(B, S, H, D // H)
    output = np.einsum("bhns,bshe->bnhe", weights, slices).reshape(B, queries, D)
    if queries == 1:
        output, weights = output[:, 0], weights[:, :, 0]
    assert_pools(layer, (output, weights, output), mask=HOLED)


SCORES = {
    "dot": lambda: "dot",
    "scaled_dot": lambda: "scaled_dot",
    "cosine": lambda: "cosine",
    "rbf": lambda: "rbf",
    "general": lambda: "general",
    "bahdanau": lambda: layers.AdditiveScore(U),
    "concat": lambda: layers.ConcatScore(U),
    "location": lambda: layers.LocationScore(S + 2),
}


@pytest.mark.parametrize("score", SCORES)
def test_any_score_is_attention_with_learned_queries(score):
    layer = layers.AttentionPooling(SCORES[score](), num_queries=N, num_heads=H)
    with_weights(layer, inputs())
    other = layers.Attention(SCORES[score]())
    queries = np.repeat(to_numpy(layer.queries)[None], B, 0).astype("float32")
    other.build(queries.shape, (B, S, D))
    other.score.set_weights(layer.score.get_weights())
    given = {"value_mask": HOLED, "return_attention_scores": True}
    whole, weights = (to_numpy(x) for x in other(queries, inputs(), **given))
    slices = whole.reshape(B, H, N, H, D // H)[:, range(H), :, range(H)]  # (H, B, N, ·)
    output = np.moveaxis(slices, 0, 2).reshape(B, N, D)
    wanted = output, weights.reshape(B, H, N, S), output
    assert_pools(layer, wanted, mask=HOLED)


def test_a_mask_that_is_carried_and_one_that_is_given():
    tokens = np.array([[3, 4, 0, 5, 0], [0] * S])
    words = keras.layers.Embedding(13, D, mask_zero=True)(tokens)
    layer = layers.AttentionPooling(num_heads=H)
    output, weights = layer(words, return_attention_scores=True)
    seen = np.broadcast_to((tokens != 0)[:, None], (B, H, S))
    np.testing.assert_array_equal(to_numpy(weights) > 0, seen)
    assert (to_numpy(output)[1] == 0).all()
    assert getattr(output, "_keras_mask", None) is None
    mask = np.array([[True] * S, [False, True, True, False, False]])
    weights = layer(words, mask=mask, return_attention_scores=True)[1]
    seen = np.broadcast_to(mask[:, None], (B, H, S))
    np.testing.assert_array_equal(to_numpy(weights) > 0, seen)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_is_masked_has_no_gradient(dtype):
    layer = layers.AttentionPooling(num_queries=N, dropout=0.3, seed=1, dtype=dtype)
    layer.build((B, S, D))
    mask = tensor(HOLED & np.array([[True], [False]]), "bool")

    def loss(x):
        return ops.sum(layer(x, mask=mask, training=True) ** 2)

    (slope,) = gradient(loss, inputs(), dtype=dtype)
    assert np.isfinite(slope).all()
    assert (slope[1] == 0).all()
    assert (slope[0, 1] == 0).all()
    assert slope[0, 0].any()


def test_dropout_while_training_alone():
    layer = layers.AttentionPooling("dot", num_queries=N, dropout=0.5, seed=3)
    x = np.broadcast_to(np.eye(S, dtype="float32"), (B, S, S))
    still, weights = layer(x, return_attention_scores=True)
    np.testing.assert_allclose(to_numpy(still), to_numpy(weights), atol=1e-6)
    dropped, again = layer(x, return_attention_scores=True, training=True)
    np.testing.assert_allclose(to_numpy(again), to_numpy(weights), atol=1e-6)
    left = to_numpy(dropped) != 0
    assert 0 < left.sum() < left.size
    np.testing.assert_allclose(
        to_numpy(dropped)[left], 2 * to_numpy(weights)[left], rtol=1e-4
    )


def test_it_is_recorded():
    layer = layers.AttentionPooling(num_heads=H, num_queries=N, name="pool")
    with keras_attention.record_attention() as maps:
        layer(inputs())
    assert maps["pool"].shape == (B, H, N, S)


@pytest.mark.parametrize("queries", [1, N])
@pytest.mark.parametrize("heads", [1, H])
def test_shapes_are_known_beforehand(queries, heads):
    layer = layers.AttentionPooling(num_queries=queries, num_heads=heads)
    x = keras.Input((None, D))
    output, weights = layer(x, return_attention_scores=True)
    each = () if queries == 1 else (N,)
    assert output.shape == (None, *each, D)
    assert weights.shape == (None, *(() if heads == 1 else (H,)), *each, None)
    found = keras.Model(x, [output, weights]).predict(inputs(), verbose=0)
    assert found[0].shape == (B, *each, D)
    assert found[1].shape == (B, *weights.shape[1:-1], S)


@pytest.mark.parametrize("score", ["additive", "dot", "bahdanau"])
def test_a_config_makes_it_anew(score):
    layer = layers.AttentionPooling(SCORES.get(score, lambda: score)(), num_heads=H)
    again = layers.AttentionPooling.from_config(layer.get_config())
    expected = layer(inputs())
    again(inputs())
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(to_numpy(again(inputs())), to_numpy(expected))
    other = layers.AttentionPooling.from_config(layer.get_config())
    assert other(inputs()[..., :6]).shape == (B, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"score": "additiv"}, r"`score` must be one of .*'additiv'"),
        ({"score": "dot", "units": 3}, r"`units` must be None .* units=3, score='dot'"),
        ({"units": 0}, "`units` must be at least 1"),
        ({"num_queries": 0}, "`num_queries` must be at least 1"),
        ({"num_heads": 0}, "`num_heads` must be at least 1"),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1"),
        ({"normalizer": "max"}, "`normalizer` must be one of"),
        ({"num_heads": 5}, r"`num_heads` must divide .* num_heads=5, .*\(2, 5, 12\)"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.AttentionPooling(**arguments)(inputs())


def test_inputs_of_another_rank():
    with pytest.raises(ValueError, match=r"`inputs` must have shape \(batch, length"):
        layers.AttentionPooling()(inputs()[:, 0])
    with pytest.raises(ValueError, match="`mask` must have shape"):
        layers.AttentionPooling()(inputs(), mask=np.ones((B, S + 1), bool))
