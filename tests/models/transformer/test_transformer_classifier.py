"""The classifier: its pooling, its masks, half precision, LoRA and integers."""

import keras
import numpy as np
import pytest
import references
from calling import needs_training
from gradients import to_numpy
from keras import ops

import keras_attention
from keras_attention import models

WORDS, CLASSES, D = 17, 5, 8
SIZES = {"num_layers": 1, "dim": D, "num_heads": 2, "intermediate_dim": 13}
TOKENS = np.array([[3, 4, 5, 0], [6, 7, 0, 0], [8, 9, 10, 11]])
LABELS = np.array([0, 4, 2])


def made(**more):
    keras.utils.set_random_seed(0)
    return models.TransformerClassifier(WORDS, CLASSES, **{**SIZES, **more})


def logits(model, tokens=TOKENS):
    return to_numpy(model({"tokens": tokens}))


def learn(model, rate, epochs=8):
    # An epsilon that float16 holds.
    model.compile(
        keras.optimizers.Adam(rate, epsilon=1e-4),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model.fit({"tokens": TOKENS}, LABELS, epochs=epochs, verbose=0).history


@pytest.mark.parametrize("norm_first", [False, True])
def test_logits_are_those_of_the_sum(norm_first):
    model = made(position=None, block={"norm_first": norm_first})
    x = model.get_layer("token_embedding")(TOKENS)
    x = model.get_layer("block_0")(x, mask=ops.convert_to_tensor(TOKENS != 0))
    x = to_numpy(x)
    kernel, bias = map(to_numpy, model.get_layer("logits").get_weights())
    for row, tokens, found in zip(x, TOKENS, logits(model)):
        words = row[tokens != 0]
        pooled = words.sum(0) / len(words) ** 0.5
        if norm_first:
            pooled = (pooled - pooled.mean()) / np.sqrt(pooled.var() + 1e-5)
        expected = pooled @ kernel + bias
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_nothing_to_read_has_the_sum_zero():
    model = made()
    model.get_layer("logits").bias.assign(np.arange(CLASSES, dtype="float32"))
    found = logits(model, np.zeros((2, 3), int))
    np.testing.assert_array_equal(found, [np.arange(CLASSES)] * 2)


@pytest.mark.parametrize("position", [None, "sinusoidal", "learned", "rotary"])
def test_order_counts_where_there_are_positions(position):
    model = made(position=position)
    drawn = references.normal(WORDS, D)  # large enough for attention to be unequal
    model.get_layer("token_embedding").embeddings.assign(drawn.astype("float32"))
    turned = logits(model, TOKENS[2:, ::-1])
    same = np.allclose(turned, logits(model, TOKENS[2:]), rtol=1e-4, atol=1e-4)
    assert same == (position is None)


def test_attention_is_recorded():
    model = made(num_layers=2)
    with keras_attention.record_attention() as maps:
        model({"tokens": TOKENS})
    assert [weights.shape for weights in maps.values()] == [(3, 2, 4, 4)] * 2
    for weights in maps.values():
        there = np.broadcast_to((TOKENS != 0)[:, None, None], weights.shape)
        assert (weights[~there] == 0).all()


@needs_training
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float16"])
def test_half_precision_trains_and_predicts(policy):
    model = made(dtype=policy, dropout=0.0, block={"norm_first": True})
    losses = learn(model, rate=2e-2, epochs=12)["loss"]
    assert losses[-1] < 0.6 * losses[0]
    found = model.predict({"tokens": TOKENS}, verbose=0)
    assert found.dtype == policy.removeprefix("mixed_")
    assert np.isfinite(found.astype("float32")).all()


@needs_training
def test_lora_on_each_sublayer_that_has_it():
    model = made(position="learned")
    before = logits(model)
    able = [layer for layer in model._flatten_layers() if hasattr(layer, "enable_lora")]
    # Embedding and positions; queries, keys, values, output; the MLP; logits.
    assert len(able) == 2 + 4 + 2 + 1
    for layer in able:
        layer.enable_lora(2)
    np.testing.assert_allclose(logits(model), before, rtol=1e-5, atol=1e-5)
    frozen = [to_numpy(weight.value) for weight in model.non_trainable_weights]
    losses = learn(model, rate=3e-2)["loss"]
    assert losses[-1] < 0.9 * losses[0]
    for weight, old in zip(model.non_trainable_weights, frozen):
        np.testing.assert_array_equal(to_numpy(weight.value), old)
    factors = [w for w in model.trainable_weights if "lora" in w.path]
    assert len(factors) == 2 * len(able)
    assert all(np.abs(to_numpy(w.value)).max() > 0 for w in factors)


# Keras warns of each layer that has no `quantize`, an input for one.
@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
# … and on NumPy that there is no gradient, which nobody asked for.
@pytest.mark.filterwarnings("ignore:`custom_gradient`:UserWarning")
@pytest.mark.usefixtures("without_collection")
def test_integers_give_nearly_the_same_and_are_saved(tmp_path):
    model = made(position="learned")
    exact = logits(model)
    model.quantize("int8")
    able = [layer for layer in model._flatten_layers() if hasattr(layer, "enable_lora")]
    assert {layer.quantization_mode for layer in able} == {"int8"}
    found = logits(model)
    assert 0 < np.abs(found - exact).max() < 0.05 * np.abs(exact).max()
    for name in ("once", "twice"):
        model.save(tmp_path / f"{name}.keras")
        model = keras.saving.load_model(tmp_path / f"{name}.keras")
        np.testing.assert_allclose(logits(model), found, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 0}, "`num_classes` must be at least 1. Received: num_classes"),
        ({"num_layers": 0}, "`num_layers` must be at least 1"),
        ({"max_length": 1.5}, "`max_length` must be a whole number"),
        ({"dim": 7}, "`num_heads` must divide `dim`"),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1"),
        ({"position": "sine"}, "`position` must be one of"),
        ({"block": ["norm_first"]}, "`block` must be a dict"),
        ({"pooling": "max"}, "has no such argument. Received: pooling='max'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    given = {"vocabulary_size": WORDS, "num_classes": CLASSES, **SIZES, **arguments}
    with pytest.raises(ValueError, match=message):
        models.TransformerClassifier(**given)


def test_more_words_than_positions_are_refused():
    model = made(position="learned", max_length=4)
    model({"tokens": TOKENS})
    with pytest.raises(ValueError, match=r"end within `max_length`.*max_length=4"):
        model({"tokens": np.ones((1, 5), int)})
