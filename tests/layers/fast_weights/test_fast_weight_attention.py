"""FastWeightAttention: steps, weights, generation and errors.

The contract suite tests calls, masks, files and gradients.
"""

import keras
import numpy as np
import pytest
from gradients import to_numpy
from keras import ops

from keras_attention import layers, models, record_attention
from keras_attention import ops as equations

B, T, D = 2, 11, 7
FORMS = {
    "gated": {},
    "channel": {"decay": "channel", "strengths": "channel", "use_gate": True},
    "sum": {"decay": None, "strengths": "separate", "normalization": "sum"},
    "linear": {"rule": "linear", "kernel_size": None},
    "linear_rms": {"rule": "linear", "normalization": "rms", "feature_map": ops.tanh},
}
forms = pytest.mark.parametrize("form", FORMS)


def made(form="gated", **arguments):
    return layers.FastWeightAttention(3, 2, 5, **{**FORMS[form], **arguments})


def sequence(seed=0):
    random = np.random.default_rng(seed)
    mask = np.ones((B, T), bool)
    mask[1, :2] = mask[0, 6] = False
    return random.normal(size=(B, T, D)).astype("float32"), mask


@forms
def test_steps_equal_a_causal_call(form):
    """Of a prompt with padding, then of single inputs, with the tail of the prompt."""
    x, mask = sequence()
    layer = made(form)
    expected = layer(x, x, query_mask=mask, value_mask=mask, use_causal_mask=True)
    cache = layer.initial_cache(B, T)
    x, mask = ops.convert_to_tensor(x), ops.convert_to_tensor(mask)
    output, cache = layer.step(x[:, :5], cache, 0, mask[:, :5])
    outputs = [output]
    for t in range(5, T):
        output, cache = layer.step(x[:, t], cache, t, mask[:, t])
        outputs.append(output[:, None])
    np.testing.assert_allclose(
        to_numpy(ops.concatenate(outputs, 1)), to_numpy(expected), atol=1e-5
    )


@forms
def test_padding_before_a_prompt_changes_nothing(form):
    x, _ = sequence()
    padded = np.concatenate([np.full((B, 3, D), 9, "float32"), x], 1)
    mask = np.arange(T + 3) >= 3
    mask = np.broadcast_to(mask, (B, T + 3))
    layer = made(form)
    expected = to_numpy(layer(x, x, use_causal_mask=True))
    masks = {"query_mask": mask, "value_mask": mask}
    output = to_numpy(layer(padded, padded, use_causal_mask=True, **masks))
    np.testing.assert_allclose(output[:, 3:], expected, atol=1e-5)
    assert not output[:, :3].any()


@pytest.mark.parametrize("length", [1, 1000])
def test_the_memory_has_the_same_size_for_every_length(length):
    layer = made()
    layer.build((None, None, D), (None, None, D))
    cache = layer.initial_cache(B, length)
    assert tuple(cache.state.shape) == (B, 3, 2, 5)
    assert tuple(cache.key.shape) == (B, 3, 3, 2)


@forms
@pytest.mark.parametrize("causal", [True, False])
def test_weights_sum_the_values_of_the_heads(form, causal):
    x, mask = sequence()
    layer = made(form)
    options = {"value_mask": mask, "use_causal_mask": causal}
    with record_attention() as maps:
        output, weights = layer(x, x, return_attention_scores=True, **options)
    np.testing.assert_array_equal(to_numpy(maps[layer.path]), to_numpy(weights))
    x, mask = ops.convert_to_tensor(x), ops.convert_to_tensor(mask)
    _, values, *_ = layer._remember(x, x, mask)
    heads = ops.einsum("bhts,bshv->bthv", weights, values)
    again, _ = layer._finish(heads, None, x, None)
    np.testing.assert_allclose(to_numpy(again), to_numpy(output), atol=1e-5)
    if causal:
        assert not np.triu(to_numpy(weights), 1).any()


@pytest.mark.backends("tensorflow")
def test_weights_of_an_unknown_length():
    """Only a graph of TensorFlow does not know the length."""
    tf = pytest.importorskip("tensorflow")
    layer, (x, _) = made(), sequence()

    def weights(x):
        return layer(x, x, use_causal_mask=True, return_attention_scores=True)[1]

    graph = tf.function(weights, input_signature=[tf.TensorSpec((None, None, D))])
    np.testing.assert_allclose(graph(x), weights(x), atol=1e-6)


def test_the_call_is_the_equation():
    """A layer without convolution, with projections that pass inputs on."""
    layer = layers.FastWeightAttention(
        1, D, decay=None, kernel_size=None, feature_map="linear"
    )
    x, _ = sequence()
    layer.build(x.shape, x.shape)
    for dense in (
        layer.query_dense,
        layer.key_dense,
        layer.value_dense,
        layer.output_dense,
    ):
        dense.set_weights([np.eye(D).reshape(dense.kernel.shape)])
    output = layer(x, x, use_causal_mask=True)
    strength = to_numpy(layer.strength_dense(x))[..., 0]
    strength = (1 / (1 + np.exp(-strength))).astype("float32")
    keys = (x / np.linalg.norm(x, axis=-1, keepdims=True))[:, :, None]
    heads = to_numpy(equations.delta_rule(keys, keys, x[:, :, None], strength)[0])[
        :, :, 0
    ]
    heads /= np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(to_numpy(output), heads, atol=1e-4)


def language_model():
    attention = layers.FastWeightAttention(2, 3)
    sizes = {"num_layers": 1, "dim": 6, "intermediate_dim": 7}
    return models.CausalLM(13, position=None, attention=attention, **sizes)


@pytest.mark.backends("all")
def test_generation_equals_whole_sequences():
    """Prompts of unequal length are padded at the start; greedy and with beams."""
    model = language_model()
    prompts = np.array([[5, 6, 7, 3], [8, 0, 0, 0]])
    generated = model.generate({"tokens": prompts}, max_length=9)
    for prompt, tokens in zip(prompts, generated):
        prompt = prompt[prompt > 0]
        whole = np.concatenate([prompt, tokens])[None]
        logits = to_numpy(model({"tokens": whole}))[0]
        likely = logits[len(prompt) - 1 : -1].argmax(-1)
        np.testing.assert_array_equal(tokens, likely[: len(tokens)])


def test_beams_carry_their_memories():
    """The beams of a padded prompt, beside another one and alone."""
    model = language_model()
    prompts = np.array([[5, 6, 7], [8, 0, 0]])
    beams = model.generate({"tokens": prompts}, max_length=6, sampler="beam")
    alone = model.generate({"tokens": prompts[1:, :1]}, max_length=6, sampler="beam")
    length = min(alone.shape[1], beams.shape[1])
    np.testing.assert_array_equal(beams[1, :length], alone[0, :length])


@pytest.mark.parametrize(
    "name", ["relu", "silu", "softplus", "exponential", "sigmoid", "linear"]
)
def test_a_function_of_keras_is_its_name(name):
    feature_map = getattr(keras.activations, name)
    layer = layers.FastWeightAttention(2, 3, feature_map=feature_map)
    assert layer.get_config()["feature_map"] == name


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"rule": "linear"}, True),
        ({"rule": "linear", "feature_map": keras.activations.relu}, True),
        ({"rule": "linear", "feature_map": ops.tanh}, False),
        ({"rule": "linear", "normalization": "rms", "feature_map": "relu"}, False),
        ({"normalization": "sum"}, False),
        ({}, False),
    ],
)
def test_only_sums_of_positive_features_give_shares(arguments, expected):
    layer, (x, mask) = layers.FastWeightAttention(3, 2, **arguments), sequence()
    assert layer.gives_shares is expected
    if expected:
        options = {"value_mask": mask, "return_attention_scores": True}
        weights = to_numpy(layer(x, x, **options)[1])
        assert weights.min() >= 0
        total = weights.sum(-1)
        np.testing.assert_allclose(total[total != 0], 1, rtol=1e-5)
        assert total.any()


BAD = [
    ({"rule": "hebb"}, "`rule` must be one of"),
    ({"decay": "step"}, "`decay` must be one of"),
    ({"strengths": "none"}, "`strengths` must be one of"),
    ({"feature_map": "cosine"}, "`feature_map` must be one of"),
    ({"feature_map": keras.activations.elu}, '"elu" is elu.x. . 1: a file .*tion elu'),
    ({"feature_map": keras.activations.gelu}, "a file stores a function .*tion gelu"),
    (
        {"feature_map": keras.activations.silu, "normalization": "sum"},
        "divides by sums of features",
    ),
    ({"feature_map": "silu", "normalization": "sum"}, "divides by sums of features"),
    ({"rule": "linear", "strengths": "channel"}, '`strengths` must be "shared"'),
    ({"kernel_size": 0}, "`kernel_size` must be at least 1"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.FastWeightAttention(2, 3, **arguments)


def test_bad_calls():
    layer, (x, _) = made(), sequence()
    with pytest.raises(ValueError, match="`attention_mask` must be None"):
        layer(x, x, attention_mask=np.ones((T, T), bool))
    layer(x, x)
    cache = layer.initial_cache(B + 1, T)
    with pytest.raises(
        ValueError, match="must be one of this layer and for this batch"
    ):
        layer.step(ops.convert_to_tensor(x), cache, 0)


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        ({"rule": "linear", "normalization": "rms", "dtype": "mixed_float16"}, 3e3),
        ({"feature_map": "exponential"}, 300),
    ],
)
def test_large_inputs_give_finite_outputs(arguments, size):
    layer = layers.FastWeightAttention(1, 4, kernel_size=None, decay=None, **arguments)
    x = np.full((1, 64, 4), size, "float32")
    assert np.isfinite(to_numpy(layer(x, x, use_causal_mask=True))).all()
