"""CUDA graphs; on a CPU, their logic, with graphs that call a function again."""

import keras
import numpy as np
import pytest
from calling import BACKEND, platform
from keras import layers

import keras_attention
from keras_attention import kernels
from keras_attention.layers import HardAttention, MultiHeadAttention

if BACKEND != "torch":
    pytest.skip("only torch has CUDA graphs", allow_module_level=True)

import torch
from replayed import B, D, U, dense_model, warmed, wave

from keras_attention.kernels.replay import torch_graphs

ON_GPU = platform() == "gpu"
T = 5


class Graph:
    """Writes what a function returns now to the memory of its first results."""

    replays = 0  # of all graphs

    def __init__(self, call, given):
        self.call, self.given, self.results = call, given, call(given)

    def replay(self):
        Graph.replays += 1
        for old, new in zip(self.results, self.call(self.given)):
            if old is not None:
                old.copy_(new)


def record(calls, device):
    graphs = []
    for call in calls:
        graphs.append(Graph(call, graphs[-1].results if graphs else None))
    return graphs, [graph.results for graph in graphs]


@pytest.fixture(autouse=True)
def graphs(monkeypatch):
    monkeypatch.setenv(torch_graphs.VARIABLE, "1")
    monkeypatch.setattr(Graph, "replays", 0)
    if ON_GPU:  # count the replays of real graphs
        replay = torch_graphs._replay

        def counted(*args):
            Graph.replays += 1
            return replay(*args)

        monkeypatch.setattr(torch_graphs, "_replay", counted)
    else:
        monkeypatch.setattr(torch_graphs, "DEVICE", "cpu")
        monkeypatch.setattr(torch_graphs, "record", record)
    keras.utils.set_random_seed(0)


def recorded(model, *args, **kwargs):
    return warmed(keras_attention.recorded(model), *args, **kwargs)


def gradients(outputs, model, **options):
    loss = sum((x * wave(*x.shape, start=3)).sum() for x in outputs)
    sources = [v.value for v in model.trainable_variables]
    return torch.autograd.grad(loss, sources, **options)


def assert_same(one, other):
    torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_outputs_and_gradients_of_other_inputs_and_weights():
    model = dense_model()
    fast = recorded(model, wave(B, D))
    outputs = []
    for start in range(4):
        x = wave(B, D, start=start)
        outputs.append((x, fast(x)))
        found = gradients([outputs[-1][1]], model)
        assert_same(found, gradients([model(x)], model))
    assert Graph.replays == 8  # none is between a call and its gradient
    for x, output in outputs:  # copies, which later replays have not changed
        assert_same(output, model(x))
    held = gradients([fast(wave(B, D))], model)
    before = tuple(x.clone() for x in held)
    gradients([fast(wave(B, D, start=9))], model)
    assert_same(held, before)
    model.layers[0].kernel.assign(wave(D, U))
    assert_same(fast(wave(B, D)), model(wave(B, D)))
    assert not fast.refusals


def test_a_call_whose_gradient_is_pending_keeps_the_memory():
    model = dense_model()
    fast = recorded(model, wave(B, D))
    first, second = fast(wave(B, D)), fast(wave(B, D, start=5))
    assert Graph.replays == 1  # the second call ran operation by operation
    expected = [gradients([model(wave(B, D, start=n))], model) for n in (0, 5)]
    for output, wanted in zip((first, second), expected):
        for _ in range(2):  # twice, with the same memory
            assert_same(gradients([output], model, retain_graph=True), wanted)
    fast(wave(B, D))
    assert Graph.replays == 3
    del first, second, output  # now no gradient can come
    fast(wave(B, D))
    assert Graph.replays == 4


def test_without_gradients_each_call_is_replayed():
    model = dense_model()
    with torch.no_grad():
        fast = recorded(model, wave(B, D))
        found = [fast(wave(B, D, start=n)) for n in range(3)]
        assert_same(found, [model(wave(B, D, start=n)) for n in range(3)])
    assert Graph.replays == 3


def test_a_weight_at_another_address_drops_the_graph():
    model = dense_model()
    fast = recorded(model, wave(B, D))
    fast(wave(B, D))
    model.layers[0].kernel.value.data = wave(D, U)
    assert_same(fast(wave(B, D)), model(wave(B, D)))
    assert Graph.replays == 1


def test_numbers_of_the_host_and_of_torch_are_drawn_at_each_call():
    one, other = (HardAttention(units=U, seed=5) for _ in range(2))
    x = wave(B, T, D)
    one(x, x, training=True), other(x, x, training=True)
    other.set_weights(one.get_weights())
    fast = keras_attention.recorded(one)
    for _ in range(5):
        assert_same(fast(x, x, training=True), other(x, x, training=True))
    assert Graph.replays
    fast = recorded(layers.Dropout(0.5), wave(B, T, D), training=True)
    first, second = (fast(wave(B, T, D), training=True) for _ in range(2))
    assert not torch.equal(first, second)


def test_variables_are_assigned():
    one, other = layers.BatchNormalization(), layers.BatchNormalization()
    fast = keras_attention.recorded(one)
    for start in range(5):
        x = wave(B, D, start=start)
        assert_same(fast(x, training=True), other(x, training=True))
    assert_same(list(map(np.array, one.weights)), list(map(np.array, other.weights)))


def test_fit_and_predict():
    models = dense_model(), dense_model()
    models[1].set_weights(models[0].get_weights())
    x = wave(6 * B, D).numpy()
    outputs = []
    for model in (models[0], keras_attention.recorded(models[1])):
        model.compile(keras.optimizers.SGD(0.1), "mse")
        model.fit(x, x, batch_size=B, epochs=2, shuffle=False, verbose=0)
        outputs.append(model.predict(x, batch_size=B, verbose=0))
    np.testing.assert_allclose(*outputs, rtol=1e-5, atol=1e-6)
    assert Graph.replays > 20


class Decides(layers.Layer):
    def call(self, query, value):
        return query + value if kernels.decision(query.sum() > 0) else query


def failing(calls, device):
    raise RuntimeError("operation not permitted when stream is capturing")


@pytest.mark.parametrize(
    ("layer", "x", "patched", "reason"),
    [
        (MultiHeadAttention(2, 3), wave(B, T, D), ("DEVICE", "cuda"), "on one GPU"),
        (MultiHeadAttention(2, 3), wave(1, T, D).expand(B, T, D), (), "repeats"),
        (MultiHeadAttention(2, 3), wave(B, T, D), ("record", failing), "permitted"),
        (Decides(), wave(B, T, D), (), "reads values"),
    ],
    ids=["cpu", "expanded", "error", "decision"],
)
def test_what_is_refused_says_why_and_is_replayed_without_a_graph(
    layer, x, patched, reason, monkeypatch
):
    if ON_GPU and reason == "on one GPU":
        pytest.skip("Keras moves the arguments to the GPU")
    if patched:
        monkeypatch.setattr(torch_graphs, *patched)
    layer(x, x)
    fast = recorded(layer, x, x)
    for _ in range(2):
        assert_same(fast(x, x), layer(x, x))
    assert (fast.traces, Graph.replays) == (1, 0)
    (text,) = fast.refusals
    assert text.startswith("a call has no CUDA graph: ")
    assert reason in text


def test_it_is_off_by_default(monkeypatch):
    monkeypatch.delenv(torch_graphs.VARIABLE)
    fast = recorded(dense_model(), wave(B, D))
    fast(wave(B, D))
    assert (fast.traces, Graph.replays) == (1, 0)
    assert not fast.refusals
