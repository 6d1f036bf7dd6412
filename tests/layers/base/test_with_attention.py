"""Models that also return their attention weights."""

import keras
import numpy as np
import pytest
import references
from calling import few_compiled
from gradients import to_numpy

from keras_attention import layers, record_attention, with_attention


def tokens(batch, length, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 11, (batch, length)).astype("int32")


def two_layers():
    words = keras.Input((None,), dtype="int32", name="words")
    x = keras.layers.Embedding(11, 6, mask_zero=True)(words)
    x = layers.MultiHeadAttention(2, 3, name="heads")(x, x)
    hop = layers.MemoryHop(name="hop")
    pooled = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(words, hop(hop(pooled, x), x))


@keras.saving.register_keras_serializable("test_with_attention")
class Own(keras.Model):
    """A model without a symbolic graph."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = keras.layers.Embedding(11, 6)
        self.attention = layers.Attention("general", name="attention")

    def call(self, words):
        x = self.embedding(words)
        return {"found": self.attention(x, x), "words": x}


def sequence():
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(11, 6),
            layers.TransformerEncoderBlock(num_heads=2, intermediate_dim=5),
            layers.AttentionPooling(units=3, name="pooling"),
        ]
    )


def nested():
    words = keras.Input((None,), dtype="int32", name="outer")
    return keras.Model(words, keras.layers.Dense(3)(two_layers()(words)))


MODELS = [two_layers, Own, sequence, nested]


@pytest.mark.backends("all")
@few_compiled("make", MODELS, ids=lambda make: make.__name__.lower())
def test_gives_outputs_and_what_is_recorded(make, tmp_path):
    if make is Own and keras.backend.backend() == "numpy":
        pytest.skip("Keras on NumPy builds a subclassed model with uninitialized ids")
    model, x = make(), tokens(5, 7)
    inputs = keras.Input((None,), dtype="int32") if make is Own else None
    wrapped = with_attention(model, inputs)
    with record_attention() as maps:
        expected = model(x)
    if not isinstance(expected, dict):
        expected = {"output": expected}
    expected = {name: to_numpy(one) for name, one in expected.items()}
    expected |= maps
    found = wrapped.predict(x, verbose=0)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, 1e-5, 1e-5, err_msg=name)
        symbolic = wrapped.output[name].shape
        assert len(symbolic) == array.ndim
        for size, real in zip(symbolic, array.shape):
            assert size in (None, real)
        assert symbolic[0] is None
    wrapped.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = loaded.predict(x, verbose=0)
    assert again.keys() == expected.keys()
    for name, array in found.items():
        np.testing.assert_allclose(again[name], array, 1e-6, 1e-6, err_msg=name)


@pytest.mark.slow_on("jax", "tensorflow")
@pytest.mark.backends("jax", "tensorflow", "torch")
def test_trains():
    model = two_layers()
    wrapped = with_attention(model)
    wrapped.compile(keras.optimizers.SGD(0.1), loss={"output": "mse"})
    before = [to_numpy(w) for w in model.trainable_weights]
    y = references.normal(5, 6).astype("float32")
    wrapped.fit(tokens(5, 7), {"output": y}, verbose=0)
    for old, weight in zip(before, model.trainable_weights):
        assert np.abs(to_numpy(weight) - old).max() > 0 or "bias" in weight.path


def test_an_outer_recording_gets_the_maps():
    model, x = two_layers(), tokens(2, 3)
    wrapped = with_attention(model)
    with record_attention() as expected:
        model(x)
    with record_attention() as maps:
        wrapped(x)
    assert maps.keys() == expected.keys()
    assert all(type(array) is np.ndarray for array in maps.values())


@pytest.mark.parametrize(
    ("make", "length"),
    [
        (lambda: keras.layers.AveragePooling1D(2), 4),
        (lambda: keras.layers.AveragePooling1D(4), 2),
        (lambda: keras.layers.Conv1D(8, 5), 4),
    ],
)
def test_open_lengths_behind_windows(make, length):
    """A window that is wider than a small length, and lengths that it makes equal."""
    x = keras.Input((None, 8))
    y = make()(x)
    y = layers.Attention(name="a")(y, y)
    model = with_attention(keras.Model(x, y))
    assert {n: one.shape for n, one in model.output.items()} == {
        "a": (None, None, None),
        "output": (None, None, 8),
    }
    found = model.predict(np.ones((2, 8, 8), "float32"), verbose=0)
    assert found["a"].shape == (2, length, length)


def test_sizes_that_are_learned():
    """The shapes of the maps are found with sizes that such a model accepts."""
    words = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(11, 6)(words)
    x = x + layers.PositionEmbedding(5)(x)
    wrapped = with_attention(keras.Model(words, layers.Attention(name="a")(x, x)))
    assert wrapped.output["a"].shape == (None, None, None)
    assert wrapped.predict(tokens(2, 5), verbose=0)["a"].shape == (2, 5, 5)


def test_what_is_refused():
    words = keras.Input((4,))
    with pytest.raises(ValueError, match=r"must contain an attention layer.*'plain'"):
        with_attention(keras.Model(words, keras.layers.Dense(2)(words), name="plain"))
    with pytest.raises(ValueError, match=r"`inputs` must be given.*'mine' \(Own\)"):
        with_attention(Own(name="mine"))
    with pytest.raises(ValueError, match=r"a Keras model. Received: model=None"):
        with_attention(None)
    x = keras.Input((3, 4))
    named = keras.Model(x, {"a": layers.Attention(name="a")(x, x)})
    with pytest.raises(ValueError, match=r"must not be the name of an output.*'a'"):
        with_attention(named)
