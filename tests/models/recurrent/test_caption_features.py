"""`ImageCaptioner` with a given encoder, with features, and with hard attention."""

import keras
import numpy as np
import pytest
from calling import BACKEND, carries_masks, needs_training
from gradients import to_numpy
from keras import ops
from writing import (
    START,
    STOP,
    after_start,
    assert_greedy_is_argmax,
    attention_weights,
    sharper,
)

from keras_attention import layers, losses, samplers
from keras_attention.models import ImageCaptioner

B, T, S, D, V = 3, 5, 7, 6, 13
SIZES = {"target_vocabulary_size": V, "embedding_dim": 4, "units": 6}


def features(seed=0):
    """Of 7, 4 and 2 locations."""
    found = np.random.default_rng(seed).normal(size=(B, S, D)).astype("float32")
    found[1, 4:] = found[2, 2:] = 0
    return found


def targets(seed=1):
    target = np.random.default_rng(seed).integers(4, V, (B, T)).astype("int32")
    target[:, 0] = START
    return target


def hard(estimator="reinforce"):
    return layers.HardAttention(units=5, estimator=estimator, seed=1)


def of_features(attention="bahdanau", **more):
    keras.utils.set_random_seed(0)
    given = {"image_shape": (None, D), "attention": attention, "encoder": None}
    return sharper(ImageCaptioner(**SIZES, **{**given, **more}), 1.5)


KINDS = {
    "soft": {"cell": "gru"},
    "straight_through": {"attention": "straight_through", "order": "after"},
    "reinforce": {"attention": "reinforce"},
}


def make(kind):
    arguments = dict(KINDS[kind])
    if "attention" in arguments:
        arguments["attention"] = hard(arguments["attention"])
    return of_features(**arguments)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["soft", "reinforce"])
def test_generation_is_teacher_forcing(kind, tmp_path):
    """Greedy, step by step, in beams and from a file, also with hard attention."""
    model, x = make(kind), features()
    written, logits = assert_greedy_is_argmax(model, T, features=x)
    target = after_start(written)
    if BACKEND in ("jax", "tensorflow"):
        return  # the rest is not about compiled code
    weights = attention_weights(model, features=x, target=target)
    there = (x != 0).any(-1)
    assert not weights[~np.broadcast_to(there[:, None], weights.shape)].any()
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-6)
    if kind != "soft":
        assert set(weights.ravel()) == {0, 1}
    cache, static = model.begin({"features": ops.convert_to_tensor(x)})
    attended = np.zeros((B, S))
    for t in range(T):
        found, _, cache = model.next(
            ops.convert_to_tensor(target), cache, t + 1, static
        )
        np.testing.assert_allclose(to_numpy(found), logits[:, t], atol=1e-5)
        attended += weights[:, t]
        np.testing.assert_allclose(
            to_numpy(cache["alignment_sum"]), attended, atol=1e-5
        )
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.encoder is None
    assert again.grid is None
    one = samplers.BeamSampler(1)
    np.testing.assert_array_equal(
        again.generate(x, T, one, stop_token_ids=None), written
    )
    beams = samplers.BeamSampler(3, coverage_penalty=0.2, return_all_beams=True)
    one, other = (
        m.generate({"features": x}, T, beams, stop_token_ids=STOP)
        for m in (model, again)
    )
    np.testing.assert_array_equal(one[0], other[0])  # no sample enters a beam


@pytest.mark.parametrize("kind", ["soft", "reinforce"])
def test_padding_changes_nothing(kind):
    """Neither the logits nor s₀, which is made of the average of the others."""
    model, x, target = make(kind), features(), targets()
    padded = np.pad(x, ((0, 0), (0, 3), (0, 0)))
    one, other = (
        model.predict({"features": y, "target": target}, verbose=0) for y in (x, padded)
    )
    np.testing.assert_allclose(one, other, atol=1e-5)
    alone = model.predict({"features": x[2:, :2], "target": target[2:]}, verbose=0)
    np.testing.assert_allclose(alone, one[2:], atol=1e-5)
    np.testing.assert_array_equal(model.generate(x, T), model.generate(padded, T))
    cache, _ = model.begin({"features": ops.convert_to_tensor(x)})
    average = np.stack([x[0].mean(0), x[1, :4].mean(0), x[2, :2].mean(0)])
    kernel, bias = model.get_layer("start").get_weights()
    expected = np.tanh(average @ kernel + bias)
    np.testing.assert_allclose(to_numpy(cache["state"].cell[0]), expected, atol=1e-5)


def test_features_of_a_grid_have_positions_and_those_of_a_set_have_none():
    grid = np.random.default_rng(0).normal(size=(B, 2, 3, D)).astype("float32")
    model = of_features(image_shape=(2, 3, D))
    assert model.grid == (2, 3)
    _, (prepared,) = model.begin({"features": ops.convert_to_tensor(grid)})
    value = to_numpy(prepared.value)
    np.testing.assert_array_equal(value[..., :D], grid.reshape(B, 6, D))
    where = np.cos(np.pi * np.outer((np.arange(3) + 0.5) / 3, np.arange(1, 5)))
    np.testing.assert_allclose(value[0, 3:, D + 4 :], where, atol=1e-6)
    model = of_features()
    _, (prepared,) = model.begin({"features": ops.convert_to_tensor(features())})
    np.testing.assert_array_equal(to_numpy(prepared.value), features())


def small_encoder():
    return keras.Sequential(
        [
            keras.Input((8, 12, 3)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(4, 3, strides=4, padding="same"),
            keras.layers.BatchNormalization(),
        ],
        name="eyes",
    )


def pixels():
    return np.random.default_rng(0).integers(0, 256, (B, 8, 12, 3), "uint8")


@needs_training
def test_an_encoder_is_trained_or_frozen_and_saved_so(tmp_path):
    """Also if it is frozen later, and with the optimizer's state."""
    encoder = small_encoder()
    model = ImageCaptioner((8, 12, 3), **SIZES, encoder=encoder)
    assert model.encoder is encoder
    assert model.grid == (2, 3)
    encoder.trainable = False
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile("adam", loss)
    before = [to_numpy(w.value) for w in encoder.weights]
    given = {"image": pixels().astype("float32"), "target": targets()}
    model.fit(given, targets(2), verbose=0)
    for old, weight in zip(before, encoder.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(weight.value), old)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert not again.encoder.trainable
    assert not again.encoder.trainable_weights
    assert len(again.trainable_weights) == len(model.trainable_weights)
    expected = model.predict(given, verbose=0)
    np.testing.assert_allclose(again.predict(given, verbose=0), expected, atol=1e-6)
    np.testing.assert_array_equal(
        again.generate(pixels(), T), model.generate(pixels(), T)
    )
    for state, kept in zip(again.optimizer.variables, model.optimizer.variables):
        np.testing.assert_array_equal(to_numpy(state.value), to_numpy(kept.value))
    encoder.trainable = True
    model.compile("adam", loss)
    model.fit(given, targets(2), verbose=0)
    for old, weight in zip(before, encoder.weights, strict=True):
        assert (to_numpy(weight.value) != old).any(), weight.path


@carries_masks
def test_a_mask_of_the_encoder_hides_locations():
    """Its padding is −1, and the features of padding are not 0."""
    keras.utils.set_random_seed(0)
    encoder = keras.Sequential(
        [keras.Input((None, D)), keras.layers.Masking(-1.0), keras.layers.Dense(4)]
    )
    model = sharper(ImageCaptioner((None, D), **SIZES, encoder=encoder), 1.5)
    x, target = features(), targets()
    there = (x != 0).any(-1)
    x[~there] = -1
    logits = model.predict({"image": x, "target": target}, verbose=0)
    alone = model.predict({"image": x[2:, :2], "target": target[2:]}, verbose=0)
    np.testing.assert_allclose(alone, logits[2:], atol=1e-5)
    weights = attention_weights(model, image=x, target=target)
    assert not weights[~np.broadcast_to(there[:, None], weights.shape)].any()
    _, (prepared,) = model.begin({"image": ops.convert_to_tensor(x)})
    np.testing.assert_array_equal(to_numpy(prepared.mask), there)


def application(name):
    """A model of keras.applications without weights, on small images."""
    shape = (32, 40, 3)
    made = getattr(keras.applications, name)
    return made(include_top=False, weights=None, input_shape=shape), shape


@pytest.mark.slow
@needs_training
@pytest.mark.parametrize("name", ["VGG16"])
def test_an_encoder_of_keras_applications(name, tmp_path):
    """As in the paper: VGG up to its fourth block, before the last pooling."""
    keras.utils.set_random_seed(0)
    whole, shape = application(name)
    encoder = keras.Model(whole.input, whole.get_layer("block5_conv3").output)
    model = ImageCaptioner(shape, **SIZES, encoder=encoder, attention=hard())
    assert model.grid == (2, 2)
    assert encoder.output.shape[-1] == 512
    encoder.trainable = False
    inner = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile("sgd", losses.ReinforceLoss(inner))
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (2, *shape)).astype("float32")
    given = {
        "image": keras.applications.vgg16.preprocess_input(image),
        "target": targets()[:2],
    }
    before = [to_numpy(w.value) for w in model.trainable_weights]
    model.fit(given, targets(2)[:2], verbose=0)
    for old, weight in zip(before, model.trainable_weights, strict=True):
        assert (to_numpy(weight.value) != old).any(), weight.path
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        again.generate(given["image"], T), model.generate(given["image"], T)
    )


@needs_training
def test_reinforce_needs_its_loss():
    model = make("reinforce")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    given = {"features": features(), "target": targets()}
    model.compile("sgd", loss=None)
    with pytest.raises(ValueError, match=r"it would never learn\. Received: loss=None"):
        model.fit(given, targets(2), verbose=0)
    model.compile("sgd", loss)
    with pytest.raises(ValueError, match=r"`loss` of `compile` must be a .*Reinforce"):
        model.fit(given, targets(2), verbose=0)
    with pytest.raises(ValueError, match=r"it would never learn\. Received: loss=<"):
        model.train_on_batch(given, targets(2))
    model.compile("sgd", losses.ReinforceLoss(loss))
    model.fit(given, targets(2), verbose=0)
    # The value is that of the cross-entropy, summed over the labels of a caption.
    found = model.evaluate(given, targets(2), verbose=0)
    logs = model.predict(given, verbose=0)
    chosen = np.take_along_axis(logs, targets(2)[..., None], -1)
    np.testing.assert_allclose(found, -chosen.sum((1, 2)).mean(), rtol=1e-5)


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_choice_is_credited_with_the_words_that_it_can_affect(order):
    """Another choice at step 1 changes the logits of these steps and of no others."""
    model = of_features(hard(), order=order, cell="gru")
    draws = np.full((B, T, 1), 0.5, "float32")

    def logits(draw):
        draws[:, 1] = draw
        numbers = ops.convert_to_tensor(draws)
        model.attention.sample = lambda shape, training: numbers if training else None
        given = {"features": features(), "target": targets()}
        tensors = {name: ops.convert_to_tensor(x) for name, x in given.items()}
        return to_numpy(model(tensors, training=True)).astype("float64")

    one, other = logits(0.001), logits(0.999)
    np.testing.assert_allclose(np.exp(one).sum(-1), 1, rtol=1e-5)
    changed = (np.abs(one - other) > 1e-4).any((0, 2)).tolist()
    later = order == "before"
    assert changed == [False, True, later, later, later]
    assert model.get_layer("choices").credit == ("later" if later else "own")


@pytest.mark.release
@needs_training
def test_it_learns_which_region_to_name():
    """By REINFORCE. Two of five regions are marked: their words, from left to right.

    By chance 1 caption in 36 is right, and without attention 1 in 2: the average of
    the regions knows the two words, not their order.
    """
    rng = np.random.default_rng(0)
    words = rng.integers(0, 6, (560, 5))
    marked = np.sort(rng.permuted(np.tile(np.arange(5), (560, 1)), axis=1)[:, :2], 1)
    x = np.concatenate([np.eye(6)[words], np.tile(np.eye(5), (560, 1, 1))], -1)
    mark = np.zeros((560, 5, 2))
    for n in (0, 1):
        mark[np.arange(560), marked[:, n], n] = 1
    x = np.concatenate([x, mark], -1).astype("float32")
    named = 4 + np.take_along_axis(words, marked, 1)
    labels = np.concatenate([named, np.full((560, 1), STOP)], 1).astype("int32")
    target = after_start(labels)
    keras.utils.set_random_seed(0)
    model = ImageCaptioner(
        *((5, 13), 10, 16, 32),
        attention=hard(),
        order="after",
        cell="gru",
        encoder=None,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.Adam(0.01), losses.ReinforceLoss(loss))
    given = {"features": x[:500], "target": target[:500]}
    model.fit(given, labels[:500], batch_size=20, epochs=9, verbose=0)
    written = model.generate(x[500:], 3, stop_token_ids=STOP)
    assert (written == labels[500:]).all(1).mean() >= 0.9


ERRORS = [
    ({"encoder": "vgg"}, '`encoder` must be "cnn", a Keras layer.*Received: .*vgg'),
    ({"encoder": keras.layers.Conv2D}, "`encoder` must be .*Received: encoder=<class"),
    ({"image_shape": (5,)}, r"that of features: \(locations, width\).*\(5,\)"),
    (
        {"image_shape": (5, None)},
        r"`image_shape` may have None only as the number of .*image_shape=\(5, None\)",
    ),
    (
        {"image_shape": (None, 3, 4)},
        r"`image_shape` may have None only .*image_shape=\(None, 3, 4\)",
    ),
    ({"filters": (3, 5)}, r'`filters` is for encoder="cnn".*\(3, 5\), encoder=None'),
    (
        {"attention": "reinforce", "doubly_stochastic": 0.5},
        "`doubly_stochastic` must be 0 .*Received: doubly_stochastic=0.5",
    ),
    (
        {"encoder": "flatten", "image_shape": (4, 4, 3)},
        r"`encoder` must return one tensor.*the shape \(None, 48\)",
    ),
    (
        {"encoder": "convolution", "image_shape": (None, None, 3)},
        r"only the batch .* may be None.*the shape \(None, None, None, 2\)",
    ),
    (
        {"encoder": "two outputs", "image_shape": (4, 4)},
        r"must return one tensor.*outputs of the shapes \[\(None, 4, 4\), ",
    ),
    (
        {"encoder": "two inputs", "image_shape": (4, 4)},
        r"of the one input of `encoder`.*\[\(4, 4\), \(4, 4\)\]",
    ),
    (
        {"encoder": "model", "image_shape": (5, 4)},
        r"of the one input of `encoder`. Received: image_shape=\(5, 4\)",
    ),
]


def encoder_of(name):
    one, other = keras.Input((4, 4)), keras.Input((4, 4))
    made = {
        "flatten": lambda: keras.layers.Flatten(),
        "convolution": lambda: keras.layers.Conv2D(2, 3),
        "two outputs": lambda: keras.Model(one, [one + 1, one + 2]),
        "two inputs": lambda: keras.Model([one, other], one + other),
        "model": lambda: keras.Model(one, one + 1),
    }
    return made[name]() if name in made else name


@pytest.mark.parametrize(("arguments", "message"), ERRORS)
def test_constructor_errors(arguments, message):
    given = {"image_shape": (None, D), "encoder": None, **arguments}
    if isinstance(given["encoder"], str):
        given["encoder"] = encoder_of(given["encoder"])
    if given.get("attention") == "reinforce":
        given["attention"] = hard()
    with pytest.raises(ValueError, match=message):
        ImageCaptioner(**SIZES, **given)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (np.zeros((2, S)), r"`features` must be numbers of shape \(batch, any, 6\)"),
        (np.zeros((2, S, 5)), r"shape \(batch, any, 6\), at least one.*\(2, 7, 5\)"),
        (np.zeros((2, 0, D)), r"at least one.*shape=\(2, 0, 6\)"),
        ({"image": np.zeros((2, S, D))}, "`inputs` must hold 'features'.*image"),
    ],
)
def test_generate_errors(inputs, message):
    with pytest.raises(ValueError, match=message):
        of_features().generate(inputs)


@pytest.mark.backends("tensorflow", reason="it writes SavedModels")
def test_exported_generation_reads_features_of_any_number(tmp_path):
    import tensorflow as tf

    model, x = make("reinforce"), features()
    model.export_generation(tmp_path / "file", max_length=T)
    served = tf.saved_model.load(tmp_path / "file")
    found = served.serve(tf.constant(x[:2, :6]))
    np.testing.assert_array_equal(found, model.generate(x[:2, :6], T))
