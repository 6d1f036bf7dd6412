"""Quantized sublayers in models of users: saved, loaded and built from a config.

`test_contract.py` has a column for the whole catalogue.
"""

import keras
import numpy as np
import pytest
from gradients import to_numpy

from keras_attention import layers

T, D = 5, 8
MODES = ("int8", "int4", "float8")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`"),
    pytest.mark.filterwarnings("ignore:.*`custom_gradient` for the numpy backend"),
]


@pytest.fixture(autouse=True)
def seeded(without_collection):
    keras.utils.set_random_seed(0)


@keras.saving.register_keras_serializable("tests_quantization")
class Twice(layers.BahdanauAttention):
    """A user's subclass with a sublayer that has an automatic name."""

    def __init__(self, units, **kwargs):
        super().__init__(units, **kwargs)
        self.last = keras.layers.Dense(D)

    def build(self, query_shape, value_shape=None, key_shape=None):
        super().build(query_shape, value_shape, key_shape)
        self.last.build(query_shape)

    def call(self, query, value, key=None, **options):
        return self.last(super().call(query, value, key, **options))


def functional():
    x, memory = keras.Input((None, D)), keras.Input((None, D))
    score = layers.AdditiveScore(7)
    y = layers.Attention(layers.GeneralScore())(x, memory)
    y = layers.AttentionRNN(
        keras.layers.GRUCell(6),
        layers.MonotonicAttention(units=7),
        attention_units=D,
        return_sequences=True,
    )(y, memory)
    y = Twice(7)(layers.LuongAttention("general")(y, memory), memory)
    return keras.Model([x, memory], (y, score(y, memory)))


def sequential():
    cell = layers.DNCCell(keras.layers.LSTMCell(7), 5, 3, 2)
    parts = layers.TransformerEncoderBlock(2, 8), layers.DNC(cell)
    return keras.Sequential([keras.Input((T, D)), *parts])


def answers(model):
    x = np.random.default_rng(0).normal(size=(2, T, D)).astype("float32")
    given = [x, x] if len(model.inputs) == 2 else x
    return [to_numpy(y) for y in keras.tree.flatten(model(given))]


def modes(model):
    return [p.quantization_mode for p in model._flatten_layers(include_self=False)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", [functional, sequential])
def test_a_model_of_a_user_is_saved_twice(make, mode, tmp_path):
    model = make()
    before = answers(model)
    model.quantize(mode)
    expected = answers(model)
    assert any((one != other).any() for one, other in zip(expected, before))
    for _ in range(2):
        keras.layers.Dense(1)  # the automatic names of the loaded layers differ
        model.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")
        assert modes(again) == modes(model)
        for one, other in zip(answers(again), expected, strict=True):
            np.testing.assert_array_equal(one, other)
        model = again


def test_one_sublayer_alone_and_settings_of_a_user(tmp_path):
    """The other sublayers stay as they are; the settings are in the file."""
    if not hasattr(keras.quantizers, "Int4QuantizationConfig"):
        pytest.skip("this Keras has no settings of quantization")
    x = keras.Input((T, D))
    layer = layers.BahdanauAttention(7)
    model = keras.Model(x, layer(x, x))
    config = keras.quantizers.Int4QuantizationConfig(block_size=4)
    layer.score.key_dense.quantize(config=config)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    score = again.layers[-1].score
    assert score.query_dense.quantization_mode is None
    assert score.key_dense.quantization_config.block_size == 4
    np.testing.assert_array_equal(answers(again)[0], answers(model)[0])


def test_a_config_keeps_the_quantization_before_and_after_build():
    layer = layers.HardAttention(units=7, name="mine")
    layer.build((2, T, D), (2, T, D))
    assert "quantized" not in layer.get_config()
    for part in (layer.score.query_dense, layer.score.key_dense):
        part.quantize("int8")
    config = layer.get_config()
    other = layers.HardAttention.from_config({**config, "name": "other"})
    assert {**other.get_config(), "name": "mine"} == config
    other.build((2, T, D), (2, T, D))
    assert [w.dtype for w in other.weights] == [w.dtype for w in layer.weights]
    assert {**other.get_config(), "name": "mine"} == config


def test_errors_of_keras():
    model = functional()
    model.quantize("int8")
    part = next(p for p in model._flatten_layers() if p.quantization_mode)
    with pytest.raises(ValueError, match="already quantized"):
        part.quantize("int8")
    layer = layers.BahdanauAttention(7)
    layer.build((2, T, D), (2, T, D))
    # As in Keras: a layer with sublayers is quantized by its model.
    with pytest.raises(NotImplementedError, match="does not have a `quantize` method"):
        layer.quantize("int8")
