"""`MatrixFactorization` and `AttentiveFactorization`: known factors are found again."""

import keras
import numpy as np
import pytest
from calling import needs_training
from gradients import to_numpy

from keras_attention import models
from keras_attention.datasets import ratings

P, Q, D = 5, 7, 3  # users, items, width


def drawn(model, seed=0):
    """The model with weights from NumPy, and these by name, float64."""
    rng, found = np.random.default_rng(seed), {}
    for layer in model.layers:
        if isinstance(layer, keras.layers.Embedding):
            table = rng.normal(size=layer.embeddings.shape)
            layer.embeddings.assign(table)
            found[layer.name] = to_numpy(layer.embeddings).astype("float64")
    return found


def fitted(model, inputs, targets, rate, epochs):
    steps = epochs * len(targets) // 512
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
    model.compile(keras.optimizers.Adam(schedule), "mse")
    model.fit(inputs, targets, batch_size=512, epochs=epochs, verbose=0)
    return model


def rmse(found, expected):
    return float(np.sqrt(np.mean((np.asarray(found) - expected) ** 2)))


def explained(found, true):
    """How much of known vectors is a linear map of those that were found."""
    rows = np.c_[found, np.ones(len(found))]
    error = rows @ np.linalg.lstsq(rows, true, rcond=None)[0] - true
    return 1 - (error**2).sum() / ((true - true.mean(0)) ** 2).sum()


def test_equals_its_equation():
    model = models.MatrixFactorization(P, Q, dim=D, mean=3.5)
    table = drawn(model)
    user, item = np.array([0, 4, 4, 2]), np.array([6, 0, 6, 1])
    expected = 3.5 + table["user_bias"][user, 0] + table["item_bias"][item, 0]
    expected += (table["user_vector"][user] * table["item_vector"][item]).sum(-1)
    np.testing.assert_allclose(model.rate(user, item), expected, rtol=1e-5)
    np.testing.assert_allclose(model.user_vectors, table["user_vector"], rtol=1e-6)
    plain = models.MatrixFactorization(P, Q, dim=D, biases=False)
    assert plain.count_params() == (P + Q) * D


def test_the_attentive_form_equals_its_equations():
    model = models.AttentiveFactorization(Q, dim=D, mean=3.5)
    table = drawn(model)
    item, history, told = 2, np.array([0, 6, 4]), np.array([5.0, 1.0, 3.5])
    excess = told - 3.5 - table["item_bias"][history, 0]
    scores = table["item_key"][history] @ table["item_query"][item] / D**0.5
    weights = np.exp(scores) / np.exp(scores).sum()
    user = (weights * excess) @ table["item_value"][history]
    usual = 3.5 + table["item_bias"][:, 0]
    expected = usual[item] + user @ table["item_vector"][item]
    found = model.rate([item], history, told)
    np.testing.assert_allclose(found, [expected], rtol=1e-5)
    # What is asked for is not read; who has said nothing is as all are.
    more = model.rate([item], [*history, item], [*told, 1.0])
    np.testing.assert_allclose(more, found, rtol=1e-5)
    np.testing.assert_allclose(model.rate([item], [], []), usual[item], rtol=1e-5)


def test_the_best_items_are_recommended():
    model = models.MatrixFactorization(P, Q, dim=D)
    drawn(model)
    every = model.rate(3, np.arange(Q))
    items, best = model.recommend(3, count=2)
    np.testing.assert_array_equal(items, np.argsort(-every)[:2])
    np.testing.assert_allclose(best, every[items], rtol=1e-6)
    left, _ = model.recommend(3, count=99, seen=items)
    assert sorted([*left, *items]) == list(range(Q))
    other = models.AttentiveFactorization(Q, dim=D)
    drawn(other)
    items, best = other.recommend([1, 4], [5.0, 2.0], count=99)
    assert sorted([*items, 1, 4]) == list(range(Q))
    np.testing.assert_allclose(best, -np.sort(-best))


@pytest.fixture(scope="module")
def made():
    made = ratings.generate(users=300, items=200, dim=3, share=0.6, noise=0.5, seed=0)
    return made, *made.ratings.split(0.2, seed=1)


@pytest.mark.release
@needs_training
def test_known_factors_are_found_again(made):
    """Unseen ratings are foretold within 5 % of what was added to them by chance."""
    truth, train, test = made
    keras.utils.set_random_seed(0)
    model = models.MatrixFactorization(300, 200, dim=3, mean=train.mean)
    fitted(model, train.inputs, train.rating, rate=0.02, epochs=12)
    floor = rmse(_exact(truth, test), test.rating)
    assert abs(floor / truth.noise - 1) < 0.03
    assert rmse(model.rate(test.user, test.item), test.rating) < 1.05 * truth.noise
    assert explained(model.item_vectors, truth.item_vectors) > 0.98
    assert explained(model.user_vectors, truth.user_vectors) > 0.98


@pytest.mark.release
@needs_training
def test_a_user_is_what_they_said_of_other_items(made):
    """Users it was not trained on are as good as any; noise below is 0.5."""
    _, train, test = made
    known = train[train.user < 250]
    keras.utils.set_random_seed(0)
    model = models.AttentiveFactorization(200, dim=8, mean=known.mean)
    inputs = ratings.histories(known, known, size=32, seed=0)
    fitted(model, inputs, known.rating, rate=0.02, epochs=4)
    new = test[test.user >= 250]
    inputs = ratings.histories(new, train, size=64, seed=1)
    found = model.predict(inputs, batch_size=2048, verbose=0)[:, 0]
    usual = model.predict(
        {**inputs, "history_mask": 0 * inputs["history_mask"] > 0}, verbose=0
    )
    assert rmse(found, new.rating) < 0.75
    assert rmse(usual[:, 0], new.rating) > 1.0


def _exact(truth, asked):
    products = truth.user_vectors[asked.user] * truth.item_vectors[asked.item]
    biases = truth.user_bias[asked.user] + truth.item_bias[asked.item]
    return truth.mean + biases + products.sum(-1)


def test_what_a_user_said_may_come_as_tensors():
    model = models.AttentiveFactorization(Q, dim=D)
    history, told = [1, 2, 5], [5.0, 1.5, 4.0]
    given = (keras.ops.convert_to_tensor(history), keras.ops.convert_to_tensor(told))
    found, expected = model.rate([0, 6], *given), model.rate([0, 6], history, told)
    np.testing.assert_array_equal(found, expected)


def test_ratings_behind_a_mask_are_not_read():
    model = models.AttentiveFactorization(Q, dim=D)
    inputs = {
        "item": np.array([0, 1]),
        "history": np.array([[1, 2], [3, 4]]),
        "history_ratings": np.array([[5.0, 2.0], [1.0, 3.0]], "float32"),
        "history_mask": np.array([[True, False], [True, True]]),
    }
    expected = model.predict(inputs, verbose=0)
    inputs["history_ratings"][0, 1] = np.nan
    np.testing.assert_array_equal(model.predict(inputs, verbose=0), expected)


def test_who_is_unknown_is_named():
    model = models.MatrixFactorization(P, Q, dim=D)
    with pytest.raises(
        ValueError, match=r"`users` must be known .* from 0 to 4: .*\[5"
    ):
        model.rate([0, 5], [1, 1])
    with pytest.raises(ValueError, match=r"`items` must be known .* from 0 to 6: .*-1"):
        model.rate(0, [-1])
    with pytest.raises(ValueError, match="`users` must be an integer"):
        model.rate([0.5], [1])
    with pytest.raises(ValueError, match="`users` and `items` must be as many"):
        model.rate([0, 1], [1, 2, 3])
    with pytest.raises(ValueError, match=r"`user` must be known .* \[9\]"):
        model.recommend(9)
    with pytest.raises(ValueError, match="`user` must be one integer"):
        model.recommend([0, 1, 2, 3, 4, 0, 1])
    with pytest.raises(ValueError, match=r"`seen` must be known .* \[7\]"):
        model.recommend(0, seen=[7])
    with pytest.raises(ValueError, match="`count` must be at least 1"):
        model.recommend(0, count=0)
    other = models.AttentiveFactorization(Q, dim=D)
    with pytest.raises(ValueError, match=r"`history` must be known .* \[7\]"):
        other.rate([0], [7], [3.0])
    with pytest.raises(ValueError, match="`history` and `ratings` must be as many"):
        other.rate([0], [1, 2], [3.0])
    with pytest.raises(ValueError, match="`ratings` must be finite"):
        other.rate([0], [1], [np.nan])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_items": 0}, "`num_items` must be at least 1"),
        ({"dim": 0}, "`dim` must be at least 1"),
        ({"regularization": -1.0}, "`regularization` must be at least 0"),
        ({"depth": 2}, "has no such argument. Received: depth=2"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        models.MatrixFactorization(**{"num_users": P, "num_items": Q, **arguments})
    with pytest.raises(ValueError, match=message):
        models.AttentiveFactorization(**{"num_items": Q, **arguments})


def test_what_is_regularized_is_in_the_loss():
    model = models.MatrixFactorization(P, Q, dim=D, regularization=0.5)
    tables = drawn(model).values()
    expected = 0.5 * sum((table**2).sum() for table in tables)
    found = sum(float(to_numpy(loss)) for loss in model.losses)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
