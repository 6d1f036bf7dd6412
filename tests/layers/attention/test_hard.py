"""Hard attention: what it draws, what it learns from, and that it does learn."""

import itertools

import keras
import numpy as np
import pytest
import references
from calling import TRAINS, few_compiled, needs_training
from gradients import gradient, tensor, to_numpy
from keras import ops
from stepping import query_and_memory

from keras_attention import layers
from keras_attention.losses import ReinforceLoss
from keras_attention.ops import choices

B, T, S, D, V, U, N = 2, 3, 5, 7, 11, 13, 4001
HOLED = np.array([[True, False, True, True, True], [False, True, True, True, False]])


def inputs():
    return query_and_memory(B, T, S, D, V)


def drawing(layer, uniforms):
    """The layer, whose draws are these numbers (B, T)."""
    numbers = ops.convert_to_tensor(np.asarray(uniforms, "float32")[..., None])
    layer.sample = lambda shape, training: numbers if training else None
    return layer


@pytest.mark.parametrize("estimator", ["straight_through", "reinforce"])
def test_it_takes_the_likeliest_when_not_training(estimator):
    q, v, k = inputs()
    layer = layers.HardAttention("dot", estimator=estimator)
    output, weights = layer(q, v, k, value_mask=HOLED, return_attention_scores=True)
    score = np.where(HOLED[:, None], q @ np.swapaxes(k, 1, 2), -np.inf)
    wanted = np.eye(S)[score.argmax(-1)]
    np.testing.assert_array_equal(to_numpy(weights), wanted)
    np.testing.assert_allclose(to_numpy(output), wanted @ v, rtol=1e-6)


@pytest.mark.backends("all")
@few_compiled("estimator", ["straight_through", "reinforce"])
def test_it_draws_as_often_as_the_softmax_says(estimator):
    q, v, k = (x[:, :1] if i == 0 else x for i, x in enumerate(inputs()))
    many = np.repeat(0.5 * q, N, axis=1)  # (B, N, D)
    layer = layers.HardAttention("dot", estimator=estimator, seed=3)
    call = {"value_mask": HOLED, "return_attention_scores": True, "training": True}
    output, weights = layer(many, v, k, **call)
    weights = to_numpy(weights)
    assert set(weights.ravel()) == {0.0, 1.0}
    np.testing.assert_array_equal(weights.sum(-1), 1)
    assert (weights.sum(1)[~HOLED] == 0).all()
    np.testing.assert_allclose(to_numpy(output), weights @ v, rtol=1e-5, atol=1e-5)
    p = references.softmax(0.5 * q @ np.swapaxes(k, 1, 2), HOLED[:, None])[:, 0]
    error = np.sqrt(p * (1 - p) / N)
    assert (np.abs(weights.mean(1) - p) <= 4 * error).all()
    again = to_numpy(layer(many, v, k, **call)[1])
    assert (again != weights).any()
    twin = layers.HardAttention("dot", estimator=estimator, seed=3)
    np.testing.assert_array_equal(to_numpy(twin(many, v, k, **call)[1]), weights)


def test_the_default_score_is_additive():
    q, v, k = inputs()
    layer = layers.HardAttention(units=U)
    layer(q, v, k)
    assert type(layer.score) is layers.AdditiveScore
    assert layer.score.units == U
    weight = [
        0.5 * references.normal(*w.shape, seed=i)
        for i, w in enumerate(layer.weights[:-1])
    ]
    for variable, array in zip(layer.score.trainable_weights, weight):
        variable.assign(array)
    names = {w.path.split("score/")[1]: to_numpy(w.value) for w in layer.score.weights}
    hidden = (q @ names["query/kernel"])[:, :, None]
    hidden = hidden + (k @ names["key/kernel"] + names["key/bias"])[:, None]
    score = np.tanh(hidden) @ names["scale"]
    _, weights = layer(q, v, k, return_attention_scores=True)
    np.testing.assert_array_equal(to_numpy(weights), np.eye(S)[score.argmax(-1)])


def test_straight_through_has_the_gradient_of_the_softmax():
    q, v, k = inputs()
    slope = references.normal(B, T, V, seed=5)
    layer = drawing(layers.HardAttention("dot"), np.full((B, T), 0.6))

    def loss(q):
        return ops.sum(layer(q, v, k, training=True) * tensor(slope))

    def soft(q):
        p = references.softmax(q @ np.swapaxes(k, 1, 2).astype("float64"))
        return (p @ v.astype("float64") * slope).sum()

    (found,) = gradient(loss, q)
    wanted = references.differences(soft, q)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_reinforce_hands_the_score_nothing_through_the_output():
    q, v, k = inputs()
    layer = layers.HardAttention("dot", estimator="reinforce", seed=1)

    def loss(q, v):
        return ops.sum(layer(q, v, k, training=True) ** 2)

    found, of_values = gradient(loss, q, v)
    np.testing.assert_array_equal(found, 0)
    assert (of_values != 0).any()


def cross_entropy(logits, labels):
    top = logits.max(-1, keepdims=True)
    logs = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    return -np.take_along_axis(logs, labels[..., None], -1)[..., 0]


def mixed(credit, x, add):
    """Logits (B, T, ·) that depend on the outputs of all, earlier or own queries."""
    if credit == "all":
        return x + add.sum(x, axis=1, keepdims=True)
    return add.cumsum(x, axis=1) if credit == "later" else x


@pytest.mark.parametrize("credit", ["all", "later", "own"])
def test_the_loss_has_the_gradient_of_the_expected_loss_on_average(credit):
    """All 2⁴ paths of two queries in each of two samples, by their probabilities.

    What is found by one query counts for the words of both, of the later ones or for
    its own, and its choice answers for these. With the baseline the mean is the same,
    and varies less; with the narrower credit it varies less than with all. An ignored
    label has no part in it.
    """
    q, v, k = (x.astype("float64") for x in inputs())
    q, v, k = 0.4 * q[:, :2], v[:, :2], k[:, :2]
    labels = np.array([[1, 4], [3, 0 if credit == "later" else 2]], "int32")
    paths = list(itertools.product(range(2), repeat=4))

    def expected(q):
        p = references.softmax(q @ np.swapaxes(k, 1, 2))  # (B, 2, 2)
        total = 0.0
        for path in itertools.product(range(2), repeat=2):
            chance = p[:, 0, path[0]] * p[:, 1, path[1]]
            logits = mixed(credit, v[:, list(path)], np)
            cost = cross_entropy(logits, labels) * (labels != 0)
            total += (chance * cost.sum(1)).sum() / B
        return total

    p = references.softmax(q @ np.swapaxes(k, 1, 2))
    middle = np.cumsum(p, -1) - p / 2  # a draw that chooses each place
    places = [np.reshape(path, (B, 2, 1)) for path in paths]
    chances = [np.take_along_axis(p, place, -1).prod() for place in places]
    drawn = np.concatenate([np.take_along_axis(middle, x, -1)[..., 0] for x in places])
    layer = drawing(layers.HardAttention("dot", estimator="reinforce"), drawn)
    many = [np.tile(x, (len(paths), 1, 1)).astype("float32") for x in (v, k)]
    answers = np.tile(labels, (len(paths), 1))
    inner = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)

    def carried(copies, credit_of):
        call = {"return_attention_scores": True, "training": True}
        output, weights = layer(copies, *many, **call)
        return layers.CarryChoices(credit_of)(mixed(credit, output, ops), weights)

    def without(copies):
        loss = ReinforceLoss(inner, baseline=False)
        return len(paths) * loss(answers, carried(copies, credit))

    def with_baseline(copies, credit_of=credit):
        """Each path is a batch of its own."""
        output, loss = carried(copies, credit_of), ReinforceLoss(inner)
        parts = [output[n : n + B] for n in range(0, B * len(paths), B)]
        return sum(loss(labels, part) for part in parts)

    def credited_with_all(copies):
        return with_baseline(copies, "all")

    wanted = references.differences(expected, q)
    spread = []
    more = [] if credit == "all" else [credited_with_all]
    for costs in (without, with_baseline, *more):
        (found,) = gradient(costs, np.tile(q, (len(paths), 1, 1)))
        found = found.reshape(len(paths), *q.shape)
        chance = np.reshape(chances, (-1, 1, 1, 1))
        mean = (chance * found).sum(0)
        np.testing.assert_allclose(mean, wanted, atol=2e-5)
        spread.append((chance * (found - mean) ** 2).sum())
    assert spread[1] < 0.9 * spread[0]
    assert not more or spread[1] < 0.9 * spread[2]


def test_some_samples_get_what_is_expected():
    """The second number of each draw, below 0.5 for the first sample alone."""
    q, v, k = inputs()
    slope = references.normal(B, T, V, seed=5)
    draws = np.stack([np.full((B, T), 0.6), np.repeat([[0.4], [0.5]], T, 1)], -1)
    for estimator in ("straight_through", "reinforce"):
        layer = layers.HardAttention("dot", None, estimator, expected_rate=0.5)
        numbers = ops.convert_to_tensor(draws.astype("float32"))
        layer.sample = lambda shape, training, found=numbers: found
        call = {"value_mask": HOLED, "return_attention_scores": True, "training": True}
        output, weights = map(to_numpy, layer(q, v, k, **call))
        p = references.softmax(q @ np.swapaxes(k, 1, 2), HOLED[:, None])
        np.testing.assert_allclose(weights[0], p[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(output, weights @ v, rtol=1e-5, atol=1e-5)
        assert set(weights[1].ravel()) == {0, 1}

        def loss(q, layer=layer, call=call):
            return ops.sum(layer(q, v, k, **call)[0] * tensor(slope))

        def soft(q):
            p = references.softmax(q @ np.swapaxes(k, 1, 2), HOLED[:, None])
            return (p[0] @ v[0].astype("float64") * slope[0]).sum()

        (found,) = gradient(loss, q)
        wanted = references.differences(soft, q.astype("float64"))
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4, atol=1e-4)

        def total(q, layer=layer, call=call):
            return ops.sum(layer(q, v, k, **call)[1][0])  # nothing for the loss

        (found,) = gradient(total, q)
        np.testing.assert_allclose(found, 0, atol=1e-6)


def test_how_many_samples_get_what_is_expected():
    layer = layers.HardAttention("dot", expected_rate=0.3, seed=1)
    draws = to_numpy(layer.sample((N, 2, S), True))
    assert draws.shape == (N, 2, 2)
    np.testing.assert_array_equal(draws[:, 0, 1], draws[:, 1, 1])  # all queries
    share = (draws[:, 0, 1] < 0.3).mean()
    assert abs(share - 0.3) <= 4 * np.sqrt(0.3 * 0.7 / N)
    assert layer.sample((N, 2, S), False) is None


def test_the_value_of_the_loss_is_that_of_the_labels():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(B, T, V)).astype("float32")
    weights = np.eye(S, dtype="float32")[rng.integers(0, S, (B, T))]
    labels = rng.integers(1, V, (B, T)).astype("int32")
    labels[1, 1:] = 0
    output = layers.CarryChoices()(logits, weights)
    inner = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    found = ReinforceLoss(inner, reduction=None)(labels, output)
    wanted = (cross_entropy(logits.astype("float64"), labels) * (labels != 0)).sum(1)
    np.testing.assert_allclose(to_numpy(found), wanted, rtol=1e-5)
    sums = np.exp(to_numpy(output)).sum(-1)
    np.testing.assert_allclose(sums, 1, rtol=1e-5)


def test_weights_of_labels():
    """As many labels as samples, so that a wrong broadcast would fit."""
    rng = np.random.default_rng(0)
    logits, logs = rng.normal(size=(T, T, V)), rng.normal(size=(T, T))
    labels = rng.integers(1, V, (T, T)).astype("int32")
    weights = np.array([[1, 0, 2], [0.5, 1, 0], [0, 0, 3]], "float32")
    kept = np.where(weights > 0, labels, 0)
    inner = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    loss = ReinforceLoss(inner, weight=0.7, reduction=None)

    def carried(logits, logs):
        chosen = choices.carry(ops.ones((T, T, S)) / S, logs)
        return layers.CarryChoices("own")(logits, chosen)

    def weighted(weights):
        return lambda *given: ops.sum(
            loss(labels, carried(*given), sample_weight=weights)
        )

    costs = cross_entropy(logits, labels)
    output = layers.CarryChoices()(logits.astype("float32"), np.eye(S)[labels % S])
    found = loss(labels, output, weights)
    np.testing.assert_allclose(to_numpy(found), (weights * costs).sum(1), rtol=1e-5)
    mean = to_numpy(ReinforceLoss(inner)(labels, output, weights))
    np.testing.assert_allclose(mean, to_numpy(found).mean(), rtol=1e-5)
    if not TRAINS:
        return

    def ignored(*given):
        return ops.sum(loss(kept, carried(*given)))

    # A label of weight 0 is an ignored one, also for the baseline.
    for wanted, one in zip(
        gradient(ignored, logits, logs),
        gradient(weighted((weights > 0).astype("float32")), logits, logs),
    ):
        np.testing.assert_allclose(one, wanted, atol=1e-6)
    for unit, one in zip(
        gradient(weighted((weights > 0).astype("float32")), logits, logs),
        gradient(weighted(weights), logits, logs),
    ):
        wanted = unit * weights.reshape(T, T, *(1,) * (unit.ndim - 2))
        np.testing.assert_allclose(one, wanted, atol=1e-6)


@needs_training
@pytest.mark.backends("all")
def test_fit_takes_weights_of_labels():
    """A label of weight 0 changes nothing, in a compiled step of any length."""
    x, w = keras.Input((None, 4)), keras.Input((None, S))
    output = layers.CarryChoices()(keras.layers.Dense(V, "relu")(x), w)
    model = keras.Model([x, w], output)
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(T, T, n)).astype("float32") for n in (4, S)]
    labels = rng.integers(0, V, (T, T)).astype("int32")
    other = labels.copy()
    other[1, 2] = (labels[1, 2] + 1) % V
    weights = np.ones((T, T), "float32")
    weights[1, 2] = 0
    start, trained = model.get_weights(), []
    for given_labels in (labels, other):
        model.set_weights(start)
        model.compile(keras.optimizers.SGD(0.1), ReinforceLoss())
        model.train_on_batch(given, given_labels, sample_weight=weights)
        trained.append(model.get_weights())
    for one, same, old in zip(*trained, start, strict=True):
        np.testing.assert_allclose(one, same, atol=1e-6)
        assert (one != old).any()


@pytest.mark.parametrize(("logits", "weights"), [((B, V), (B, T)), ((B, T, V), (T, B))])
def test_weights_of_another_shape(logits, weights):
    labels = np.zeros(logits[:-1], "int32")
    with pytest.raises(ValueError, match=r"one weight per sample.*Received: sample_w"):
        ReinforceLoss()(labels, np.zeros(logits, "float32"), np.ones(weights))


def searcher(estimator):
    """Finds the key that the query is near to, and says which word is there."""
    q, v = keras.Input((D,), name="query"), keras.Input((S, D + V), name="value")
    attention = layers.HardAttention(
        layers.GeneralScore(kernel_initializer="zeros"), estimator=estimator, seed=0
    )
    output, weights = attention(
        q, v[:, :, D:], v[:, :, :D], return_attention_scores=True
    )
    logits = keras.layers.Dense(V)(output)
    if estimator == "reinforce":
        logits = layers.CarryChoices()(logits, weights)
    return keras.Model({"query": q, "value": v}, logits)


def searches(number, seed=0):
    rng = np.random.default_rng(seed)
    keys = np.stack([np.eye(D)[rng.permutation(D)[:S]] for _ in range(number)])
    words = rng.integers(0, V, (number, S))
    place = rng.integers(0, S, number)
    rows = np.arange(number)
    value = np.concatenate([keys, np.eye(V)[words]], -1).astype("float32")
    query = keys[rows, place].astype("float32")
    return {"query": query, "value": value}, words[rows, place].astype("int32")


@pytest.mark.slow
@needs_training
@pytest.mark.parametrize("estimator", ["straight_through", "reinforce"])
def test_it_learns_where_to_look(estimator, tmp_path):
    keras.utils.set_random_seed(0)
    model = searcher(estimator)
    x, y = searches(960)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    loss = ReinforceLoss(loss) if estimator == "reinforce" else loss
    model.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"])
    model.fit(x, y, batch_size=32, epochs=6, verbose=0)
    new, wanted = searches(101, seed=1)
    predicted = model.predict(new, verbose=0)
    assert (predicted.argmax(-1) == wanted).mean() > 0.95  # by chance 0.09
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict(new, verbose=0), predicted, atol=1e-6)
    assert type(again.loss) is type(model.loss)


@pytest.mark.parametrize(
    ("order", "estimator"), [("before", "reinforce"), ("after", "straight_through")]
)
def test_inside_an_attention_rnn(order, estimator):
    x, memory, _ = inputs()
    attention = layers.HardAttention("general", estimator=estimator, seed=1)
    cell = keras.layers.GRUCell(U, recurrent_initializer="he_normal")
    rnn = layers.AttentionRNN(cell, attention, order, return_sequences=True)
    call = {"memory_mask": HOLED, "return_attention_scores": True}
    rnn(x, memory, **call)
    uniforms = np.random.default_rng(2).uniform(size=(B, T)).astype("float32")
    drawing(attention, uniforms)
    output, weights = rnn(x, memory, **call, training=True)
    weights = to_numpy(weights)
    np.testing.assert_array_equal(weights.sum(-1), 1)
    assert (weights[~np.broadcast_to(HOLED[:, None], weights.shape)] == 0).all()
    context = to_numpy(output)[..., U:]
    np.testing.assert_allclose(context, weights @ memory, rtol=1e-5, atol=1e-5)
    # Step by step the same.
    prepared = rnn.prepare(*map(ops.convert_to_tensor, (memory,)), mask=HOLED)
    state = rnn.start(prepared, B)
    for t in range(T):
        numbers = (ops.convert_to_tensor(uniforms[:, t, None]),)
        step = ops.convert_to_tensor(x[:, t])
        state, seen = rnn.step(step, state, prepared, numbers, True)
        np.testing.assert_allclose(to_numpy(seen.weights[0]), weights[:, t])

    # What was chosen says how likely it was, to what the cell has read before.
    def loss(x):
        _, weights = rnn(x, memory, **call, training=True)
        return ops.sum(weights * tensor(np.arange(S)))

    (found,) = gradient(loss, x)
    assert np.isfinite(found).all()
    assert (found[:, 0] != 0).any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("estimator", ["straight_through", "reinforce"])
def test_a_query_that_sees_nothing_draws_nothing(estimator, dtype):
    q, v, k = inputs()
    there = HOLED.copy()
    there[0] = False
    layer = layers.HardAttention("dot", estimator=estimator, seed=1, dtype=dtype)

    def both(q, v, k):
        output, weights = layer(
            q, v, k, value_mask=there, return_attention_scores=True, training=True
        )
        return output, weights

    for found in both(q, v, k):
        assert (to_numpy(found)[0] == 0).all()
        assert (to_numpy(found)[1] != 0).any()

    def loss(q, v, k):
        output, weights = both(q, v, k)
        return ops.sum(ops.cast(output, "float32")) + ops.sum(
            ops.cast(weights, "float32") * tensor(np.arange(S))
        )

    for found in gradient(loss, q, v, k, dtype=dtype):
        assert np.isfinite(found).all()
        assert (found[0] == 0).all()
        assert (found[1] != 0).any()


def test_several_weights_count_together():
    logits = references.normal(B, V).astype("float32")
    logs = references.normal(B, T, seed=1)

    def loss(logs):
        weights = choices.carry(ops.ones((B, T, S)) / S, logs)
        output = layers.CarryChoices()(logits, [weights, weights[:, 0]])
        return ops.sum(output[:, 0] * tensor([2.0, 3.0]))

    (found,) = gradient(loss, logs)
    wanted = np.array([[4, 2, 2], [6, 3, 3]])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"`estimator` must be one of.*='gumbel'"):
        layers.HardAttention(estimator="gumbel")
    with pytest.raises(ValueError, match="`units` must be at least 1"):
        layers.HardAttention(units=0)
    with pytest.raises(ValueError, match=r"`expected_rate` must be at least 0 and be"):
        layers.HardAttention(expected_rate=1.0)
    with pytest.raises(ValueError, match=r"`credit` must be one of .*credit='none'"):
        layers.CarryChoices("none")
    for logits, weights in ((B, V), (B, S)), ((B, T, V), (B, T + 1, S)):
        with pytest.raises(ValueError, match=r"With credit='own', `logits` must have"):
            layers.CarryChoices("own")(np.zeros(logits), np.zeros(weights))
    with pytest.raises(ValueError, match=r"`loss` must be one of Keras' categorical"):
        ReinforceLoss("mse")
    with pytest.raises(ValueError, match="with from_logits=True"):
        ReinforceLoss(keras.losses.SparseCategoricalCrossentropy())
    with pytest.raises(ValueError, match="`weight` must be at least 0"):
        ReinforceLoss(weight=-1.0)
    with pytest.raises(ValueError, match=r"`weight` must be a number.*weight='sum'"):
        ReinforceLoss(weight="sum")
