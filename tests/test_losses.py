"""The losses: margin ranking, smoothed cross-entropy, coverage."""

import keras
import numpy as np
import pytest
import references
from calling import needs_training
from keras import ops

from keras_attention.layers import BahdanauAttention
from keras_attention.losses import (
    CoverageLoss,
    ReinforceLoss,
    SmoothedCrossentropy,
    SupportingFactLoss,
)
from keras_attention.ops import ranking


def number(x):
    return float(keras.ops.convert_to_numpy(x))


def test_one_ranking_a_sample():
    """γ = 0.5: only what is less than 0.5 below the right score costs."""
    scores = np.array([[2.0, 1.8, 0.0], [1.0, 3.0, 2.75]])
    loss = SupportingFactLoss(margin=0.5)
    assert number(loss(np.array([0, 2]), scores)) == pytest.approx((0.3 + 0.75) / 2)
    # Keras may give labels an axis of their own.
    assert number(loss(np.array([[0], [2]]), scores)) == pytest.approx(1.05 / 2)
    weights = np.array([0.0, 2.0])
    found = number(loss(np.array([0, 2]), scores, sample_weight=weights))
    assert found == pytest.approx(2 * 0.75 / 2)


def test_a_ranking_a_hop():
    """The first −1 stands for the last class; what follows it does not count."""
    scores = references.normal(1, 4, 3)
    loss = SupportingFactLoss(margin=0.5, reduction="sum")

    def one(hop, label):
        return number(loss(np.array([label]), scores[:, hop]))

    found = number(loss(np.array([[1, 0, -1, -1]]), scores))
    assert found == pytest.approx(one(0, 1) + one(1, 0) + one(2, 2), rel=1e-5)
    found = number(loss(np.array([[-1, -1, -1, -1]]), scores))
    assert found == pytest.approx(one(0, 2), rel=1e-5)
    found = number(loss(np.array([[1, 0, 2, 1]]), scores))
    assert found == pytest.approx(sum(one(*x) for x in enumerate((1, 0, 2, 1))), 1e-5)


def test_a_hidden_label_teaches_nothing():
    scores = ranking.hide(
        ops.convert_to_tensor(references.normal(2, 5).astype("float32")),
        ops.convert_to_tensor([[True, True, True, True, False]] * 2),
    )
    loss = SupportingFactLoss(margin=0.5, reduction=None)
    found = ops.convert_to_numpy(loss(np.array([4, 1]), scores))
    assert found[0] == 0
    assert np.isfinite(found[1])
    assert found[1] > 0


def test_config():
    loss = SupportingFactLoss(0.3, reduction="sum", name="mine")
    config = keras.losses.serialize(loss)
    assert config["registered_name"] == "keras_attention>SupportingFactLoss"
    again = keras.losses.deserialize(config)
    assert isinstance(again, SupportingFactLoss)
    assert again.get_config() == loss.get_config()
    assert (again.margin, again.reduction, again.name) == (0.3, "sum", "mine")


def test_errors():
    with pytest.raises(ValueError, match=r"`margin` must be above 0\. Received: marg"):
        SupportingFactLoss(margin=0)
    with pytest.raises(
        ValueError,
        match=r"`y_pred` must have shape \(batch, classes\) or \(batch, hops, classes\)"
        r".* Received: y_true\.shape=\(2, 3\), y_pred\.shape=\(2, 5\)",
    ):
        SupportingFactLoss()(np.zeros((2, 3)), np.zeros((2, 5)))


def test_coverage_loss_by_hand():
    """Steps look at 0; at 0 again with 0.75; at both, which are covered by then."""
    weights = np.array([[[1.0, 0.0], [0.75, 0.25], [0.5, 0.5]]], "float32")
    costs = [0.0, 0.75, 0.5 + 0.25]
    nothing = np.zeros((1, 3, 2), "float32")
    loss = CoverageLoss()
    assert number(loss(nothing, weights)) == pytest.approx(np.mean(costs))
    # What pads the queries can be left out, as of any loss.
    is_valid = np.array([[1.0, 1.0, 0.0]], "float32")
    found = number(loss(nothing, weights, sample_weight=is_valid))
    assert found == pytest.approx(0.75 / 3)
    assert CoverageLoss.from_config(loss.get_config()).name == "coverage_loss"
    with pytest.raises(ValueError, match="`y_pred` must be weights of shape"):
        loss(nothing, weights[0])


@pytest.mark.backends("all")
@needs_training
def test_coverage_loss_in_compile():
    query, value = keras.Input((3, 5)), keras.Input((7, 2))
    layer = BahdanauAttention(11, coverage=True)
    outputs = layer(query, value, return_attention_scores=True)
    model = keras.Model([query, value], outputs)
    model.compile(keras.optimizers.SGD(0.5), [None, CoverageLoss()])
    inputs = [references.normal(2, 3, 5), references.normal(2, 7, 2, seed=1)]
    target = [np.zeros((2, 3, 2)), np.zeros((2, 3, 7))]
    before = model.evaluate(inputs, target, verbose=0)
    model.fit(inputs, target, epochs=5, verbose=0)
    assert np.ravel(model.evaluate(inputs, target, verbose=0))[0] < np.ravel(before)[0]


def smoothed(labels, logits, epsilon):
    """In float64, from the equation."""
    logits = logits.astype("float64")
    chances = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    wanted = np.eye(logits.shape[-1])[labels] * (1 - epsilon)
    return -((wanted + epsilon / logits.shape[-1]) * chances).sum(-1)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("ignored", [None, 0, -1])
def test_smoothed_crossentropy_equals_its_equation(epsilon, ignored):
    logits = references.normal(3, 5, 7)
    labels = np.random.default_rng(0).integers(1, 7, (3, 5))
    counts = np.ones((3, 5))
    if ignored is not None:
        labels[1, 3:] = labels[2, :2] = ignored
        counts = (labels != ignored).astype(float)
    costs = smoothed(labels, logits, epsilon) * counts
    loss = SmoothedCrossentropy(epsilon, ignore_class=ignored)
    expected = costs.sum() / counts.sum()
    assert number(loss(labels, logits)) == pytest.approx(expected, rel=1e-5)
    assert number(loss(labels[..., None], logits)) == pytest.approx(expected, rel=1e-5)
    weights = np.array([0.0, 2.0, 0.5], "float32")
    expected = (weights[:, None] * costs).sum() / counts.sum()
    for given in (weights[:, None] * np.ones((3, 5), "float32"), weights[:, None]):
        found = number(loss(labels, logits, sample_weight=given))
        assert found == pytest.approx(expected, rel=1e-5)
    found = number(loss(labels, logits, sample_weight=weights))
    assert found == pytest.approx(expected, rel=1e-5)
    total = SmoothedCrossentropy(epsilon, ignored, reduction="sum")
    assert number(total(labels, logits)) == pytest.approx(costs.sum(), rel=1e-5)
    each = SmoothedCrossentropy(epsilon, ignored, reduction=None)(labels, logits)
    np.testing.assert_allclose(ops.convert_to_numpy(each), costs, rtol=1e-5, atol=1e-5)


def test_smoothed_crossentropy_agrees_with_keras():
    logits, labels = references.normal(3, 5, 7), np.arange(15).reshape(3, 5) % 7
    theirs = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.2)
    expected = number(theirs(np.eye(7)[labels], logits))
    found = number(SmoothedCrossentropy(0.2)(labels, logits))
    assert found == pytest.approx(expected, rel=1e-5)
    theirs = keras.losses.SparseCategoricalCrossentropy(True, ignore_class=0)
    found = number(SmoothedCrossentropy(0.0, ignore_class=0)(labels, logits))
    assert found == pytest.approx(number(theirs(labels, logits)), rel=1e-5)


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum", None])
@pytest.mark.parametrize("ignored", [None, 0])
def test_smoothed_crossentropy_weighs_and_masks_as_keras(ignored, reduction):
    """B = T, so that nothing but the axes tells weights of rows from those of words."""
    words = np.array([[3, 1, 0, 0], [2, 0, 0, 0], [1, 2, 4, 3], [1, 4, 2, 0]])
    labels = np.roll(words, -1, axis=1) * (words > 0)
    labels[2, 3], labels[3, 2] = 2, 0  # a word that does not count is not masked
    embedding = keras.layers.Embedding(5, 7, mask_zero=True)
    embedding.build()
    embedding.set_weights([references.normal(5, 7)])
    weights = np.random.default_rng(1).uniform(size=(4, 4, 1))
    ours = SmoothedCrossentropy(0.0, ignored, reduction=reduction)
    theirs = keras.losses.SparseCategoricalCrossentropy(
        True, ignored, reduction=reduction
    )

    def check(y_true, y_pred, given=None, same=None):
        found = ops.convert_to_numpy(ours(y_true, y_pred, given))
        expected = ops.convert_to_numpy(theirs(y_true, y_pred, same))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    plain = ops.convert_to_tensor(references.normal(4, 4, 7), "float32")
    for y_pred in (plain, embedding(words)):
        check(labels[..., None], y_pred)
        check(labels, y_pred, weights, weights[..., 0])
        check(labels[..., None], y_pred, weights, weights[..., 0])
        rows = weights[:, 0, 0]  # Keras would take them for weights of words
        check(labels, y_pred, rows, np.repeat(rows[:, None], 4, axis=1))
    check(labels[0], plain[0], weights[0], weights[0, :, 0])


def test_smoothed_crossentropy_config_and_errors():
    loss = SmoothedCrossentropy(0.3, ignore_class=2, reduction="sum", name="mine")
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert isinstance(again, SmoothedCrossentropy)
    assert again.get_config() == loss.get_config()
    nothing = SmoothedCrossentropy(0.1, ignore_class=0)(
        np.zeros((2, 3), "int32"), np.ones((2, 3, 5), "float32")
    )
    assert number(nothing) == 0
    with pytest.raises(ValueError, match=r"`label_smoothing` must be.*=1\.0"):
        SmoothedCrossentropy(1.0)
    with pytest.raises(ValueError, match=r"`y_true` must have the shape of `y_pred`"):
        loss(np.zeros((2, 3)), np.zeros((2, 5)))


def test_the_config_of_a_subclass_may_lack_options():
    class Own(keras.losses.SparseCategoricalCrossentropy):
        def get_config(self):
            return {"name": self.name}

    labels, logits = np.array([[1, 0, 2]]), np.arange(9.0).reshape(1, 3, 3) % 5
    values = [
        float(ReinforceLoss(kind(from_logits=True, ignore_class=0))(labels, logits))
        for kind in (Own, keras.losses.SparseCategoricalCrossentropy)
    ]
    assert values[0] == values[1]
    with pytest.raises(ValueError, match="from_logits=True"):
        ReinforceLoss(Own())
