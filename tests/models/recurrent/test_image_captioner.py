"""`ImageCaptioner`: its equations, its decoding against its teacher forcing."""

import keras
import numpy as np
import pytest
from calling import few_compiled, needs_training
from keras import ops
from writing import (
    START,
    STOP,
    after_start,
    assert_greedy_is_argmax,
    assert_one_beam_is_greedy,
    attention_weights,
    sharper,
)

from keras_attention import samplers
from keras_attention.layers import BahdanauAttention
from keras_attention.models import ImageCaptioner

B, T, V = 3, 7, 13
SHAPE, GRID = (9, 14, 3), (3, 4)

KINDS = {
    "paper": {},
    "after": {"order": "after", "cell": "gru"},
    "stochastic": {"doubly_stochastic": 0.5, "dropout": 0.3},
    "layer": {"attention": "a layer", "cell": "gru"},
}


def make(kind="paper", seed=0):
    keras.utils.set_random_seed(seed)
    arguments = dict(KINDS[kind])
    if arguments.get("attention") == "a layer":
        arguments["attention"] = BahdanauAttention(5, coverage=True)
    model = ImageCaptioner(
        SHAPE, V, embedding_dim=4, units=6, filters=(3, 5), **arguments
    )
    return sharper(model, 1.5)


def images(seed=0):
    """Faint ones, so that no tanh is saturated."""
    random = np.random.default_rng(seed)
    return random.normal(scale=0.1, size=(B, *SHAPE)).astype("float32")


@pytest.mark.backends("all")
@few_compiled("kind", KINDS)
def test_greedy_is_the_argmax_of_teacher_forcing(kind):
    model, image = make(kind), images()
    assert_greedy_is_argmax(model, T, image=image)


@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_is_teacher_forcing(kind):
    model, image = make(kind), images()
    target = np.random.default_rng(1).integers(4, V, (B, T)).astype("int32")
    logits = model.predict({"image": image, "target": target}, verbose=0)
    weights = attention_weights(model, image=image, target=target)
    cache, static = model.begin({"image": ops.convert_to_tensor(image)})
    prompt = ops.convert_to_tensor(target)
    before = np.zeros((B, 12))
    for t in range(T):
        found, _, cache = model.next(prompt, cache, t + 1, static)
        np.testing.assert_allclose(ops.convert_to_numpy(found), logits[:, t], atol=1e-5)
        attended = np.asarray(ops.convert_to_numpy(cache["alignment_sum"]))
        np.testing.assert_allclose(attended - before, weights[:, t], atol=1e-5)
        before = attended


def test_beam_search():
    model, image = make(), images()
    assert_one_beam_is_greedy(model, T, image=image)
    sampler = samplers.BeamSampler(3, length_penalty=0.6, coverage_penalty=0.2)
    assert model.generate(image, T, sampler, stop_token_ids=STOP).shape == (B, T)


def test_what_comes_later_changes_nothing_before():
    model, image = make(), images()
    target = np.full((B, T), START, "int32")
    other = target.copy()
    other[:, 4:] = 0
    one = model.predict({"image": image, "target": target}, verbose=0)
    two = model.predict({"image": image, "target": other}, verbose=0)
    np.testing.assert_allclose(one[:, :4], two[:, :4], atol=1e-5)
    assert not np.allclose(one[:, 5:], two[:, 5:], atol=1e-3)


def test_places_are_those_of_the_image_row_by_row():
    """What changes in a corner changes the place there, and no far one."""
    model, image = make(), images()
    assert model.grid == GRID
    encoder = model.encoder
    before = np.asarray(ops.convert_to_numpy(encoder(image)))
    assert before.shape[:3] == (B, *GRID)
    changed = image.copy()
    changed[:, -1, -1] += 5.0
    moved = np.asarray(ops.convert_to_numpy(encoder(changed))) != before
    moved = moved.any((0, 3))
    assert moved[-1, -1]
    assert not moved[0].any()
    assert not moved[:, 0].any()
    _, (prepared,) = model.begin({"image": ops.convert_to_tensor(image)})
    value = np.asarray(ops.convert_to_numpy(prepared.value))
    assert value.shape[:2] == (B, 12)
    width = before.shape[-1]
    np.testing.assert_allclose(value[..., :width], before.reshape(B, 12, -1), atol=1e-5)
    where = value[0, :, width:].reshape(*GRID, 2, -1)  # of rows, of columns
    np.testing.assert_array_equal(where[:, :1, 0], where[:, 1:2, 0])
    np.testing.assert_array_equal(where[:1, :, 1], where[1:2, :, 1])
    assert len(np.unique(where.reshape(12, -1), axis=0)) == 12


def half_blank():
    """All rows but the last are 0; the last image is 0 everywhere."""
    image = images()
    image[:, :-1] = 0
    image[-1] = 0
    return image


def test_the_start_is_made_of_the_average_place():
    model, image = make(), half_blank()
    cache, (prepared,) = model.begin({"image": ops.convert_to_tensor(image)})
    features = np.asarray(ops.convert_to_numpy(model.encoder(image)))
    there = (features != 0).any(-1).reshape(B, 12)
    places = np.asarray(ops.convert_to_numpy(prepared.value))  # (B, S, A)
    average = np.zeros((B, places.shape[-1]))
    for b in range(B - 1):
        average[b] = places[b, there[b]].mean(0)
    assert 0 < there[:-1].sum() < 24
    for state, name in zip(cache["state"].cell, ("start", "start_cell")):
        kernel, bias = model.get_layer(name).get_weights()
        expected = average @ kernel + bias
        expected = np.tanh(expected) if name == "start" else expected
        np.testing.assert_allclose(ops.convert_to_numpy(state), expected, atol=1e-5)


def test_what_is_blank_is_not_looked_at():
    """Its features are 0; and an image with nothing on it is described all the same."""
    model, image = make("stochastic"), half_blank()
    features = np.asarray(ops.convert_to_numpy(model.encoder(image)))
    assert not features[:, 0].any()
    assert not features[-1].any()
    there = (features != 0).any(-1).reshape(B, 1, 12)
    target = np.full((B, T), START, "int32")
    weights = attention_weights(model, image=image, target=target)
    assert not weights[~np.broadcast_to(there, weights.shape)].any()
    np.testing.assert_allclose(weights[:-1].sum(-1), 1, atol=1e-5)
    seen = weights.astype("float64").sum(1)
    expected = 0.5 * ((1 - seen) ** 2 * there[:, 0]).sum(1).mean()
    (found,) = model.losses
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, rtol=1e-5)
    logits = model.predict({"image": image, "target": target}, verbose=0)
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("kind", ["paper", "after"])
def test_logits_equal_their_equation(kind):
    model, image = make(kind), images()
    cache, static = model.begin({"image": ops.convert_to_tensor(image)})
    token = np.array([[4], [7], [5]], "int32")
    logits, found, _ = model.next(ops.convert_to_tensor(token), cache, 1, static)
    (words,) = model.get_layer("words").get_weights()
    (deep, bias), (kernel, last) = (
        model.get_layer(name).get_weights() for name in ("deep", "logits")
    )
    hidden = np.asarray(ops.convert_to_numpy(found))
    expected = np.tanh(words[token[:, 0]] + hidden @ deep + bias) @ kernel + last
    np.testing.assert_allclose(ops.convert_to_numpy(logits), expected, atol=1e-5)
    # The context is the weighted average of the places.
    (prepared,) = static
    value = np.asarray(ops.convert_to_numpy(prepared.value))
    weights = attention_weights(model, image=image, target=token)[:, 0]
    context = (weights[:, :, None] * value).sum(1)
    np.testing.assert_allclose(hidden[:, 6:], context, atol=1e-5)


def test_doubly_stochastic_equals_its_equation():
    keras.utils.set_random_seed(0)
    penalty = 0.5
    model = make("stochastic")
    image = images()
    target = np.random.default_rng(1).integers(4, V, (B, T)).astype("int32")
    target[1, 3:] = 0
    weights = attention_weights(model, image=image, target=target)  # (B, T, S)
    seen = (weights.astype("float64") * (target != 0)[:, :, None]).sum(1)  # (B, S)
    expected = penalty * ((1 - seen) ** 2).sum(1).mean()
    (found,) = model.losses
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, rtol=1e-5)


@needs_training
def test_doubly_stochastic_is_part_of_the_loss():
    model, image = make("stochastic"), images()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.SGD(0.0), loss)
    target = np.full((B, T), START, "int32")
    inputs, labels = {"image": image, "target": target}, np.full((B, T), 5)
    total = model.evaluate(inputs, labels, verbose=0)
    logits = model.predict(inputs, verbose=0).astype("float64")
    chances = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    seen = attention_weights(model, image=image, target=target).astype("float64").sum(1)
    expected = -chances[..., 5].mean() + 0.5 * ((1 - seen) ** 2).sum(1).mean()
    np.testing.assert_allclose(total, expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["layer", "stochastic"])
def test_a_file_writes_the_same(kind, tmp_path):
    model, image = make(kind), images()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is ImageCaptioner
    assert again.filters == (3, 5)
    assert again.image_shape == SHAPE
    assert type(again.attention) is type(model.attention)
    for sampler in ("greedy", "beam"):
        np.testing.assert_array_equal(
            again.generate(image, T, sampler), model.generate(image, T, sampler)
        )


def test_whole_numbers_are_images_too():
    model = make()
    pixels = np.random.default_rng(0).integers(0, 255, (B, *SHAPE), "uint8")
    written = model.generate(pixels, T)
    np.testing.assert_array_equal(written, model.generate(pixels.astype("float32"), T))


@pytest.mark.release
@needs_training
def test_it_learns_to_tell_where_the_light_is():
    rng = np.random.default_rng(0)
    row, column = rng.integers(0, 4, (2, 440))
    image = np.zeros((440, 16, 16, 1), "float32")
    for n in range(440):
        image[n, 4 * row[n] : 4 * row[n] + 4, 4 * column[n] : 4 * column[n] + 4] = 1
    labels = np.stack([4 + row, 8 + column, np.full(440, STOP)], 1).astype("int32")
    target = after_start(labels)
    keras.utils.set_random_seed(0)
    model = ImageCaptioner(
        (16, 16, 1), 12, embedding_dim=8, units=16, filters=(4, 8), order="after"
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.Adam(0.02), loss)
    inputs = {"image": image[:400], "target": target[:400]}
    model.fit(inputs, labels[:400], batch_size=20, epochs=8, verbose=0)
    written = model.generate(image[400:], 3, stop_token_ids=STOP)
    assert (written == labels[400:]).all(1).mean() >= 0.9  # by chance 1 in 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_length": 0}, "`max_length` must be at least 1.*max_length=0"),
        ({"start_token_id": V}, "`start_token_id` must be .*start_token_id=13"),
        (
            {"inputs": np.zeros((2, 9, 14, 1))},
            r"`image` must be.*shape=\(2, 9, 14, 1\)",
        ),
        ({"inputs": np.zeros(SHAPE)}, r"\(batch, 9, 14, 3\).*shape=\(9, 14, 3\)"),
        ({"inputs": np.zeros((0, *SHAPE))}, r"at least one.*shape=\(0, 9, 14, 3\)"),
        ({"inputs": {"images": images()}}, "`inputs` must hold 'image'.*images"),
    ],
)
def test_generate_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        make().generate(**{"inputs": images(), **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image_shape": (9, 14)}, r"rows, columns and channels.*\(9, 14\)"),
        ({"image_shape": (9, 14, 0)}, "`image_shape` must be at least 1"),
        (
            {"image_shape": (None, 14, 3)},
            r'must not have None with encoder="cnn".*\(None, 14, 3\)',
        ),
        ({"image_shape": 9}, "`image_shape` must be rows.*image_shape=9"),
        ({"filters": ()}, "`filters` must hold at least one number"),
        ({"filters": (3, 0)}, "`filters` must be at least 1"),
        ({"units": 0}, "`units` must be at least 1"),
        ({"cell": "rnn"}, r"`cell` must be one of \['gru', 'lstm'\].*'rnn'"),
        ({"attention": "luong"}, "`attention` must be 'bahdanau' or an attention"),
        ({"order": "during"}, "`order` must be one of.*order='during'"),
        ({"doubly_stochastic": -1.0}, "`doubly_stochastic` must be at least 0"),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1"),
        ({"widht": 3}, "`ImageCaptioner` has no such argument. Received: widht=3"),
    ],
)
def test_constructor_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        ImageCaptioner(
            **{"image_shape": SHAPE, "target_vocabulary_size": V, **arguments}
        )
