"""Mask objects as `attention_mask` of each layer, beside other masks, and in files."""

import keras
import numpy as np
import pytest
from calling import needs_training, plain
from gradients import tensor

from keras_attention import layers, masks, ops, record_attention, with_attention

B, T, D = 2, 7, 8
IDS = np.array([[1, 1, 1, 2, 2, 0, 0], [3, 1, 1, 2, 2, 2, 2]])
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
VALID = np.arange(T) < np.array([[5], [6]])
MASK = masks.Causal() & masks.Window(3) & masks.Segments(IDS) | masks.Prefix(1)
MADE = {
    "MultiHeadAttention": lambda: layers.MultiHeadAttention(2, 4),
    "its window": lambda: layers.MultiHeadAttention(2, 4, sliding_window=2),
    "its sinks": lambda: layers.MultiHeadAttention(2, 4, attention_sinks=True),
    "Hopfield": lambda: layers.Hopfield(2, 4, update_steps=2),
    "Attention": layers.Attention,
    "Bahdanau": lambda: layers.BahdanauAttention(5, coverage=True),
    "Monotonic": layers.MonotonicAttention,
    "KeyValueHop": layers.KeyValueHop,
}


class Plain(layers.MultiHeadAttention):
    """A user's subclass, whose methods get arrays."""

    def _compute_attention(self, query, key, value, attention_mask=None, *args, **more):
        assert not isinstance(attention_mask, masks.Mask)
        return super()._compute_attention(
            query, key, value, attention_mask, *args, **more
        )


MADE["subclass"] = lambda: Plain(2, 4)


@pytest.mark.parametrize("mask", [MASK, masks.Causal() & masks.Window(2)])
@pytest.mark.parametrize("name", MADE)
def test_layers_take_objects(name, mask):
    layer = MADE[name]()
    for options in ({}, {"value_mask": VALID, "query_mask": VALID}):
        options["return_attention_scores"] = True
        outputs = layer(X, X, attention_mask=mask, **options)
        wanted = layer(X, X, attention_mask=mask.array(T), **options)
        for x, y in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(plain(x), plain(y), atol=1e-6)
        output = layer(X, X, attention_mask=mask, **options)[0]
        np.testing.assert_allclose(plain(output), plain(wanted[0]), atol=1e-6)


@pytest.mark.parametrize("attention", [None, keras.layers.MultiHeadAttention(2, 4)])
def test_blocks_take_objects(attention):
    heads = None if attention else 2
    block = layers.TransformerEncoderBlock(heads, 16, attention=attention)
    output = block(X, VALID, attention_mask=MASK)
    wanted = block(X, VALID, attention_mask=MASK.array(T))
    np.testing.assert_allclose(plain(output), plain(wanted), atol=1e-6)


def test_operations_take_objects():
    x = tensor(X)
    output, weights = ops.attend(x, x, x, mask=MASK)
    wanted, expected = ops.attend(x, x, x, mask=MASK.array(T))
    np.testing.assert_allclose(plain(weights), plain(expected), atol=1e-6)
    np.testing.assert_allclose(plain(output), plain(wanted), atol=1e-6)


def functional():
    """A model in which a mask has symbolic arrays, of an unknown length."""
    x = keras.Input((None, D), name="x")
    ids = keras.Input((None,), dtype="int32", name="ids")
    length = keras.Input((), dtype="int32", name="length")
    mask = masks.Causal() & masks.Window(3) & masks.Segments(ids) | masks.Prefix(length)
    block = layers.TransformerEncoderBlock(2, 16)
    h = block(x, attention_mask=masks.Segments(ids), use_causal_mask=True)
    h = layers.Hopfield(2, 4)(h, h, attention_mask=masks.Causal() & masks.Window(2))
    return keras.Model([x, ids, length], layers.Attention()(h, h, attention_mask=mask))


@pytest.mark.backends("all", reason="each backend has its own structures and files")
def test_functional_models_hold_symbolic_masks(tmp_path):
    model, inputs = functional(), [X, IDS, np.array([2, 0])]
    output = plain(model(inputs))
    path = tmp_path / "model.keras"
    model.save(path)
    again = keras.saving.load_model(path)
    np.testing.assert_allclose(again.predict(inputs, verbose=0), output, atol=1e-5)
    shorter = [inputs[0][:, :5], inputs[1][:, :5], inputs[2]]
    assert plain(again(shorter)).shape == (B, 5, D)


@needs_training
@pytest.mark.slow_on("jax", "tensorflow")
@pytest.mark.backends("all", reason="each backend has its own structures")
def test_functional_models_learn_in_half_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = functional()
    finally:
        keras.config.set_dtype_policy("float32")
    model.compile("sgd", "mse")
    history = model.fit([X, IDS, np.array([2, 0])], X, verbose=0)
    assert np.isfinite(history.history["loss"][0])


def test_weights_are_recorded():
    layer = layers.MultiHeadAttention(2, 4, name="heads")
    with record_attention() as maps:
        layer(X, X, attention_mask=MASK)
    hidden = ~plain(MASK.array(T))[:, None]
    assert (maps["heads"][np.broadcast_to(hidden, (B, 2, T, T))] == 0).all()
    x, ids = keras.Input((T, D)), keras.Input((T,), dtype="int32")
    model = keras.Model([x, ids], layer(x, x, attention_mask=masks.Segments(ids)))
    maps = with_attention(model)([X, IDS])
    hidden = ~plain(masks.Segments(IDS).array(T))[:, None]
    assert (plain(maps["heads"])[np.broadcast_to(hidden, (B, 2, T, T))] == 0).all()


REFUSED = {
    "number of keys. Received: 7 and 5": lambda: layers.MultiHeadAttention(2, 4)(
        X, X, attention_mask=masks.Segments(IDS, IDS[:, :5])
    ),
    "number of queries. Received: 7 and 5": lambda: layers.Attention()(
        X, X, attention_mask=masks.Segments(IDS[:, :5])
    ),
    "number of examples. Received: 2 and 3": lambda: ops.dot_product_attention(
        *[tensor(X[:, :, None])] * 3, masks.Prefix(np.array([1, 2, 3]))
    ),
    "boolean array unless queries have shape .batch, length, width": (
        lambda: ops.attend(*[tensor(X[:, None])] * 3, mask=masks.Causal())
    ),
    "must be the `attention_mask` of a layer": lambda: layers.MultiHeadAttention(2, 4)(
        X, X, value_mask=masks.Causal()
    ),
    "must be a boolean array if inputs have more axes": (
        lambda: layers.MultiHeadAttention(2, 4)(
            X[:, None], X[:, None], attention_mask=MASK
        )
    ),
    "only takes masks of queries and of values": (
        lambda: layers.TransformerEncoderBlock(
            intermediate_dim=16, attention=keras.layers.Attention()
        )(X, attention_mask=MASK)
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_fit_is_refused(text):
    with pytest.raises(ValueError, match=text):
        REFUSED[text]()
