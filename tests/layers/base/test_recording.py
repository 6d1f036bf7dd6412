"""Recording of attention weights."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
import references
from gradients import to_numpy

from keras_attention import layers, record_attention

B, T, S, D = 2, 3, 5, 7


def inputs():
    return (
        references.normal(B, T, D).astype("float32"),
        references.normal(B, S, D, seed=1).astype("float32"),
    )


def two_hops():
    query, memory = keras.Input((D,), name="u"), keras.Input((None, D), name="m")
    hop = layers.MemoryHop(name="hop")
    return keras.Model([query, memory], hop(hop(query, memory), memory))


def test_records_what_is_returned_and_only_inside():
    query, value = inputs()
    attention = layers.Attention(name="attention")
    _, weights = attention(query, value, return_attention_scores=True)
    plain = attention(query, value)
    with record_attention() as maps:
        recorded = attention(query, value)  # the fused path has no weights to record
    attention(query, value)
    assert list(maps) == ["attention"]
    assert type(maps["attention"]) is np.ndarray
    np.testing.assert_array_equal(maps["attention"], to_numpy(weights, "float32"))
    np.testing.assert_allclose(to_numpy(recorded), to_numpy(plain), atol=1e-5)


def test_calls_are_numbered():
    query, memory = inputs()
    model = two_hops()
    with record_attention() as maps:
        model([query[:, 0], memory])
    assert list(maps) == ["hop/0", "hop/1"]
    assert maps["hop/0"].shape == (B, S)
    hop = layers.MemoryHop(name="hop")
    with record_attention() as maps:
        state = query
        weights = []
        for _ in range(12):
            state, p = hop(state, memory, return_attention_scores=True)
            weights.append(to_numpy(p, "float32"))
    assert sorted(maps) == sorted(f"hop/{n}" for n in range(12))
    for n, p in enumerate(weights):
        np.testing.assert_array_equal(maps[f"hop/{n}"], p)


def test_layers_are_told_apart_by_their_paths():
    @keras.saving.register_keras_serializable("test_recording")
    class Twice(keras.layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.first = layers.Attention(name="first")
            self.second = layers.Attention("scaled_dot", name="second")

        def build(self, shape):
            self.first.build(shape, shape)
            self.second.build(shape, shape)

        def call(self, x):
            x = self.first(x, x)
            return self.second(x, x)

    _, x = inputs()
    block = Twice(name="block")
    with record_attention() as maps:  # also where the call builds the layer
        block(x)
    assert list(maps) == ["block/first", "block/second"]


def test_recordings_nest():
    query, value = inputs()
    attention = layers.Attention(name="attention")
    with record_attention() as outer:
        with record_attention() as inner:
            attention(query, value)
        assert list(inner) == ["attention"]
        assert not outer
        attention(query, value)
    assert list(outer) == ["attention"]
    with pytest.raises(KeyError), record_attention() as maps:
        maps["nothing was called"]
    attention(query, value)
    assert not maps


@pytest.mark.backends("all")
def test_compiled_predict():
    query, memory = inputs()
    model = two_hops()
    call = [query[:, 0], memory]
    expected = model.predict(call, verbose=0)
    fresh = two_hops()
    if keras.config.backend() in ("torch", "numpy"):  # these run predict eagerly
        with record_attention() as maps:
            output = fresh.predict(call, verbose=0)
        assert list(maps) == ["hop/0", "hop/1"]
    else:
        message = r"`record_attention` needs layers that are called eagerly.*'hop'"
        with pytest.raises(RuntimeError, match=message), record_attention():
            fresh.predict(call, verbose=0)
        output = fresh.predict(call, verbose=0)
    np.testing.assert_allclose(output, expected, rtol=1e-5)


@pytest.mark.backends("all")
def test_symbolic_calls_have_nothing_to_record():
    with record_attention() as maps:
        model = two_hops()
        assert not maps
        query, memory = inputs()
        model([query[:, 0], memory])
    assert list(maps) == ["hop/0", "hop/1"]


@pytest.mark.backends("all")
def test_half_precision_becomes_numpy():
    query, value = inputs()
    attention = layers.Attention(dtype="mixed_bfloat16", name="attention")
    with record_attention() as maps:
        attention(query, value)
    np.testing.assert_allclose(
        maps["attention"].astype("float32").sum(-1), 1, atol=2e-2
    )


@pytest.mark.backends("jax", "torch", "tensorflow")
def test_fit_inside_a_recording():
    """Where `fit` compiles, our own error reaches the user, and no map is recorded."""
    query, memory = inputs()
    model = two_hops()
    model = keras.Model(model.inputs, keras.layers.Dense(D)(model.output))
    model.compile("sgd", "mse")
    data = [query[:, 0], memory], query[:, 0]
    message = r"`record_attention` needs layers that are called eagerly.*'hop'"
    if keras.config.backend() == "torch":  # it runs fit eagerly
        with record_attention() as maps:
            model.fit(*data, verbose=0)
        assert {*maps} >= {"hop/0", "hop/1"}
    else:
        with pytest.raises(RuntimeError, match=message) as error, record_attention():
            model.fit(*data, verbose=0)
        assert "Unable to automatically build" not in str(error.value)


def test_filters_of_warnings_stay_after_threads():
    """One attended key in several threads; Keras would warn of a softmax over it."""
    query, value = inputs()
    layer = layers.Attention(normalizer="softmax")
    expected = to_numpy(layer(query, value[:, :1]))
    np.testing.assert_array_equal(expected, np.repeat(value[:, :1], T, 1))
    before = list(warnings.filters)
    changes = []

    def attend():
        with record_attention():
            layer(query, value[:, :1])

    original = warnings.filterwarnings
    warnings.filterwarnings = lambda *a, **k: changes.append(a) or original(*a, **k)
    try:
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(attend) for _ in range(8)]:
                done.result()
    finally:
        warnings.filterwarnings = original
    assert not changes  # a filter is shared by all threads
    assert warnings.filters == before
