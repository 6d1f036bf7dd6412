"""Multi-head attention: its masks, its paths, its messages."""

import keras
import numpy as np
import pytest
import references
from calling import BACKEND, few_compiled, needs_training
from gradients import gradient, to_numpy
from heads import (
    DK,
    DQ,
    DV,
    MASKS,
    B,
    S,
    T,
    assert_equals,
    built,
    close,
    inputs,
    normal,
    reference,
)
from keras import ops

from keras_attention import kernels, layers

# Masks.

AS_PAIRS = {
    "query_mask": lambda m: m[:, None, :, None],
    "value_mask": lambda m: m[:, None, None, :],
    "key_mask": lambda m: m[:, None, None, :],
    "attention_mask": lambda m: m[:, None],
}


@pytest.mark.backends("all")
@pytest.mark.parametrize(
    ("names", "causal", "kind"),
    [
        *(([name], False, bool) for name in MASKS),
        (["query_mask", "value_mask"], True, bool),
        (list(MASKS), False, "int32"),
        (list(MASKS), True, "float32"),
    ],
)
def test_every_mask_counts_on_every_path(names, causal, kind):
    layer = built(num_heads=2, dropout=0.3)
    mask = np.tri(T, S, dtype=bool) if causal else np.ones((T, S), bool)
    for name in names:
        mask = mask & AS_PAIRS[name](MASKS[name])
    expected = reference(layer, *inputs(), mask)
    call = {name: MASKS[name].astype(kind) for name in names}
    assert_equals(layer, expected, use_causal_mask=causal, **call)


def fused_calls(monkeypatch):
    """A list to which each call of the fused path adds its keyword arguments."""
    calls = []

    kernel = kernels.dot_product_attention

    def fused(query, key, value, mask, scale, is_causal, bias):
        calls.append({"mask": mask, "is_causal": is_causal, "bias": bias})
        return kernel(query, key, value, mask, scale, is_causal, bias)

    monkeypatch.setattr(kernels, "dot_product_attention", fused)
    return calls


def test_dropout_and_masks_leave_the_fused_path_at_prediction(monkeypatch):
    calls = fused_calls(monkeypatch)
    layer = built(dropout=0.3, sliding_window=4, position="alibi")
    q, v, k = inputs()
    layer(q, v, k, query_mask=MASKS["query_mask"], value_mask=MASKS["value_mask"])
    layer(q, v, k, use_causal_mask=True)
    assert [call["is_causal"] for call in calls] == [False, True]
    layer(q, v, k, return_attention_scores=True)
    if needs_training.args[0] is False:
        layer(q, v, k, training=True)
    assert len(calls) == 2


@pytest.mark.parametrize("shape", [(T, S), (1, T, S), (B, 1, T, S), (B, 3, T, S)])
def test_an_attention_mask_may_lack_axes(shape):
    layer = built()
    mask = np.random.default_rng(1).random(shape) < 0.6
    full = mask[:, None] if len(shape) == 3 else mask
    assert_equals(layer, reference(layer, *inputs(), full), attention_mask=mask)


@pytest.mark.backends("all")
@few_compiled("dtype", references.DTYPES)
@pytest.mark.parametrize("position", [None, "relative", "rotary"])
def test_a_query_with_nothing_to_see_gets_nothing_from_any_head(dtype, position):
    layer = layers.MultiHeadAttention(
        2, 4, use_bias=False, position=position, dropout=0.3, dtype=dtype
    )
    q, v, k = inputs()
    mask = np.ones((B, S), bool)
    mask[0] = False
    rows = np.array([[True] * T, [True, False, True]])
    call = {"value_mask": mask, "query_mask": rows}
    output, weights = layer(q, v, k, return_attention_scores=True, **call)
    calls = [output, layer(q, v, k, **call)]
    if BACKEND != "numpy":
        calls.append(layer(q, v, k, training=True, **call))
    for found in calls:
        found = to_numpy(found)
        assert (found[0] == 0).all()
        assert (found[1, 1] == 0).all()
        assert np.isfinite(found).all()
        assert (found[1, 0] != 0).any()
    weights = to_numpy(weights)
    assert (weights[0] == 0).all()
    assert (weights[1, :, 1] == 0).all()


@pytest.mark.backends("all")
@needs_training
def test_gradients_of_the_fused_path_are_those_of_the_explicit_one():
    layer = built(num_heads=4, num_key_value_heads=2, position="alibi")
    mask = np.ones((B, S), bool)
    mask[0] = mask[1, 1] = False
    aim = ops.convert_to_tensor(normal(B, T, DQ, seed=9))
    bias = normal(4, T, S, seed=8)

    def loss(explicit):
        def of(q, v, k, bias):
            output = layer(
                q,
                v,
                k,
                value_mask=mask,
                use_causal_mask=True,
                return_attention_scores=explicit,
                bias=bias,
            )
            return ops.sum((output[0] if explicit else output) * aim)

        return of

    found = [gradient(loss(explicit), *inputs(), bias) for explicit in (False, True)]
    for fused, plain in zip(*found):
        close(fused, plain)
    assert (found[0][1][0] == 0).all()  # the value of the sample that is masked
    assert (found[0][3] != 0).any()


@needs_training
def test_dropout_drops_in_training_alone():
    q, v, k = inputs()
    layer = built(dropout=0.5, seed=1)
    plain = to_numpy(layer(q, v, k))
    close(layer(q, v, k, training=False), plain)
    dropped = to_numpy(layer(q, v, k, training=True))
    assert not np.allclose(dropped, plain)
    many = [to_numpy(layer(q, v, k, training=True)) for _ in range(300)]
    np.testing.assert_allclose(np.mean(many, 0), plain, atol=0.5)


@pytest.mark.backends("all")
def test_flash_attention_is_a_wish(monkeypatch):
    """False leaves the fused path; True asks for it, unless weights are returned."""
    q, v, k = inputs()
    expected = to_numpy(built()(q, v, k))
    calls = fused_calls(monkeypatch)
    for flash in (True, False, None):
        layer = built(flash_attention=flash, dropout=0.1)
        calls.clear()
        close(layer(q, v, k), expected)
        assert len(calls) == (flash is not False)
        layer(q, v, k, return_attention_scores=True)
        assert len(calls) == (flash is not False)
        assert layer.get_config()["flash_attention"] is flash


# Bad input.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": 0}, "argument `num_heads` must be at least 1"),
        ({"key_dim": 2.0}, "argument `key_dim`.*Received: key_dim=2.0"),
        ({"key_dim": True}, "`key_dim` must be a whole number.*key_dim=True"),
        ({"value_dim": -1}, "argument `value_dim`"),
        ({"num_key_value_heads": 2}, "must divide `num_heads`.*num_heads=3"),
        ({"dropout": 1}, "`dropout` must be at least 0 and below 1"),
        ({"sliding_window": 0}, "argument `sliding_window`.*Received"),
        ({"output_shape": 8.0}, "Invalid `output_shape`.*Received: output_shape=8.0"),
        ({"attention_axes": "1"}, "Invalid `attention_axes`"),
        ({"attention_axes": [1.5]}, "Invalid `attention_axes`.*attention_axes=.1.5."),
        ({"attention_axes": {1}}, "Invalid `attention_axes`.*attention_axes=.1."),
        ({"normalizer": "soft"}, "`normalizer` must be one of"),
        ({"position": "sine"}, "`position` must be one of.*'sine'"),
    ],
)
def test_constructor_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.MultiHeadAttention(**{"num_heads": 3, "key_dim": 4, **arguments})


def test_an_odd_width_cannot_be_rotated():
    layer = layers.MultiHeadAttention(2, 3, position="rotary")
    with pytest.raises(ValueError, match=r"`width`.*must be even.*width=3"):
        layer(*inputs())


Q, V, K = (T, DQ), (S, DV), (S, DK)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((B, *Q), (B, *V), (B, S + 1, DK)), "the last one, must be equal"),
        (((B, *Q), (B + 1, *V), (B + 1, *K)), "equal sizes along the batch"),
        (((B, *Q), (B, 2, *V), (B, 2, *K)), "must have one rank of at least 3"),
        (((B, *Q), (B, 0, DV), (B, 0, DK)), "at least one entry to attend to"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, message):
    with pytest.raises(ValueError, match=message):
        layers.MultiHeadAttention(2, 3)(*(np.ones(s, "float32") for s in shapes))
    with pytest.raises(ValueError, match=message):
        layers.MultiHeadAttention(2, 3)(*(keras.KerasTensor(s) for s in shapes))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"value_mask": np.ones((B, T), bool)}, r"`value_mask` must have shape \(2, 5"),
        ({"query_mask": np.ones((B, S), bool)}, r"`query_mask` must have shape \(2, 3"),
        ({"attention_mask": np.ones((S,), bool)}, "`attention_mask` must have rank 2"),
        ({"attention_mask": np.ones((B, S, T), bool)}, "`attention_mask` must have sh"),
        (
            {"attention_mask": np.array([[[0.0, -np.inf, 0, 0, 0]] * T] * B)},
            "or hold nothing but 0 and 1.*-inf",
        ),
        ({"bias": np.ones((B, T, S), "float32")}, "`bias` must be the shape of the w"),
        ({"bias": np.ones((S,), "float32")}, "`bias` must be the shape of the weights"),
    ],
)
def test_masks_and_biases_that_do_not_fit_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        layers.MultiHeadAttention(3, 4)(*inputs(), **call)


@pytest.mark.parametrize(
    ("arguments", "call", "name"),
    [
        ({}, {"use_causal_mask": True}, "use_causal_mask"),
        ({"sliding_window": 2}, {}, "sliding_window"),
        ({"position": "rotary"}, {}, "position"),
    ],
)
def test_order_needs_one_axis(arguments, call, name):
    layer = layers.MultiHeadAttention(3, 4, **arguments)
    with pytest.raises(ValueError, match=f"`{name}` needs one axis to attend over"):
        layer(*inputs(rank=4), **call)


@pytest.mark.parametrize("axes", [(0,), (3,), (1, 1), (1, -3), (5,)])
def test_axes_out_of_range_are_refused(axes):
    layer = layers.MultiHeadAttention(3, 4, attention_axes=axes)
    with pytest.raises(ValueError, match="must be different axes between the batch"):
        layer(*inputs(rank=4))


def test_prepare_needs_a_layer_that_is_built():
    layer = layers.MultiHeadAttention(3, 4)
    with pytest.raises(RuntimeError, match="`prepare` needs a layer that is built"):
        layer.prepare(inputs()[1])
