"""`Seq2Seq` with scheduled sampling: its graph, its schedule and its use."""

import keras
import numpy as np
import pytest
from calling import needs_training
from keras import ops
from writing import SOURCES, START, TARGETS, B, S, after_start, sharper

from keras_attention import callbacks
from keras_attention.layers import ScheduledSampling
from keras_attention.models import Seq2Seq

T = 9


def make(probability, **more):
    keras.utils.set_random_seed(0)
    model = Seq2Seq(
        SOURCES,
        TARGETS,
        embedding_dim=4,
        units=6,
        sampling_probability=probability,
        **more,
    )
    return sharper(model, 2.5)


def data(number=B):
    rng = np.random.default_rng(0)
    source = rng.integers(4, SOURCES, (number, S)).astype("int32")
    source[1, 4:] = 0
    target = rng.integers(4, TARGETS, (number, T)).astype("int32")
    target[:, 0] = START
    return {"source": source, "target": target}


def variable(model):
    (found,) = [
        v for v in model.non_trainable_variables if v.name == "sampling_probability"
    ]
    return found


def number(variable):
    return float(np.asarray(ops.convert_to_numpy(variable.value)))


def held(model):
    return [x for x in model.layers if isinstance(x, ScheduledSampling)]


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["bahdanau", "luong"])
def test_predicts_and_writes_as_without(attention):
    plain, scheduled = (make(p, attention=attention) for p in (0.0, 0.5))
    assert not held(plain)
    assert len(held(scheduled)) == 1
    path = "scheduled_sampling/"
    twins = {w.path.replace(path, ""): w for w in scheduled.trainable_weights}
    for weight in plain.trainable_weights:
        twins.pop(weight.path).assign(ops.convert_to_numpy(weight))
    assert not twins
    inputs = data()
    np.testing.assert_allclose(
        scheduled.predict(inputs, verbose=0),
        plain.predict(inputs, verbose=0),
        rtol=1e-6,
    )
    for sampler in ("greedy", "beam"):
        written = scheduled.generate(inputs["source"], T, sampler)
        wanted = plain.generate(inputs["source"], T, sampler)
        np.testing.assert_array_equal(written, wanted)


def test_while_training_it_reads_its_own_words():
    model = make(1.0)
    (layer,) = held(model)
    layer.choice = "argmax"
    inputs = data()
    written = model.generate(inputs["source"], T, stop_token_ids=None)
    tensors = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    logits = np.asarray(
        ops.convert_to_numpy(ops.stop_gradient(model(tensors, training=True)))
    )
    np.testing.assert_array_equal(logits.argmax(-1), written)


class Losses(keras.callbacks.Callback):
    """The loss of each step, and what the probability was."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(number(variable(self.model)))


@pytest.mark.backends("all")
@needs_training
def test_a_compiled_fit_sees_the_variable():
    """With a rate of 0 nothing but the probability can move the loss."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model, inputs = make(1e-6), data()
    (layer,) = held(model)
    layer.choice = "argmax"
    model.compile(keras.optimizers.SGD(0.0), loss)
    # Labels that it writes itself: right by its own words, not behind others.
    labels = model.generate(inputs["source"], T, stop_token_ids=None)

    class Switch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            variable(self.model).assign(float(epoch == 1))

    fitted = model.fit(
        inputs, labels, epochs=3, batch_size=B, verbose=0, callbacks=[Switch()]
    )
    forced, own, again = fitted.history["loss"]
    assert forced == pytest.approx(again, rel=1e-5)
    assert abs(own - forced) > 0.01 * forced
    assert own == pytest.approx(
        model.evaluate(*shifted(inputs, labels), verbose=0), rel=1e-3
    )


def shifted(inputs, labels):
    return {**inputs, "target": after_start(labels)}, labels


@needs_training
def test_the_decay_counts_steps():
    model, inputs = make(0.9), data(8)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    decay, losses = callbacks.ScheduledSamplingDecay(k=3), Losses()
    labels = inputs["target"]
    for _ in range(2):  # the second fit goes on
        model.fit(
            inputs, labels, batch_size=2, verbose=0, callbacks=[decay, losses], epochs=2
        )
    steps = np.arange(16)
    wanted = 1 - 3 / (3 + np.exp(steps / 3))
    np.testing.assert_allclose(losses.seen, wanted, rtol=1e-5)
    plain = make(0.0)
    plain.compile("sgd", loss)
    with pytest.raises(ValueError, match="needs a model with a `ScheduledSampling`"):
        plain.fit(inputs, labels, verbose=0, callbacks=[decay])
    with pytest.raises(ValueError, match="`k` must be at least 1"):
        callbacks.ScheduledSamplingDecay(k=0.5)


@pytest.mark.backends("all")
@needs_training
@pytest.mark.skipif(keras.config.backend() == "torch", reason="runs one step at a time")
def test_the_decay_counts_steps_that_are_run_together():
    model, inputs = make(0.9), data(8)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, steps_per_execution=2)
    decay, losses = callbacks.ScheduledSamplingDecay(k=3), Losses()
    more = {"batch_size": 2, "epochs": 2, "verbose": 0}
    model.fit(inputs, inputs["target"], callbacks=[decay, losses], **more)
    wanted = 1 - 3 / (3 + np.exp(np.arange(0, 8, 2) / 3))
    np.testing.assert_allclose(losses.seen, wanted, rtol=1e-5)


def test_a_file_keeps_it(tmp_path):
    model, inputs = make(0.5, dropout=0.3), data()
    variable(model).assign(0.75)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert number(variable(again)) == 0.75
    assert again.sampling_probability == 0.5
    np.testing.assert_allclose(
        again.predict(inputs, verbose=0), model.predict(inputs, verbose=0), rtol=1e-6
    )


def test_constructor_errors():
    with pytest.raises(ValueError, match="`sampling_probability` needs a decoder with"):
        Seq2Seq(SOURCES, TARGETS, attention=None, sampling_probability=0.5)
    with pytest.raises(ValueError, match="`sampling_probability` must be from 0 to 1"):
        Seq2Seq(SOURCES, TARGETS, sampling_probability=-0.5)
