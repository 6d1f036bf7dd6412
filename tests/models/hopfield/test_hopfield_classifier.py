"""The classifier of bags: its parts, masks, dropped instances, and what it learns."""

import keras
import numpy as np
import pytest
import references
from calling import needs_training
from gradients import to_numpy

import keras_attention
from keras_attention import models
from keras_attention.datasets import bags
from keras_attention.models.hopfield.hopfield_classifier import InstanceDropout

F, D, SIZES = 5, 8, {"dims": (11, 8), "num_heads": 2, "key_dim": 3}
B, S = 3, 7
MASK = np.arange(S) < np.array([[7], [1], [4]])


def made(**more):
    keras.utils.set_random_seed(0)
    return models.HopfieldClassifier(F, **{**SIZES, **more})


def inputs():
    drawn = references.normal(B, S, F).astype("float32")
    return {"instances": drawn, "instances_mask": MASK}


def logits(model, given=None, **more):
    return to_numpy(model(inputs() if given is None else given, **more))


def test_logits_are_those_of_the_paper_s_network():
    model = made(num_classes=3, beta=0.7, pooling={"num_patterns": 2})
    weight = {w.path: to_numpy(w.value).astype("float64") for w in model.weights}
    gamma = references.normal(D)
    model.get_layer("normalization").gamma.assign(gamma.astype("float32"))
    expected = []
    for bag, mask in zip(inputs()["instances"], MASK):
        x = bag[mask].astype("float64")
        for n in range(2):
            x = x @ weight[f"embedding_{n}/kernel"] + weight[f"embedding_{n}/bias"]
            x = np.maximum(x, 0)
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        x = x * gamma
        of = {
            name: weight[f"pooling/hopfield/{name}/kernel"]
            for name in ("query", "key", "value", "attention_output")
        }
        q, k, v = (
            np.einsum("td,dhe->the", source, of[name])
            for source, name in (
                (weight["pooling/queries"], "query"),
                (x, "key"),
                (x, "value"),
            )
        )
        scores = 0.7 * np.einsum("the,she->hts", q, k)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        o = np.einsum("hts,she->the", p, v)
        z = np.maximum(np.einsum("the,hed->td", o, of["attention_output"]), 0)
        expected.append(z.reshape(-1) @ weight["logits/kernel"])
    np.testing.assert_allclose(logits(model), expected, rtol=1e-5, atol=1e-5)


def test_padding_order_and_bag_mates_do_not_count():
    model, given = made(), inputs()
    found = logits(model)
    there = MASK[..., None]
    changed = {**given, "instances": np.where(there, given["instances"], np.float32(9))}
    turned = {name: array[:, ::-1] for name, array in given.items()}
    rolled = {name: np.roll(array, 1, 0) for name, array in given.items()}
    rolled["instances"][0] = 7  # where the third was
    tolerance = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(logits(model, changed), found, **tolerance)
    np.testing.assert_allclose(logits(model, turned), found, **tolerance)
    np.testing.assert_allclose(logits(model, rolled)[1:], found[:2], **tolerance)


def test_where_it_looked_is_recorded():
    model = made()
    with keras_attention.record_attention() as maps:
        model(inputs())
    (weights,) = maps.values()
    assert weights.shape == (B, 2, 1, S)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    assert (weights[~np.broadcast_to(MASK[:, None, None], weights.shape)] == 0).all()


def test_instances_are_dropped_but_one():
    keras.utils.set_random_seed(0)
    layer = InstanceDropout(0.75)
    mask = np.zeros((400, 13), bool)
    mask[:200, :11] = mask[200:300, :1] = True
    kept = to_numpy(layer(mask, training=True))
    assert not kept[~mask].any()
    assert kept[:300].any(1).all()
    assert (kept[200:300] == mask[200:300]).all()
    # One of four stays; where none would, one does.
    expected = 0.25 + 0.75**11 / 11
    assert abs(kept[:200, :11].mean() - expected) < 4 * (0.19 / 2200) ** 0.5
    assert (kept[:200, :11].mean(0) > 0.1).all()
    again = to_numpy(layer(mask, training=True))
    assert (again != kept).any()
    for given in ({}, {"training": False}):
        np.testing.assert_array_equal(to_numpy(layer(mask, **given)), mask)


def test_instance_dropout_is_for_training_alone():
    model = made(instance_dropout=0.5)
    np.testing.assert_allclose(logits(model), logits(made()), rtol=1e-6, atol=1e-6)
    one = logits(model, training=True)
    assert (one[1] == logits(model)[1]).all()  # its only instance stays
    assert any((logits(model, training=True)[0] != one[0]).any() for _ in range(5))


def test_it_is_saved_with_its_pooling(tmp_path):
    pooling = {
        "num_patterns": 3,
        "value_dim": 5,
        "normalizer": "sparsemax",
        "projections": {"kernel_initializer": keras.initializers.HeNormal(seed=1)},
    }
    model = made(pooling=pooling, beta=[0.5, 2.0])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    assert loaded.beta == [0.5, 2.0]
    np.testing.assert_array_equal(logits(loaded), logits(model))


def test_pooling_without_projections():
    model = made(num_heads=1, key_dim=None, pooling={"projections": False})
    assert logits(model).shape == (B, 1)
    again = models.HopfieldClassifier.from_config(model.get_config())
    assert again.get_config() == model.get_config()
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(logits(again), logits(model))


@needs_training
@pytest.mark.parametrize("num_classes", [1, 2])
def test_it_learns_latch_sequences(num_classes):
    keras.utils.set_random_seed(0)
    data = bags.latch_sequences(count=256, length=7, characters=F)
    model = models.HopfieldClassifier(F, num_classes, **{**SIZES, "dims": ()})
    loss = (
        keras.losses.BinaryCrossentropy(from_logits=True)
        if num_classes == 1
        else keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    metrics = (
        [keras.metrics.AUC(from_logits=True), keras.metrics.BinaryAccuracy(threshold=0)]
        if num_classes == 1
        else [keras.metrics.SparseCategoricalAccuracy()]
    )
    model.compile(keras.optimizers.AdamW(1e-2), loss, metrics=metrics)
    model.fit(data.padded(), data.labels, batch_size=32, epochs=8, verbose=0)
    found = model.predict(data.padded(), batch_size=256, verbose=0)
    guess = found[:, 0] > 0 if num_classes == 1 else found.argmax(1)
    assert (guess == data.labels).mean() > 0.99
    scores = model.evaluate(data.padded(), data.labels, batch_size=256, verbose=0)
    assert min(scores[1:]) > 0.99


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input_dim": 0}, "`input_dim` must be at least 1"),
        ({"num_classes": 0}, "`num_classes` must be at least 1"),
        ({"dims": (3, 0)}, r"`dims\[1\]` must be at least 1"),
        ({"dims": 32}, r"`dims` must be a sequence of widths.*dims=32$"),
        (
            {"pooling": {"projections": False}},
            "needs `num_heads=1` and `key_dim=None`.*num_heads=2, key_dim=3$",
        ),
        ({"pooling": {"use_bias": False}}, r"`projections=\{'use_bias': False\}`"),
        ({"num_heads": 0}, "`num_heads` must be at least 1"),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1"),
        ({"instance_dropout": 1.0}, "`instance_dropout` must be at least 0 and below"),
        ({"beta": -1.0}, "`beta` must be a number above 0"),
        ({"pooling": ["num_patterns"]}, "`pooling` must be a dict"),
        ({"pooling": {"beta": 1.0}}, r"`pooling` must not hold \['beta'\]"),
        ({"pooling": {"normalizer": "max"}}, "`normalizer` must be one of"),
        ({"pool": "max"}, "has no such argument. Received: pool='max'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        models.HopfieldClassifier(**{"input_dim": F, **SIZES, **arguments})
