"""Multi-head attention with positions: long sequences, half precision, sharing."""

import keras
import numpy as np
import pytest
from calling import BACKEND, few_compiled
from gradients import to_numpy
from heads import DQ, B, T, built, close, normal, shaken
from keras import ops

from keras_attention import kernels, layers
from keras_attention.kernels.attention import tiles as tiled
from keras_attention.ops import dot_product_attention


def assert_paths_agree(layer, x, **call):
    def both(x):
        explicit, _ = layer(x, x, return_attention_scores=True, **call)
        return layer(x, x, **call), explicit

    if BACKEND == "tensorflow":  # whose tiles are for graphs
        import tensorflow as tf

        both = tf.function(both)
    elif BACKEND == "jax":  # in one piece, since each operation alone costs more
        import jax

        both = jax.jit(both)
    close(*both(ops.convert_to_tensor(x)))


@pytest.mark.backends("all")
@pytest.mark.parametrize("position", ["rotary", "alibi", "relative"])
@few_compiled("causal", [False, True])
def test_tiles_equal_the_explicit_path(monkeypatch, position, causal):
    for name, size in {"LEAST": 1, "FEWEST": 2, "MOST": 2, "SEGMENTS": 2}.items():
        monkeypatch.setattr(tiled, name, size)
    if BACKEND == "torch":
        monkeypatch.setattr(kernels._attention, "CHUNKED", 1)
        monkeypatch.setattr(kernels._attention, "CHUNK", 2)
    x = normal(B, 5, DQ)
    layer = built(x, x, position=position)
    seen = np.array([[True] * 5, [True, True, True, False, False]])
    bias = None if causal else normal(5, 5, seed=4)
    assert_paths_agree(layer, x, use_causal_mask=causal, value_mask=seen, bias=bias)


@pytest.mark.backends("all")
def test_a_long_sequence_equals_the_explicit_path():
    length = 1024 if BACKEND == "torch" else 512  # from where on it is cut
    x = normal(1, length, 4)
    layer = built(x, x, num_heads=2, key_dim=2, position="alibi")
    assert_paths_agree(layer, x, use_causal_mask=True)


def test_a_bias_needs_no_more_axes_than_it_has():
    q, k = normal(B, 3, 2, 4), normal(B, 5, 2, 4, seed=1)
    bias = normal(2, 3, 5, seed=2)
    q, k, bias = (ops.convert_to_tensor(x) for x in (q, k, bias))
    close(
        dot_product_attention(q, k, k, bias=bias),
        dot_product_attention(q, k, k, bias=bias[None]),
    )
    with pytest.raises(ValueError, match=r"`bias` must broadcast.*bias\.shape=\(2, 3"):
        dot_product_attention(q, k, k, bias=bias[..., :4])


@pytest.mark.parametrize(
    ("cls", "dtype"),
    [
        (layers.RotaryEmbedding, "bfloat16"),
        (layers.RotaryEmbedding, "float16"),
        (layers.RotaryEmbedding, "mixed_bfloat16"),
        (layers.RelativePositionBias, "mixed_bfloat16"),
    ],
)
def test_a_layer_of_another_dtype(cls, dtype):
    x = normal(B, T, DQ)
    layer = layers.MultiHeadAttention(2, 4, position=cls(), dtype=dtype)
    layer.build(x.shape, x.shape)
    shaken(layer)
    expected = layer(x, x, use_causal_mask=True)
    found, _ = layer.step(ops.convert_to_tensor(x), layer.initial_cache(B, T), 0)
    for output in (expected, found):
        assert keras.backend.standardize_dtype(output.dtype) == layer.compute_dtype
    close(ops.cast(found, "float32"), ops.cast(expected, "float32"), 0.03)


@pytest.mark.backends("all")
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # NumPy's
@few_compiled(
    ("dtype", "lowest"),
    [("float16", -1e9), ("mixed_float16", -1e9), ("float32", -np.inf)],
)
def test_a_row_of_a_huge_bias_is_finite_on_both_paths(dtype, lowest):
    x, bias = normal(B, T, DQ), np.zeros((T, T), "float32")
    bias[1], bias[2, 0] = lowest, lowest
    seen = np.array([[True] * T, [True, True, False]])
    layer = layers.MultiHeadAttention(2, 4, dtype=dtype)
    call = {"bias": bias, "value_mask": seen}
    explicit, weights = layer(x, x, return_attention_scores=True, **call)
    explicit, weights = (to_numpy(ops.cast(y, "float32")) for y in (explicit, weights))
    assert (weights[:, :, 2, 0] == 0).all()
    assert (weights[1, ..., 2] == 0).all()
    close(weights.sum(-1), np.ones((B, 2, T)), 2e-3)
    close(ops.cast(layer(x, x, **call), "float32"), explicit, 5e-3)


@pytest.mark.parametrize(
    ("cls", "fits", "other", "message"),
    [
        (layers.RotaryEmbedding, (3, 4), (3, 6), "for key_dim=4.*key_dim=6"),
        (layers.AlibiBias, (2, 6), (3, 4), "for num_heads=2.*num_heads=3"),
        (layers.RelativePositionBias, (2, 6), (3, 4), "for num_heads=2.*num_heads=3"),
    ],
)
def test_a_position_is_shared_by_attentions_of_one_size(cls, fits, other, message):
    position, shape = cls(), (B, T, DQ)
    for sizes in ((2, 4), fits):
        layers.MultiHeadAttention(*sizes, position=position).build(shape, shape)
    wrong = layers.MultiHeadAttention(*other, position=position)
    with pytest.raises(ValueError, match=f"`position` is shared.*{message}"):
        wrong.build(shape, shape)


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
@pytest.mark.filterwarnings("ignore:.*`custom_gradient` for the numpy backend")
@pytest.mark.usefixtures("without_collection")
@pytest.mark.parametrize("kind", ["attention", "block"])
def test_int8_of_a_position_and_of_a_block(kind, tmp_path):
    given, x = keras.Input((T, 8)), normal(B, T, 8)
    if kind == "block":
        layer = layers.TransformerEncoderBlock(2, 8, attention={"position": "relative"})
        output = layer(given)
    else:
        position = layers.RelativePositionBias(name="distance")
        layer = layers.MultiHeadAttention(2, 4, position=position)
        output = layer(given, given)
    model = keras.Model(given, output)
    model.quantize("int8")
    quantized = [w.dtype for w in layer.weights].count("int8")
    assert quantized == (7 if kind == "block" else 5)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    close(again(x), model(x), 1e-6)
    other = type(layer).from_config({**layer.get_config(), "name": "other"})
    other.build(*[(B, T, 8)] * (1 if kind == "block" else 2))
    assert [w.dtype for w in other.weights] == [w.dtype for w in layer.weights]


def test_a_map_of_policies_with_whole_paths():
    policy = keras.dtype_policies.DTypePolicy
    paths = {
        "block/self_attention/query": policy("bfloat16"),
        "block/feedforward_in": policy("float16"),
    }
    policies = keras.dtype_policies.DTypePolicyMap("float32", paths)
    block = layers.TransformerEncoderBlock(2, 8, dtype=policies, name="block")
    block.build((B, T, 8))
    parts = (
        block.self_attention.query_dense,
        block.feedforward_in,
        block.feedforward_out,
    )
    assert [x.compute_dtype for x in parts] == ["bfloat16", "float16", "float32"]
