"""`PackedModel`: texts that share a row are as they are apart, and do not leak."""

import keras
import numpy as np
import pytest
from calling import BACKEND, few_compiled, needs_training
from compositions import ATTENTIONS
from gradients import gradient, to_numpy
from keras import ops

from keras_attention import layers, models
from keras_attention.models import PackedModel
from keras_attention.text import pack

V, C = 19, 5
SIZES = {"num_layers": 2, "dim": 8, "num_heads": 2, "intermediate_dim": 12}
LENGTHS = (5, 3, 7, 2, 6, 4, 1)
CLASSES = {
    "causal": (models.CausalLM, (V,)),
    "masked": (models.MaskedLM, (V,)),
    "classifier": (models.TransformerClassifier, (V, C)),
}
POSITIONS = ("learned", "sinusoidal", "rotary", "alibi", "relative", None)


def sharper(model):
    """Larger weights: attention is then far from a mean."""
    for n, weight in enumerate(model.weights):
        noise = np.random.default_rng(n).normal(size=weight.shape)
        weight.assign(to_numpy(weight.value) + 0.5 * noise)
    return model


def make(kind, **more):
    keras.utils.set_random_seed(0)
    cls, sizes = CLASSES[kind]
    return sharper(cls(*sizes, **{**SIZES, "dropout": 0.0, **more}))


def texts(lengths=LENGTHS, words=V):
    rng = np.random.default_rng(0)
    return [rng.integers(1, words, length).astype("int32") for length in lengths]


def packed(kind, model, given, length):
    """A packed model with its rows, and its inputs."""
    max_segments = 4 if kind == "classifier" else None
    rows = pack(given, length, max_segments=max_segments)
    inputs = dict(rows.inputs)
    if kind == "masked":
        steps = np.arange(length, dtype="int32")
        inputs["mask_positions"] = np.tile(steps, (len(inputs["tokens"]), 1))
    return PackedModel(model, max_segments), rows, inputs


def together(kind, model, given, length):
    """What a packed model returns for each text."""
    reader, rows, inputs = packed(kind, model, given, length)
    found = to_numpy(reader.predict(inputs, verbose=0))
    if kind == "classifier":
        return [*found[rows.rows, rows.segments - 1]]
    ids = inputs["segment_ids"]
    return [found[r][ids[r] == s] for r, s in zip(rows.rows, rows.segments)]


def apart(kind, model, given):
    """What the model returns for each text alone; padded, so there is one shape."""
    tokens = keras.utils.pad_sequences(given, padding="post", value=0)
    inputs = {"tokens": tokens}
    if kind == "masked":
        steps = np.arange(tokens.shape[1], dtype="int32")
        inputs["mask_positions"] = np.tile(steps, (len(tokens), 1))
    found = to_numpy(model.predict(inputs, verbose=0))
    if kind == "classifier":
        return [*found]
    return [row[: len(text)] for row, text in zip(found, given)]


def assert_as_apart(kind, model, given, length, tolerance=1e-6):
    for n, (found, expected) in enumerate(
        zip(together(kind, model, given, length), apart(kind, model, given))
    ):
        scale = 1 + np.abs(expected).max()
        np.testing.assert_allclose(
            found, expected, rtol=0, atol=tolerance * scale, err_msg=f"text {n}"
        )


# Sums in another order; TensorFlow's are up to 3e-6 of the scale.
TOLERANCE = 1e-5 if BACKEND == "tensorflow" else 1e-6


@pytest.mark.backends("all")
@few_compiled("kind", CLASSES)
@pytest.mark.parametrize("position", POSITIONS)
def test_texts_are_as_apart(kind, position):
    if BACKEND in ("jax", "tensorflow") and position not in ("learned", "rotary"):
        return
    model = make(kind, position=position, max_length=7)
    assert_as_apart(kind, model, texts(), 11, TOLERANCE)
