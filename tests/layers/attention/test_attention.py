"""The attention layer: its call, its masks, its configs, its messages."""

import inspect

import keras
import numpy as np
import pytest
import references
from gradients import gradient, tensor, to_numpy
from heads import MASKS
from keras import ops
from stepping import query_and_memory

from keras_attention import layers
from keras_attention.ops import normalizers

B, T, S, D, V = 2, 3, 5, 7, 11
SCORES = {
    "dot": lambda: "dot",
    "scaled_dot": lambda: "scaled_dot",
    "cosine": lambda: "cosine",
    "rbf": lambda: "rbf",
    "general": lambda: "general",
    "additive": lambda: layers.AdditiveScore(4),
    "concat": lambda: layers.ConcatScore(4),
}


@keras.saving.register_keras_serializable("test_attention")
def squared(scores, mask=None, axis=-1):
    return ops.square(normalizers.linear(scores, mask, axis))


class MaskOf(keras.layers.Layer):
    """Shows which mask a tensor carries, by the way that Keras hands it on."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True

    def call(self, inputs, mask=None):
        self.seen = mask
        return inputs


def mask_of(x):
    probe = MaskOf()
    probe(x)
    return None if probe.seen is None else to_numpy(probe.seen, "bool")


def inputs():
    return query_and_memory(B, T, S, D, V)


def expected_for(mask=None, score="dot", query=None):
    q, v, k = inputs()
    return references.attention(q if query is None else query, k, v, score, mask=mask)


def assert_attends(result, mask=None, **more):
    output, weights = result
    expected = expected_for(mask, **more)
    np.testing.assert_allclose(to_numpy(output), expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(to_numpy(weights), expected[1], rtol=1e-4, atol=1e-5)


def test_signature_is_that_of_every_attention_layer():
    names = list(inspect.signature(layers.Attention.call).parameters)
    assert " ".join(names) == (
        "self query value key query_mask value_mask key_mask attention_mask "
        "return_attention_scores training use_causal_mask"
    )
    hop = inspect.signature(layers.MemoryHop.call).parameters
    assert list(hop) == names


@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
def test_equals_reference_with_and_without_returned_weights(score):
    q, v, k = inputs()
    layer = layers.Attention(score)
    assert_attends(layer(q, v, k, return_attention_scores=True), score=score)
    fused = to_numpy(layer(q, v, k))
    np.testing.assert_allclose(
        fused, expected_for(score=score)[0], rtol=1e-4, atol=1e-5
    )
    # The key is by default the value, and self-attention needs no more than that.
    np.testing.assert_allclose(
        to_numpy(layer(q, q)),
        references.attention(q, q, q, score)[0],
        rtol=1e-4,
        atol=1e-5,
    )


AS_RANK_3 = {
    "query_mask": lambda m: m[:, :, None],
    "value_mask": lambda m: m[:, None, :],
    "key_mask": lambda m: m[:, None, :],
    "attention_mask": lambda m: m,
}
CAUSAL = np.tri(T, S, dtype=bool)


@pytest.mark.parametrize("names", [*([n] for n in MASKS), list(MASKS), []])
@pytest.mark.parametrize("causal", [False, True])
def test_masks_are_merged(names, causal):
    q, v, k = inputs()
    given = {name: MASKS[name] for name in names}
    allowed = np.ones((B, T, S), bool)
    for name in names:
        allowed = allowed & AS_RANK_3[name](MASKS[name])
    allowed = allowed & CAUSAL if causal else allowed
    layer = layers.Attention()
    given["use_causal_mask"] = causal
    assert_attends(layer(q, v, k, **given, return_attention_scores=True), allowed)
    fused = to_numpy(layer(q, v, k, **given))
    np.testing.assert_allclose(fused, expected_for(allowed)[0], rtol=1e-4, atol=1e-5)
    assert np.all(fused[~allowed.any(-1)] == 0)


def test_attention_mask_of_rank_2_holds_for_the_batch():
    q, v, k = inputs()
    mask = MASKS["attention_mask"][0]
    result = layers.Attention()(
        q, v, k, attention_mask=mask, return_attention_scores=True
    )
    assert_attends(result, np.broadcast_to(mask, (B, T, S)))


def test_single_query():
    q, v, k = inputs()
    mask = MASKS["attention_mask"][:, 0]  # (B, S)
    there = np.array([True, False])
    layer = layers.Attention()
    given = {"attention_mask": mask, "query_mask": there}
    output, weights = layer(q[:, 0], v, k, **given, return_attention_scores=True)
    assert output.shape == (B, V)
    assert weights.shape == (B, S)
    allowed = (mask & there[:, None])[:, None]
    expected = expected_for(allowed, query=q[:, :1])
    np.testing.assert_allclose(
        to_numpy(output), expected[0][:, 0], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(to_numpy(weights), expected[1][:, 0], atol=1e-5)
    np.testing.assert_allclose(
        to_numpy(layer(q[:, 0], v, k, **given)), to_numpy(output), rtol=1e-4, atol=1e-5
    )
    symbolic = layer(keras.Input((D,)), keras.Input((None, V)), keras.Input((None, D)))
    assert symbolic.shape == (None, V)


def embedded(tokens, width=D):
    embedding = keras.layers.Embedding(13, width, mask_zero=True)
    return embedding(np.asarray(tokens))


WORDS = np.array([[3, 4, 0, 5, 0], [1, 0, 0, 0, 0]])


def test_masks_that_tensors_carry_are_used_and_left_alone():
    memory, query = embedded(WORDS), embedded(WORDS[:, :3])
    layer = layers.Attention()
    output, weights = layer(query, memory, return_attention_scores=True)
    allowed = (WORDS[:, :3] != 0)[:, :, None] & (WORDS != 0)[:, None, :]
    np.testing.assert_array_equal(to_numpy(weights) > 0, allowed)
    np.testing.assert_array_equal(mask_of(memory), WORDS != 0)
    np.testing.assert_array_equal(mask_of(query), WORDS[:, :3] != 0)
    np.testing.assert_array_equal(mask_of(output), WORDS[:, :3] != 0)
    assert mask_of(weights) is None
    # An explicit mask wins over the one that is carried.
    mask = np.array([[True] * 5, [False] * 5])
    _, weights = layer(query, memory, value_mask=mask, return_attention_scores=True)
    allowed = (WORDS[:, :3] != 0)[:, :, None] & mask[:, None, :]
    # The key is the value: its mask is the value's, too.
    np.testing.assert_array_equal(to_numpy(weights) > 0, allowed)


@pytest.mark.parametrize("kind", ["attention", "hop"])
@pytest.mark.parametrize("symbolic", [False, True])
def test_layers_that_share_a_memory_all_respect_its_mask(kind, symbolic):
    """The mask of a shared encoder output is still there for the third layer."""
    make = layers.Attention if kind == "attention" else layers.MemoryHop
    query = references.normal(B, T, D).astype("float32")
    readers = [make() for _ in range(3)]
    embedding = keras.layers.Embedding(13, D, mask_zero=True)

    def read(q, tokens):
        memory = embedding(tokens)
        return [r(q, memory, return_attention_scores=True)[1] for r in readers]

    if symbolic:
        q, tokens = keras.Input((T, D)), keras.Input((S,), dtype="int32")
        found = keras.Model([q, tokens], read(q, tokens))([query, WORDS])
    else:
        found = read(query, WORDS)
    for weights in found:
        weights = to_numpy(weights)
        np.testing.assert_array_equal(
            weights > 0, np.broadcast_to((WORDS != 0)[:, None, :], (B, T, S))
        )
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("normalizer", list(references.NORMALIZERS))
@pytest.mark.parametrize("score", SCORES)
def test_what_is_masked_counts_for_exactly_nothing(score, normalizer):
    mask = references.holed_pairs(B, T, S)
    dead = ~mask.any(-1)
    q, v, k = inputs()
    k_changed, v_changed = k.copy(), v.copy()
    k_changed[0, 3], k_changed[1], v_changed[0, 3], v_changed[1] = 1e4, 1e4, 1e4, 1e4
    plain = score == "dot" or normalizer == "softmax"
    for dtype in references.DTYPES if plain else ["float16"]:
        layer = layers.Attention(SCORES[score](), normalizer, dtype=dtype)
        weights = layer(q, v, k, attention_mask=mask, return_attention_scores=True)[1]
        weights = to_numpy(weights)
        assert np.all(np.isfinite(weights))
        assert np.all(weights[~mask] == 0)
        assert weights[0, 0].any()
        output = to_numpy(layer(q, v, k, attention_mask=mask))
        assert np.all(output[dead] == 0)
        assert np.all(output[0, 0] != 0)
        with np.errstate(over="ignore", invalid="ignore"):  # behind the mask only
            changed = layer(q, v_changed, k_changed, attention_mask=mask)
        np.testing.assert_array_equal(to_numpy(changed), output)


PAIRS = [
    *((score, "softmax") for score in SCORES),
    *(("dot", n) for n in references.NORMALIZERS if n != "softmax"),
]


@pytest.mark.parametrize(
    ("score", "normalizer", "dropout", "dtype"),
    [
        *((*pair, 0.4, "float16") for pair in PAIRS),
        ("dot", "entmax15", 0.4, "bfloat16"),
        ("additive", "softmax", 0.0, "bfloat16"),
        ("cosine", "softmax", 0.0, "float32"),
        ("dot", "softmax", 0.0, "float32"),
        ("dot", "softmax", 0.0, "float16"),  # the fused path
        ("dot", "softmax", 0.0, "bfloat16"),
    ],
)
def test_gradient_of_what_is_masked_is_exactly_zero(score, normalizer, dropout, dtype):
    mask = references.holed_pairs(B, T, S)
    layer = layers.Attention(SCORES[score](), normalizer, dropout, seed=1, dtype=dtype)
    layer.build((B, T, D), (B, S, V), (B, S, D))

    def loss(q, v, k):
        y = layer(q, v, k, attention_mask=mask, training=True)
        return ops.sum(y * tensor(references.normal(B, T, V), dtype))

    slopes = gradient(loss, *inputs(), dtype=dtype)
    assert all(np.all(np.isfinite(slope)) for slope in slopes)
    of_query, of_value, of_key = slopes
    assert np.all(of_query[~mask.any(-1)] == 0)
    for slope in (of_value, of_key):
        assert np.all(slope[1] == 0)
        assert np.all(slope[0, 3] == 0)
    assert of_value[0].any()


def test_dropout():
    q, _, k = inputs()
    identity = np.broadcast_to(np.eye(S, dtype="float32"), (B, S, S))
    layers_ = [layers.Attention(dropout=0.4, seed=7) for _ in range(2)]
    runs = [
        [layer(q, identity, k, training=True) for _ in range(2)] for layer in layers_
    ]
    runs = [[to_numpy(x) for x in run] for run in runs]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert np.any(runs[0][0] != runs[0][1])
    layer = layers_[0]
    still = to_numpy(layer(q, identity, k))
    np.testing.assert_array_equal(still, to_numpy(layer(q, identity, k)))
    dropped, weights = layer(
        q, identity, k, return_attention_scores=True, training=True
    )
    dropped, weights = to_numpy(dropped), to_numpy(weights)
    np.testing.assert_allclose(weights, still, rtol=1e-4, atol=1e-6)
    left = dropped != 0
    assert 0 < left.sum() < left.size
    np.testing.assert_allclose(dropped[left], weights[left] / 0.6, rtol=1e-4)


@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax"])
@pytest.mark.parametrize("score", SCORES)
def test_prepare_and_attend_equal_call(score, normalizer):
    q, v, k = inputs()
    mask = MASKS["value_mask"]
    layer = layers.Attention(SCORES[score](), normalizer)
    expected = layer(q, v, k, value_mask=mask, return_attention_scores=True)
    prepared = layer.prepare(v, k, mask)
    output, weights, state = layer.attend(q, prepared)
    assert state == ()
    single = layer.attend(q[:, 1], prepared, state)
    assert single[0].shape == (B, V)
    assert single[1].shape == (B, S)
    for found, one, wanted in zip((output, weights), single, expected):
        wanted = to_numpy(wanted)
        np.testing.assert_allclose(to_numpy(found), wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(to_numpy(one), wanted[:, 1], rtol=1e-4, atol=1e-5)


def test_prepare_and_attend_cast_to_the_compute_dtype():
    q, v, k = inputs()
    layer = layers.Attention(layers.AdditiveScore(4), dtype="mixed_bfloat16")
    expected = layer(q, v, k)
    output, weights, _ = layer.attend(q, layer.prepare(v, k))
    for x in (expected, output, weights):
        assert keras.backend.standardize_dtype(x.dtype) == "bfloat16"
    np.testing.assert_allclose(to_numpy(output), to_numpy(expected), atol=0.1)


def test_prepare_and_attend_need_a_built_layer_and_numbers():
    q, v, k = inputs()
    layer = layers.Attention("general", name="mine")
    with pytest.raises(
        RuntimeError, match=r"`prepare` needs a layer that is built.*mi"
    ):
        layer.prepare(v, k)
    with pytest.raises(RuntimeError, match=r"`attend` needs a layer that is built"):
        layer.attend(q, None)
    layer(q, v, k)
    with pytest.raises(RuntimeError, match=r"`prepare` is for use inside.*'mine'"):
        layer.prepare(keras.Input((S, V)), keras.Input((S, D)))
    with pytest.raises(
        RuntimeError, match=r"`attend` is for use inside a layer's `call"
    ):
        layer.attend(keras.Input((T, D)), layer.prepare(v, k))


@pytest.mark.parametrize("normalizer", ["sparsemax", squared])
@pytest.mark.parametrize("score", SCORES)
def test_config_round_trip(score, normalizer):
    q, v, k = inputs()
    layer = layers.Attention(SCORES[score](), normalizer, 0.3, 11, name="attention")
    for build_first in (False, True):
        if build_first:
            expected = layer(q, v, k)
        again = layers.Attention.from_config(layer.get_config())
        assert again.get_config() == layer.get_config()
        assert (again.dropout, again.seed) == (0.3, 11)
        assert again.normalizer == normalizer
        assert type(again.score) is type(layer.score)
    again(q, v, k)
    assert [w.path for w in again.weights] == [w.path for w in layer.weights]
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(to_numpy(again(q, v, k)), to_numpy(expected))
    # What is made from the config of a layer may meet tensors of other widths.
    other = layers.Attention.from_config(layer.get_config())
    x = references.normal(B, T, 2).astype("float32")
    assert other(x, x).shape == (B, T, 2)


def bad(message, **given):
    return pytest.param(given, message, id=message[:40])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        bad(
            r"`query_mask` must have rank 2, shape \(2, 3\)\. Received: shape=\(2, 3",
            query_mask=np.ones((B, T, S), bool),
        ),
        bad(
            r"`value_mask` must have shape \(2, 5\), or 1.*Received: shape=\(2, 3\)",
            value_mask=np.ones((B, T), bool),
        ),
        bad(
            r"`key_mask` must be boolean, True where.*Received: dtype=float32",
            key_mask=np.ones((B, S), "float32"),
        ),
        bad(
            r"`attention_mask` must have shape \(2, 3, 5\).*shape=\(2, 5, 3\)",
            attention_mask=np.ones((B, S, T), bool),
        ),
        bad(
            r"`query` and `key` must have the same width \(last axis\) for this score",
            key=np.ones((B, S, 4), "float32"),
        ),
        bad(
            r"`query` must have shape \(batch, length, width\)\. Received: query\.sh",
            query=np.ones((B, T, D, 1), "float32"),
        ),
        bad(
            r"`value` must have shape \(batch, length, width\).*value\.shape=\(2, 11\)",
            value=np.ones((B, V), "float32"),
        ),
        bad(
            r"`key` and `value` must have the same length.*key\.shape=\(2, 3, 7\)",
            key=np.ones((B, T, D), "float32"),
        ),
    ],
)
def test_inputs_that_do_not_fit(given, message):
    q, v, k = inputs()
    with pytest.raises(ValueError, match=message):
        layers.Attention()(**{"query": q, "value": v, "key": k, **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"score": "dott"},
            r"`score` must be one of \['cosine', 'dot', 'general', 'rbf', 'scaled_dot"
            r"'\].*Received: score='dott'",
        ),
        (
            {"normalizer": "softmin"},
            r"`normalizer` must be one of \['entmax15', 'hardmax', 'linear', 'softmax'"
            r", 'softmax1', 'sparsemax'\].*Received: normalizer='softmin'",
        ),
        (
            {"dropout": 1.0},
            r"`dropout` must be at least 0 and below 1\. Received: dropout=1\.0",
        ),
        ({"dropout": -0.1}, r"`dropout` must be at least 0.*Received: dropout=-0\.1"),
    ],
)
def test_arguments_that_do_not_fit(given, message):
    with pytest.raises(ValueError, match=message):
        layers.Attention(**given)
