"""`recorded(model)` on every backend, and the models' own replays on torch."""

import keras
import numpy as np
import pytest
from calling import BACKEND, needs_training
from keras import layers, ops

import keras_attention
from keras_attention import kernels
from keras_attention.models import MemN2N, SkipGram
from keras_attention.models.base import configured_model
from keras_attention.models.base.recorded_model import RecordedModel

B, D, M, L, V = 3, 5, 4, 6, 17


def stories(count=12):
    rng = np.random.default_rng(0)
    inputs = {
        "story": rng.integers(0, V, (count, M, L)).astype("int32"),
        "question": rng.integers(1, V, (count, L)).astype("int32"),
    }
    return inputs, rng.integers(1, V, count)


def network(**more):
    keras.utils.set_random_seed(0)
    model = MemN2N(V, embedding_dim=D, memory_size=M, **more)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    return model


@pytest.mark.slow
def test_fit_and_predict_as_the_model_itself():
    if BACKEND == "numpy":
        pytest.skip("the numpy backend does not train")
    inputs, answers = stories()
    one, other = network(), network()
    fast = keras_attention.recorded(other)
    fast.compile(keras.optimizers.Adam(0.01), one.loss)
    losses = [
        model.fit(inputs, answers, batch_size=4, epochs=3, shuffle=False, verbose=0)
        for model in (one, fast)
    ]
    np.testing.assert_allclose(*(h.history["loss"] for h in losses), rtol=1e-5)
    np.testing.assert_allclose(
        one.predict(inputs, verbose=0), fast.predict(inputs, verbose=0), rtol=1e-4
    )
    np.testing.assert_allclose(
        other.predict(inputs, verbose=0), fast.predict(inputs, verbose=0), rtol=1e-5
    )
    assert fast.refusals == []


def test_saved_and_loaded(tmp_path):
    x = np.ones((B, D), "float32")
    model = keras.Sequential([layers.Dense(4), layers.Dense(2)])
    fast = keras_attention.recorded(model)
    expected = fast(x)
    fast.save(tmp_path / "fast.keras")
    loaded = keras.saving.load_model(tmp_path / "fast.keras")
    assert type(loaded) is RecordedModel
    found, expected = map(ops.convert_to_numpy, (loaded(x), expected))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_not_a_layer():
    with pytest.raises(TypeError, match="`model` must be a Keras model or layer"):
        keras_attention.recorded(lambda x: x)


def trained(eager, **more):
    """The model and the losses of a training whose steps are replayed or not."""
    inputs, answers = stories()
    model = network(**more)
    model.compile(model.optimizer, model.loss, run_eagerly=eager)
    history = model.fit(inputs, answers, batch_size=4, epochs=4, verbose=0)
    return model, history.history["loss"]


@pytest.mark.slow
@pytest.mark.backends("torch")
@pytest.mark.parametrize(
    "more", [{}, {"time_noise": 0.5}, {"linear_start": True}, {"tying": "layer_wise"}]
)
def test_the_models_replay_their_own_steps(monkeypatch, more):
    monkeypatch.setattr(configured_model, "TRACE_AFTER", 0.0)
    eager, expected = trained(True, **more)
    fast, found = trained(False, **more)
    assert not eager._replayer._signatures
    assert [e.reason for e in fast._replayer._signatures.values()] == [""]
    np.testing.assert_array_equal(expected, found)
    for one, other in zip(eager.weights, fast.weights):
        np.testing.assert_array_equal(np.array(one), np.array(other))
    inputs, _ = stories()
    tensors = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    before = len(fast._replayer._signatures)
    fast(tensors)  # a direct call is never replayed
    assert len(fast._replayer._signatures) == before
    for _ in range(2):
        found = fast.predict(inputs, verbose=0)
    np.testing.assert_array_equal(found, eager.predict(inputs, verbose=0))
    assert len(fast._replayer._signatures) == before + 1


@pytest.mark.slow
@pytest.mark.backends("torch")
def test_a_switch_during_training_is_seen(monkeypatch):
    """`LinearStart` sets a variable; a replay reads it at each step."""
    monkeypatch.setattr(configured_model, "TRACE_AFTER", 0.0)
    inputs, answers = stories()
    outputs = []
    for eager in (True, False):
        model = network(linear_start=True)
        model.compile(model.optimizer, model.loss, run_eagerly=eager)
        model.fit(inputs, answers, batch_size=4, epochs=2, verbose=0)
        model.get_layer("hop").linear.assign(False)
        model.fit(inputs, answers, batch_size=4, epochs=2, verbose=0)
        outputs.append(model.predict(inputs, verbose=0))
    np.testing.assert_array_equal(*outputs)


@pytest.mark.backends("torch")
def test_steps_on_arrays_are_replayed(monkeypatch):
    """`train_on_batch` and `predict_on_batch` hand NumPy arrays to the model."""
    monkeypatch.setattr(configured_model, "TRACE_AFTER", 0.0)
    inputs, answers = stories()
    model, eager = network(), network()
    eager.compile(eager.optimizer, eager.loss, run_eagerly=True)
    for _ in range(4):
        found = model.train_on_batch(inputs, answers)
        assert found == eager.train_on_batch(inputs, answers)
    assert model._replayer.traces > 0
    assert model._replayer.reasons == []


@pytest.mark.backends("torch")
def test_ids_are_checked_at_each_replay(monkeypatch):
    monkeypatch.setattr(configured_model, "TRACE_AFTER", 0.0)
    inputs, answers = stories()
    model = network()
    model.fit(inputs, answers, batch_size=4, epochs=2, verbose=0)
    inputs["question"][0, 0] = V
    with pytest.raises(ValueError, match="`question`"):
        model.predict(inputs, verbose=0)


def test_the_mask_passes_in_a_functional_model():
    words = keras.Input((None,), dtype="int32")
    x = layers.Embedding(V, D, mask_zero=True)(words)
    part, models = layers.Dense(D), []
    for one in (part, keras_attention.recorded(part)):
        y = one(x)
        assert kernels.carried_mask(y) is not None
        models.append(keras.Model(words, layers.GlobalAveragePooling1D()(y)))
    ids = np.array([[3, 1, 0, 0], [2, 2, 4, 1]], "int32")
    np.testing.assert_allclose(*(m.predict(ids, verbose=0) for m in models), rtol=1e-6)


class Scaled(layers.Layer):
    """Reads a number from a dict in a list."""

    def __init__(self):
        super().__init__()
        self.settings = [{"factor": 1.0}]

    def call(self, x):
        return x * self.settings[0]["factor"]


def test_an_item_of_a_list_or_dict_counts():
    layer, x = Scaled(), np.ones((B, D), "float32")
    fast = keras_attention.recorded(layer)
    for factor, traces in ((1.0, 0), (1.0, 1), (1.0, 1), (3.0, 0), (3.0, 0)):
        layer.settings[0]["factor"] = factor
        np.testing.assert_array_equal(ops.convert_to_numpy(fast(x)), factor * x)
        assert fast.traces == traces * (BACKEND == "torch")
    assert fast.refusals == []


def test_a_renamed_key_of_a_dict_counts():
    class Switched(layers.Layer):
        settings: object = None

        def call(self, x):
            return 3 * x if "on" in self.settings[0] else x

    layer, x = Switched(), np.ones((B, D), "float32")
    layer.settings = [{"on": True}]
    fast = keras_attention.recorded(layer)
    for _ in range(3):
        np.testing.assert_array_equal(ops.convert_to_numpy(fast(x)), 3 * x)
    layer.settings[0]["off"] = layer.settings[0].pop("on")
    np.testing.assert_array_equal(ops.convert_to_numpy(fast(x)), x)


@needs_training
def test_run_eagerly_replays_nothing():
    calls = []

    class Counted(layers.Dense):
        def call(self, x):
            calls.append(1)
            return super().call(x)

    fast = keras_attention.recorded(Counted(1))
    x = np.ones((8, D), "float32")
    fast.compile("sgd", "mse", run_eagerly=True)
    fast.fit(x, x[:, :1], batch_size=2, epochs=3, verbose=0)
    assert len(calls) >= 12


@needs_training
def test_an_overridden_step_is_refused():
    class Own(keras.Sequential):
        def train_step(self, data):
            return {}

        def compute_metrics(self, *args, **kwargs):
            return {}

    fast = keras_attention.recorded(Own([layers.Dense(1)]))
    with pytest.raises(ValueError, match=r"override `train_step`.*Received: a Own"):
        fast.compile("sgd", "mse")
    Own.train_step = keras.Model.train_step
    fast.compile("sgd", "mse")
    with pytest.raises(ValueError, match="override `compute_metrics`"):
        fast.compile("sgd", "mse", metrics=["mae"])


@pytest.mark.skipif(BACKEND == "numpy", reason="NumPy exports nothing")
def test_export_is_that_of_the_model(monkeypatch):
    model, given = keras.Sequential([layers.Dense(1)]), []
    monkeypatch.setattr(model, "export", lambda *args, **more: given.append(args))
    keras_attention.recorded(model).export("path")
    assert given == [("path",)]


def test_the_precision_is_that_of_the_model():
    layer, x = layers.Dense(4, dtype="float32"), 1 + np.ones((B, D), "float32") / 3
    expected = ops.convert_to_numpy(layer(x))
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        fast = keras_attention.recorded(layer)
    finally:
        keras.config.set_dtype_policy(before)
    np.testing.assert_array_equal(ops.convert_to_numpy(fast(x)), expected)


def test_the_model_cannot_be_replaced():
    fast = keras_attention.recorded(layers.Dense(4))
    with pytest.raises(AttributeError, match=r"`model` cannot be replaced.*Received"):
        fast.model = layers.Dense(3)


@pytest.mark.backends("all")
@needs_training
def test_an_error_in_a_step_keeps_its_message():
    def wrong(true, predicted):
        raise ValueError("a message of the user")

    model = network()
    model.compile("sgd", wrong)
    with pytest.raises(ValueError, match="a message of the user"):
        model.fit(*stories(), verbose=0)


@pytest.mark.skipif(BACKEND != "torch", reason="only torch replays")
def test_a_penalty_on_gradients_is_never_replayed(monkeypatch):
    monkeypatch.setattr(configured_model, "TRACE_AFTER", 1e-3)

    class Penalized(SkipGram):
        def compute_loss(self, x=None, y=None, y_pred=None, *args, **more):
            import torch

            if not y_pred.requires_grad:
                return super().compute_loss(x, y, y_pred, *args, **more)
            weight = self.trainable_variables[0].value
            (grad,) = torch.autograd.grad(y_pred.sum(), weight, create_graph=True)
            penalty = (grad**2).sum()
            return super().compute_loss(x, y, y_pred, *args, **more) + penalty

    model = Penalized(V, dim=D)
    model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
    x = {"center": np.arange(8), "context": np.ones((8, 3), int)}
    for _ in range(30):
        model.train_on_batch(x, np.zeros((8, 3)))
    assert model._replayer.traces == 0
