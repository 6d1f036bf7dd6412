"""`MaskedLM`: its equations, its padding, and that it learns to fill gaps."""

import keras
import numpy as np
import pytest
from calling import needs_training
from gradients import to_numpy
from keras import ops

from keras_attention import record_attention
from keras_attention.models import MaskedLM

V, B, T, P, D = 13, 3, 7, 2, 8


def make(**more):
    keras.utils.set_random_seed(0)
    sizes = {"num_layers": 2, "dim": D, "num_heads": 2, "intermediate_dim": 12}
    model = MaskedLM(V, **{**sizes, **more})
    for n, weight in enumerate(model.weights):
        noise = np.random.default_rng(n).normal(size=weight.shape)
        weight.assign(to_numpy(weight.value) + 0.5 * noise)
    return model


def inputs(seed=0):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, V, (B, T)).astype("int32")
    tokens[1, 4:] = 0
    return {"tokens": tokens, "mask_positions": rng.integers(0, 4, (B, P), "int32")}


def run(model, given):
    return to_numpy(model({k: ops.convert_to_tensor(x) for k, x in given.items()}))


def norm(x, layer):
    gamma, beta = (to_numpy(w.value).astype("float64") for w in layer.weights)
    x = x - x.mean(-1, keepdims=True)
    return gamma * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) + beta


def test_logits_equal_their_equation():
    """The head, from what the last block returns."""
    model, given = make(block={"activation": "relu"}), inputs()
    read = [one for one in model.inputs if one.name == "tokens"]
    last = keras.Model(read, model.get_layer("block_1").output)
    x = to_numpy(last([ops.convert_to_tensor(given["tokens"])]))
    x = np.take_along_axis(x.astype("float64"), given["mask_positions"][..., None], 1)
    kernel, bias = (to_numpy(w.value) for w in model.get_layer("head").weights)
    hidden = norm(np.maximum(x @ kernel + bias, 0), model.get_layer("head_norm"))
    table = to_numpy(model.get_layer("token_embedding").embeddings.value)
    expected = hidden @ table.T + to_numpy(model.get_layer("logits").bias.value)
    found = run(model, given)
    assert found.shape == (B, P, V)
    scale = 1 + np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=1e-5 * scale)


@pytest.mark.parametrize("arguments", [{}, {"block": {"norm_first": True}}])
def test_padding_changes_nothing_and_both_sides_count(arguments):
    model, given = make(**arguments), inputs()
    wider = {**given, "tokens": np.pad(given["tokens"], ((0, 0), (0, 6)))}
    expected = run(model, given)
    scale = 1e-5 * (1 + np.abs(expected).max())
    np.testing.assert_allclose(run(model, wider), expected, atol=scale)
    for place in (0, T - 1):
        other = given["tokens"].copy()
        other[0, place] = 1 + other[0, place] % (V - 1)
        found = run(model, {**given, "tokens": other})
        assert np.abs(found[0] - expected[0]).max() > 1e-4
        np.testing.assert_allclose(found[1:], expected[1:], atol=scale)


def test_a_file_is_the_same(tmp_path):
    model, given = make(position="rotary", tie_embeddings=False), inputs()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is MaskedLM
    np.testing.assert_array_equal(run(again, given), run(model, given))


def test_what_its_heads_see_can_be_recorded():
    with record_attention() as maps:
        run(make(), inputs())
    assert len(maps) == 2
    for weights in maps.values():
        assert weights.shape == (B, 2, T, T)
        assert (weights[1, :, :, 4:] == 0).all()


@pytest.mark.release
@needs_training
def test_it_learns_what_stands_on_either_side():
    """A palindrome: the word that is hidden stands on the other side, too."""
    rng = np.random.default_rng(0)
    half = rng.integers(1, V - 1, (1100, 2))
    tokens = np.concatenate([half, half[:, ::-1]], 1).astype("int32")
    places = rng.integers(0, 4, (1100, 1)).astype("int32")
    labels = np.take_along_axis(tokens, places, 1)
    np.put_along_axis(tokens, places, V - 1, 1)
    keras.utils.set_random_seed(0)
    model = MaskedLM(
        V, num_layers=2, dim=32, num_heads=2, intermediate_dim=64, dropout=0.0
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.005), loss)
    given = {"tokens": tokens, "mask_positions": places}
    train, test = ({k: x[part] for k, x in given.items()} for part in SPLIT)
    model.fit(train, labels[:1000], batch_size=50, epochs=12, verbose=0)
    found = run(model, test).argmax(-1)
    assert (found == labels[1000:]).mean() >= 0.9  # by chance 1 in 11


SPLIT = (slice(0, 1000), slice(1000, None))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary_size": 0}, "`vocabulary_size` must be at least 1"),
        ({"num_heads": 3}, "`num_heads` must divide.*num_heads=3"),
        ({"position": "sine"}, "`position` must be one of.*'sine'"),
        ({"block": ["gelu"]}, "`block` must be a dict"),
        ({"widht": 3}, "`MaskedLM` has no such argument. Received: widht=3"),
    ],
)
def test_constructor_errors(arguments, message):
    sizes = {"vocabulary_size": V, "num_layers": 1, "dim": D, "num_heads": 2}
    with pytest.raises(ValueError, match=message):
        MaskedLM(**{**sizes, **arguments})
