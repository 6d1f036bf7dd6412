"""Multi-head attention: normalized queries and keys, sinks, the soft cap."""

import numpy as np
import pytest
from calling import few_compiled, needs_training
from gradients import gradient, to_numpy
from heads import DQ, B, S, T, assert_equals, built, close, inputs, normal, reference
from keras import ops

from keras_attention import layers, record_attention
from keras_attention.ops import heads as heads_equation
from keras_attention.ops import sinks

SETTINGS = {
    "soft_cap": {"soft_cap": 0.7},
    "softmax1": {"normalizer": "softmax1"},
    "all": {
        "query_key_normalization": "rms",
        "attention_sinks": True,
        "soft_cap": 0.7,
    },
    "sinks_and_groups": {
        "query_key_normalization": "layer",
        "attention_sinks": True,
        "num_heads": 4,
        "num_key_value_heads": 2,
        "position": "rotary",
    },
}
MASK = np.random.default_rng(0).random((B, T, S)) < 0.6
MASK[0, 1] = False
VALUE_MASK = np.array([[True, True, False, True, True], [False] * 5])


def expected_of(layer, mask, bias=0):
    return reference(
        layer,
        *inputs(),
        mask,
        normalizer=layer.normalizer,
        bias=bias,
        rotary=layer.position is not None,
    )


@pytest.mark.backends("all")
@few_compiled("name", SETTINGS)
def test_equals_the_reference_on_both_paths(name):
    layer = built(**SETTINGS[name])
    causal = np.tri(T, S, dtype=bool)
    assert_equals(layer, expected_of(layer, MASK[:, None]), attention_mask=MASK)
    expected = expected_of(layer, causal & VALUE_MASK[:, None, None])
    assert_equals(layer, expected, value_mask=VALUE_MASK, use_causal_mask=True)


@pytest.mark.parametrize("shape", [(T, S), (3, T, S), (B, 1, T, S), (1, 1, 1, S)])
@pytest.mark.parametrize("causal", [False, True])
def test_a_bias_beside_the_sinks(shape, causal):
    layer, bias = built(attention_sinks=True), normal(*shape, seed=5)
    expected = expected_of(layer, np.tri(T, S, dtype=bool) if causal else True, bias)
    assert_equals(layer, expected, bias=bias, use_causal_mask=causal)


def test_masks_of_every_size_beside_the_sinks():
    x, value = np.zeros((B, T, 2, 4), "float32"), normal(B, T, 1, 3)
    for shape in ((1, 1, 1, 1), (B, 1, T, 1), (B, 1, 1, T), (1, 2, T, T)):
        mask = np.random.default_rng(0).random(shape) < 0.6
        full = np.broadcast_to(mask, (B, 2, T, T)) & np.tri(T, dtype=bool)
        weights = full / (full.sum(-1, keepdims=True) + np.exp(0.5))
        expected = np.moveaxis(weights @ np.moveaxis(value, 2, 1), 1, 2)
        sink = np.full((2,), 0.5, "float32")
        found = sinks.sink_attention(
            *(ops.convert_to_tensor(a) for a in (x, x[:, :, :1], value, sink)),
            mask=ops.convert_to_tensor(mask),
            is_causal=True,
        )
        close(found, expected)


def test_sinks_take_their_part_and_are_fused(monkeypatch):
    calls = []

    def fused(*given, **more):
        calls.append(more)
        return sinks.sink_attention(*given, **more)

    monkeypatch.setattr(heads_equation, "sink_attention", fused)
    layer = built(attention_sinks=True, dropout=0.3)
    layer(*inputs())
    assert len(calls) == 1
    _, weights = layer(*inputs(), return_attention_scores=True)
    assert (to_numpy(weights).sum(-1) < 1).all()
    # At first a sink scores 0, which is what `softmax1` has.
    layer._sinks.assign([0, 0, 0])
    plain = built(normalizer="softmax1")
    plain.set_weights(layer.get_weights()[1:])
    close(layer(*inputs()), plain(*inputs()))
    assert len(calls) == 3


@pytest.mark.backends("all")
@needs_training
def test_gradients_of_both_paths_reach_the_sinks():
    layer = built(query_key_normalization="rms", attention_sinks=True)
    aim = ops.convert_to_tensor(normal(B, T, DQ, seed=9))

    def loss(explicit):
        def of(q, v, k, sink):
            layer._sinks = sink
            call = {"attention_mask": MASK, "return_attention_scores": explicit}
            output = layer(q, v, k, **call)
            return ops.sum((output[0] if explicit else output) * aim)

        return of

    kept, given = layer._sinks, normal(3, seed=4)
    found = [gradient(loss(explicit), *inputs(), given) for explicit in (False, True)]
    layer._sinks = kept
    for fused, plain in zip(*found):
        close(fused, plain)
        assert np.isfinite(fused).all()
    assert (found[0][3] != 0).all()


def test_steps_and_prepared_memories():
    layer = built(
        normal(B, T, DQ), normal(B, T, DQ), **SETTINGS["sinks_and_groups"], soft_cap=0.7
    )
    x = ops.convert_to_tensor(normal(B, T, DQ))
    with record_attention() as maps:
        expected = to_numpy(layer(x, x, use_causal_mask=True))
    cache, index = layer.initial_cache(B, T), 0
    for size in (2, 1):
        output, cache = layer.step(x[:, index : index + size], cache, index)
        close(output, expected[:, index : index + size])
        index += size
    assert (maps[layer.path].sum(-1) < 1).all()
    expected, weights = layer(x, x, return_attention_scores=True)
    prepared = layer.prepare(x)
    found = layer.attend(x, prepared)
    close(found[0], expected)
    close(found[1], weights)
    close(layer.context(x, prepared)[0], expected)
    second = layer.context(x[:, 1], prepared, ops.ones((B,)))[0]
    close(second, expected[:, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query_key_normalization": "l2"}, r"one of \['layer', 'rms'\] or None.*'l2'"),
        ({"soft_cap": 0.0}, "`soft_cap` must be above 0. Received: soft_cap=0.0"),
        (
            {"attention_sinks": True, "normalizer": "sparsemax"},
            "`attention_sinks` need normalizer=.softmax.*normalizer='sparsemax'",
        ),
    ],
)
def test_constructor_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.MultiHeadAttention(3, 4, **arguments)
