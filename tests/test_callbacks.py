"""Callbacks: the switch that a compiled step sees, rates of learning, lessons."""

import keras
import numpy as np
import pytest
import references
from calling import needs_training

from keras_attention import callbacks, layers, models
from keras_attention.callbacks import EpochStates

B, M, D = 8, 5, 3


def data():
    memory = 0.5 * references.normal(B, M, D).astype("float32")
    question = references.normal(B, D, seed=1).astype("float32")
    return {"u": question, "m": memory}, question[:, :1] * memory[:, 0, :1]


def model_of(linear_start=True, rate=0.01):
    """Two hops that share a switch, one of them inside another model."""
    keras.utils.set_random_seed(3)
    u, m = keras.Input((D,), name="u"), keras.Input((M, D), name="m")
    hop = layers.MemoryHop(transform=True, linear_start=linear_start, name="hop")
    inner = keras.Model({"u": u, "m": m}, hop(u, m), name="inner")
    state = inner({"u": u, "m": m})
    last = layers.MemoryHop(transform=True, linear_start=linear_start, name="last")
    answer = keras.layers.Dense(1, name="answer")(last(state, m))
    model = keras.Model({"u": u, "m": m}, answer)
    model.compile(keras.optimizers.SGD(rate), "mse")
    return model


def switches(model):
    return [v for v in model.non_trainable_variables if callbacks.is_switch(v)]


def fit(model, epochs, *more, **keywords):
    x, y = data()
    return model.fit(
        x,
        y,
        epochs=epochs,
        batch_size=4,
        shuffle=False,
        verbose=0,
        callbacks=list(more),
        **keywords,
    )


@pytest.mark.backends("all")
@needs_training
def test_compiled_step_sees_the_switch():
    """One fit with the switch thrown between its epochs = two fits around it."""
    switched, never, by_hand = model_of(), model_of(), model_of()
    callback = callbacks.LinearStart(epochs=1)
    losses = fit(switched, 3, callback).history["loss"]
    assert callback.switched_at == 1
    assert len(switches(switched)) == 2
    assert not any(bool(v.numpy()) for v in switches(switched))
    without = fit(never, 3).history["loss"]
    assert all(bool(v.numpy()) for v in switches(never))
    expected = fit(by_hand, 1).history["loss"]
    for variable in switches(by_hand):
        variable.assign(False)
    expected += fit(by_hand, 2).history["loss"]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for weight, wanted in zip(switched.get_weights(), by_hand.get_weights()):
        np.testing.assert_allclose(weight, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(losses[0], without[0], rtol=1e-5)
    assert abs(losses[1] - without[1]) > 1e-3 * losses[1]
    # Evaluation and prediction, compiled anew, see it, too.
    x, _ = data()
    np.testing.assert_allclose(
        switched.predict(x, verbose=0), by_hand.predict(x, verbose=0), atol=1e-5
    )


@needs_training
def test_the_same_callback_in_two_fits():
    callback = callbacks.LinearStart(epochs=1)
    for model in (model_of(), model_of()):
        fit(model, 2, callback)
        assert callback.switched_at == 1
        assert not any(bool(v.numpy()) for v in switches(model))


@needs_training
def test_no_epochs_without_softmax():
    model, plain = model_of(), model_of(linear_start=False)
    losses = fit(model, 2, callbacks.LinearStart(epochs=0)).history["loss"]
    np.testing.assert_allclose(losses, fit(plain, 2).history["loss"], rtol=1e-5)


@needs_training
@pytest.mark.parametrize(
    ("patience", "losses", "expected"),
    [
        (1, [3.0, 2.0, 2.5, 1.0, 0.5], 3),
        (1, [3.0, 3.0, 1.0, 1.0, 1.0], 2),  # to stay is not to fall
        (2, [3.0, 2.0, 2.5, 1.0, 1.5], None),
        (2, [3.0, 2.0, 2.5, 2.2, 0.1], 4),
        (1, [5.0, 4.0, 3.0, 2.0, 1.0], None),
    ],
)
def test_switch_when_the_loss_stops_falling(patience, losses, expected):
    callback = callbacks.LinearStart(patience=patience)
    model = model_of()
    callback.set_model(model)
    callback.on_train_begin()
    for epoch, loss in enumerate(losses):
        callback.on_epoch_begin(epoch, {})
        callback.on_epoch_end(epoch, {"loss": 9.0, "val_loss": loss})
    assert callback.switched_at == expected
    assert [bool(v.numpy()) for v in switches(model)] == [expected is None] * 2


@needs_training
def test_errors_of_linear_start():
    with pytest.raises(
        ValueError,
        match=r"`LinearStart` needs a model with a hop that has `linear_start=True`\. "
        r"Received: model=",
    ):
        fit(model_of(linear_start=False), 1, callbacks.LinearStart(epochs=1))
    with pytest.raises(
        ValueError,
        match=r"`monitor` must be one of the logs \['loss'\]; does `fit` have "
        r"validation data\? Received: monitor='val_loss'",
    ):
        fit(model_of(), 1, callbacks.LinearStart())
    callback = callbacks.LinearStart(monitor="loss")
    fit(model_of(), 1, callback)
    assert callback.switched_at is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: callbacks.LinearStart(epochs=-1),
            r"`epochs` must not be negative\. Received: epochs=-1",
        ),
        (
            lambda: callbacks.LinearStart(patience=0),
            r"`patience` must be at least 1\. Received: patience=0",
        ),
        (
            lambda: callbacks.HalveLearningRate(every=0),
            r"`every` must be at least 1\. Received: every=0",
        ),
    ],
)
def test_arguments_that_do_not_fit(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class Rates(keras.callbacks.Callback):
    """Notes the rate with which each epoch is trained."""

    def on_train_begin(self, logs=None):
        self.rates = []

    def on_epoch_end(self, epoch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate))


@needs_training
@pytest.mark.parametrize(
    ("every", "start", "halvings"),
    [(2, 0, [0, 0, 1, 1, 2, 2, 3]), (2, 3, [0, 0, 0, 0, 0, 1, 1])],
)
def test_rates_are_halved(every, start, halvings):
    rates = Rates()
    model = model_of(rate=0.08)
    fit(model, 7, callbacks.HalveLearningRate(every, start), rates)
    np.testing.assert_allclose(rates.rates, 0.08 * 0.5 ** np.array(halvings), rtol=1e-6)


@pytest.mark.backends("all")
@needs_training
def test_compiled_step_sees_the_rate():
    """A step of half the rate moves a weight half as far: SGD on the same batch."""
    x, y = data()
    model = keras.Sequential([keras.Input((D,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), lambda y, z: z)  # a constant slope

    class Kernels(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append(model.get_weights()[0])

    seen = [model.get_weights()[0]]
    halve = callbacks.HalveLearningRate(every=1)
    model.fit(x["u"], y, epochs=3, verbose=0, callbacks=[halve, Kernels()])
    steps = np.diff(seen, axis=0)
    np.testing.assert_allclose(steps[1], steps[0] / 2, rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(steps[2], steps[0] / 4, rtol=1e-3, atol=1e-7)


class Noted:
    """Makes batches, and notes of which lesson and by which seed."""

    def __init__(self):
        self.calls = []

    def __call__(self, lesson, seed):
        self.calls.append((lesson, *seed))
        x = np.random.default_rng(seed).normal(size=(4, 2)).astype("float32")
        return x, np.full((4, 1), lesson, "float32")


class Scores(keras.callbacks.Callback):
    """Puts a score into the logs: the next of a list, at the end of each epoch."""

    def __init__(self, scores):
        super().__init__()
        self.scores = scores

    def on_epoch_end(self, epoch, logs=None):
        logs["score"] = self.scores[epoch]


class CutOff(keras.callbacks.Callback):
    """Ends a training in the middle of an epoch, as a lack of power would."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.at:
            raise KeyboardInterrupt


def learner():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model


@needs_training
def test_the_lesson_rises_when_the_score_passes_the_bar():
    make = Noted()
    train = callbacks.Lessons(make, lessons=3, batches=2, seed=7)
    valid = callbacks.Lessons(Noted(), lessons=3, batches=1, seed=8)
    curriculum = callbacks.Curriculum([train, valid], monitor="score", threshold=0.9)
    scores = Scores([0.5, 0.9, 0.89, 0.95, 1.0, 1.0])
    history = (
        learner()
        .fit(
            train,
            validation_data=valid,
            epochs=6,
            verbose=0,
            callbacks=[scores, curriculum],
        )
        .history
    )
    assert history["lesson"] == [0, 0, 1, 1, 2, 2]
    assert curriculum.lesson == train.lesson == valid.lesson == 2  # there is no other
    trained = set(make.calls)
    for epoch, lesson in enumerate(history["lesson"]):
        assert {(lesson, 7, epoch, 0), (lesson, 7, epoch, 1)} <= trained
    assert {call[0] for call in valid.make_batch.calls} == {0, 1, 2}


@pytest.mark.backends("all")
@needs_training
def test_each_epoch_sees_the_batches_of_its_lesson():
    """A model that cannot learn: its loss is the square of the lesson."""
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="zeros")]
    )
    model.compile(keras.optimizers.SGD(0.0), "mse")
    data = callbacks.Lessons(Noted(), lessons=4, batches=3)
    up = callbacks.Curriculum(data, monitor="loss", threshold=100.0, mode="min")
    history = model.fit(data, epochs=5, verbose=0, callbacks=[up]).history
    np.testing.assert_allclose(history["loss"], [0, 1, 4, 9, 9], rtol=1e-6)


@needs_training
def test_a_training_that_was_cut_off_goes_on_with_its_lesson(tmp_path):
    def run(*more):
        data = callbacks.Lessons(Noted(), lessons=9, batches=2, seed=3)
        up = callbacks.Curriculum(data, "score", path=tmp_path / "deep" / "lesson.json")
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
        calls = [Scores([1, 1, 0, 1, 1, 0]), up, backup, *more]
        model = learner()
        history = model.fit(
            data, epochs=6, shuffle=False, verbose=0, callbacks=calls
        ).history
        return history["lesson"], model.get_weights()

    with pytest.raises(KeyboardInterrupt):
        run(CutOff(at=3))
    assert (tmp_path / "deep" / "lesson.json").exists()
    rest, weights = run()
    assert rest == [2, 3, 4]  # epochs 3, 4 and 5
    assert not (tmp_path / "deep" / "lesson.json").exists()
    whole, at_once = run()
    assert whole == [0, 1, 2, 2, 3, 4]
    for one, other in zip(weights, at_once, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_lessons_are_drawn_by_seed_epoch_and_batch():
    data = callbacks.Lessons(Noted(), lessons=2, batches=3, seed=5)
    assert len(data) == 3
    first = data[1][0]
    np.testing.assert_array_equal(first, data[1][0])
    assert not np.array_equal(first, data[2][0])
    data.on_epoch_end()
    assert not np.array_equal(first, data[1][0])
    data.lesson = 1
    assert data[0][1].min() == 1


def two(lesson=0):
    return callbacks.Lessons(Noted(), lessons=2, batches=1, lesson=lesson)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: two(2), r"`lesson` must be from 0 to 1\. Received: lesson=2"),
        (
            lambda: callbacks.Lessons(Noted(), lessons=0, batches=1),
            r"`lessons` and `batches` must be at least 1\. Received: lessons=0, batch",
        ),
        (
            lambda: callbacks.Curriculum([two(), two(1)]),
            r"`data` must be `Lessons`, all of as many .* \[\(2, 0\), \(2, 1\)\]",
        ),
        (lambda: callbacks.Curriculum([]), r"`data` must be `Lessons`.* \[\]"),
        (lambda: callbacks.Curriculum([1, 2]), r"`data` must be `Lessons`.* \[1, 2\]"),
        (
            lambda: callbacks.Curriculum(two(), mode="up"),
            r"`mode` must be 'max' or 'min'\. Received: mode='up'",
        ),
    ],
)
def test_lessons_that_do_not_fit(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@needs_training
def test_a_curriculum_needs_its_score():
    data = two()
    with pytest.raises(
        ValueError,
        match=r"`monitor` must be one of the logs \['loss'\]\. Received: "
        r"monitor='val_accuracy'",
    ):
        learner().fit(
            data,
            verbose=0,
            callbacks=[callbacks.Curriculum(data, monitor="val_accuracy")],
        )


class Seen(Rates):
    """Notes the rate, the switch or the probability of each epoch."""

    def __init__(self, cut=None):
        super().__init__()
        self.cut, self.values = cut, {}

    def on_train_batch_end(self, batch, logs=None):
        of_layers = [
            float(v.numpy())
            for v in self.model.non_trainable_variables
            if v.name in ("linear_start", "sampling_probability")
        ]
        rate = float(self.model.optimizer.learning_rate)
        self.values[self.epoch, batch] = [rate, *of_layers]

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_epoch_end(self, epoch, logs=None):
        # Losses that no longer fall after two epochs.
        logs["score"] = max(3 - epoch, 1)

    def on_train_batch_begin(self, batch, logs=None):
        if (self.epoch, batch) == self.cut:
            raise KeyboardInterrupt


def sampler_model():
    """A decoder that may read its own predictions; it samples none of them."""
    keras.utils.set_random_seed(3)
    model = models.Seq2Seq(7, 7, 3, 4, sampling_probability=0.5)
    model.compile("sgd", "mse")
    return model


RESUMED = {
    "halve": lambda path: callbacks.HalveLearningRate(every=2, start=1),
    "epochs": lambda path: callbacks.LinearStart(epochs=3),
    "patience": lambda path: callbacks.LinearStart(
        monitor="score", patience=2, path=path
    ),
}


def resumed(name, folder, first, cut=None):
    """A fit of six epochs in a new model, with a backup, and what it has seen."""
    own = RESUMED[name](folder / "states.json")
    backup = keras.callbacks.BackupAndRestore(folder / "backup")
    seen, model = Seen(cut), model_of(rate=0.05)
    calls = [seen, own, backup] if first else [seen, backup, own]
    if cut is None:
        fit(model, 6, *calls)
    else:
        with pytest.raises(KeyboardInterrupt):
            fit(model, 6, *calls)
    return seen.values, model.get_weights()


def check_resumed(name, folder, first, cuts):
    expected, weights = resumed(name, folder / "whole", first)
    assert len({tuple(x) for x in expected.values()}) > 1  # the callback did something
    for cut in cuts:
        before, _ = resumed(name, folder / f"{cut}", first, cut)
        after, found = resumed(name, folder / f"{cut}", first)
        assert {**before, **after} == expected
        assert (0, 0) not in after
        for one, other in zip(found, weights, strict=True):
            np.testing.assert_array_equal(one, other)


@needs_training
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_fit_is_the_whole_fit(name, first, tmp_path):
    """Cut at the start and in the middle of an epoch."""
    check_resumed(name, tmp_path, first, [(2, 0), (3, 1), (5, 0)])


@pytest.mark.slow_on("tensorflow")
@pytest.mark.backends("all")
@needs_training
def test_a_resumed_fit_has_the_rate_of_the_whole_fit(tmp_path):
    check_resumed("halve", tmp_path, False, [(4, 1)])


@needs_training
@pytest.mark.parametrize("first", [True, False])
def test_a_resumed_fit_has_the_lessons_of_the_whole_fit(first, tmp_path):
    def run(folder, cut=None):
        data = callbacks.Lessons(Noted(), lessons=9, batches=2, seed=3)
        up = callbacks.Curriculum(data, "lessened", path=folder / "lesson.json")
        backup = keras.callbacks.BackupAndRestore(folder / "backup")
        calls = [up, backup] if first else [backup, up]
        seen, model = Seen(cut), learner()
        scores = Scores([1, 1, 0, 1, 1, 0])
        scores.on_epoch_end = lambda epoch, logs: logs.update(
            lessened=scores.scores[epoch]
        )
        calls = [seen, scores, *calls]
        fitted = {"epochs": 6, "shuffle": False, "verbose": 0, "callbacks": calls}
        if cut is None:
            return model.fit(data, **fitted).history["lesson"], model.get_weights()
        with pytest.raises(KeyboardInterrupt):
            model.fit(data, **fitted)
        return None

    lessons, weights = run(tmp_path / "whole")
    assert lessons == [0, 1, 2, 2, 3, 4]
    for cut in [(1, 0), (3, 1), (5, 0)]:
        folder = tmp_path / f"{cut}"
        run(folder, cut)
        rest, found = run(folder)
        assert rest == lessons[cut[0] :]
        for one, other in zip(found, weights, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@needs_training
@pytest.mark.parametrize("first", [True, False])
def test_a_resumed_fit_has_the_probabilities_of_the_whole_fit(first, tmp_path):
    """The sampled words differ; the probability of each step does not."""
    rng = np.random.default_rng(0)
    inputs = {n: rng.integers(1, 7, (4, 3)) for n in ("source", "target")}
    targets = rng.normal(size=(4, 3, 7))

    def run(folder, cut=None):
        decay = callbacks.ScheduledSamplingDecay(k=2)
        backup = keras.callbacks.BackupAndRestore(folder / "backup")
        seen, model = Seen(cut), sampler_model()
        calls = [seen, decay, backup] if first else [seen, backup, decay]
        fitted = {"epochs": 4, "batch_size": 2, "verbose": 0, "callbacks": calls}
        if cut is None:
            model.fit(inputs, targets, **fitted)
        else:
            with pytest.raises(KeyboardInterrupt):
                model.fit(inputs, targets, **fitted)
        return seen.values

    expected = run(tmp_path / "whole")
    assert len({tuple(x) for x in expected.values()}) == 8
    for cut in [(1, 0), (2, 1), (3, 0)]:
        folder = tmp_path / f"{cut}"
        assert {**run(folder, cut), **run(folder)} == expected


def test_states_of_an_epoch_that_was_not_stored(tmp_path):
    """A file without the epoch: the last state before it."""
    states = EpochStates(tmp_path / "states.json")
    states.on_train_begin()
    for epoch in (1, 2, 3):
        states._store(epoch, 10 * epoch)
    for epoch, state in ((0, None), (2, 20), (3, 30), (4, 30)):
        again = EpochStates(tmp_path / "states.json")
        again.on_train_begin()
        assert again._resume(epoch) == state
        assert again._resume(epoch + 1) is None
