"""The additive score in chunks: its numbers, its gradient, and when it is plain."""

import keras
import numpy as np
import pytest
import references
from calling import BACKEND, few_compiled
from gradients import gradient, second, tensor, to_numpy
from keras import ops

from keras_attention import kernels
from keras_attention.layers import AdditiveScore
from keras_attention.ops import attend, scores

pytestmark = pytest.mark.backends("all")  # each backend has its own kernel

SIZES = [  # B, T, S, U
    (3, 17, 23, 37),  # one chunk, filled up
    (2, 64, 128, 32),  # chunks without a rest
    (2, 131, 257, 19),  # several chunks, and a rest
    (1, 5, 1031, 29),
    (1, 1031, 4, 29),
]
LARGE = SIZES[0]


def drawn(size, spread=1.0):
    """Queries, keys, a scale like one that layers draw, and a slope of the scores."""
    batch, queries, keys, units = size
    query = spread * references.normal(batch, queries, units)
    key = spread * references.normal(batch, keys, units, seed=1)
    scale = references.normal(units, seed=2) / np.sqrt(units)
    return query, key, scale, references.normal(batch, queries, keys, seed=3)


def expected(query, key, scale, slope):
    """Scores and the three gradients in float64, of numbers rounded to float32."""
    rounded = (np.asarray(x, "float32") for x in (query, key, scale, slope))
    return by_hand(*(x.astype("float64") for x in rounded))


def by_hand(query, key, scale, slope):
    found = [], [], [], []
    for q, k, g in zip(query, key, slope):
        units = np.tanh(q[:, None] + k)  # (T, S, U)
        back = (1 - units**2) * scale * g[..., None]
        parts = (
            units @ scale,
            back.sum(1),
            back.sum(0),
            (g[..., None] * units).sum((0, 1)),
        )
        for part, all_of in zip(parts, found):
            all_of.append(part)
    similar, dq, dk, dscale = (np.stack(x) for x in found)
    return similar, dq, dk, dscale.sum(0)


def assert_right(query, key, scale, slope, error=2e-5, **arguments):
    similar, *slopes = expected(query, key, scale, slope)
    found = scores.additive(*map(tensor, (query, key, scale)), **arguments)
    np.testing.assert_allclose(to_numpy(found), similar, rtol=0, atol=error)
    if BACKEND in ("numpy", "openvino"):
        return

    def total(q, k, v):
        return ops.sum(tensor(slope) * scores.additive(q, k, v, **arguments))

    for found, wanted in zip(gradient(total, query, key, scale), slopes):
        limit = error * max(1, np.abs(wanted).max())
        np.testing.assert_allclose(found, wanted, rtol=0, atol=limit)


@few_compiled("size", SIZES, 2)
def test_scores_and_gradients_of_chunks(size):
    assert_right(*drawn(size))


@pytest.mark.parametrize("size", [(2, 1, 50, 1000), (5, 3, 1000, 7), (2, 3, 5, 7)])
def test_one_query_and_few_pairs(size):
    assert_right(*drawn(size))


def test_saturated_units():
    """Beyond ±43 where nothing cancels, and within it where all does."""
    query, key, scale, slope = drawn(LARGE, 30.0)
    query = np.clip(query, -43, 43)
    key = np.clip(key, -43, 43)
    assert_right(query, key, scale, slope)
    query[:, ::2] = 42 * np.sign(query[:, ::2])
    key = np.sign(key) * (42 + np.abs(np.sin(key)))
    assert_right(query, key, scale, slope)
    query, key = 1e4 * np.abs(query) + 43, np.abs(key)
    assert_right(query, key, scale, slope)
    assert_right(-query, -key, scale, slope)
    assert_right(query, -1e9 * key, scale, slope, exact=True)


def test_exact():
    query, key, scale, slope = drawn(LARGE)
    assert_right(query, key, scale, slope, exact=True)
    far = 50 + np.zeros_like(query)
    assert_right(far, key - 50, scale, slope, exact=True)


@pytest.mark.parametrize(
    "graph", [False, pytest.param(True, marks=pytest.mark.backends("tensorflow"))]
)
def test_second_derivatives(graph):
    """Also of scores that a loss has linearly: nothing of them may be cut off."""
    arguments = {}
    if graph:
        from tensorflow import function

        arguments["wrap"] = function
    *inputs, slope = (np.asarray(x, "float32") for x in drawn(LARGE))
    along = [references.normal(*x.shape, seed=5 + i) for i, x in enumerate(inputs)]

    def loss(*x):
        similar = scores.additive(*x)
        return ops.sum(tensor(slope) * (similar + similar**2))

    def gradients(step):
        x = [a + step * d for a, d in zip(inputs, along)]
        similar = by_hand(*x, slope)[0]
        return by_hand(*x, slope * (1 + 2 * similar))[1:]

    step = 1e-5
    pairs = zip(gradients(step), gradients(-step))
    wanted = [(up - down) / (2 * step) for up, down in pairs]
    for found, right in zip(second(loss, inputs, along, **arguments), wanted):
        limit = 2e-5 * max(1, np.abs(right).max())
        np.testing.assert_allclose(found, right, rtol=0, atol=limit)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_computed_in_float32(dtype):
    *inputs, slope = drawn(LARGE)
    inputs = [references.rounded(x, dtype) for x in inputs]
    found = scores.additive(*(tensor(x, dtype) for x in inputs))
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    similar, *slopes = expected(*inputs, slope)
    rounding = references.ROUNDING[dtype]
    limit = rounding * np.abs(similar) + 1e-5
    assert np.all(np.abs(to_numpy(found) - similar) <= limit)

    def total(*x):
        return ops.sum(tensor(slope) * ops.cast(scores.additive(*x), "float32"))

    for found, wanted in zip(gradient(total, *inputs, dtype=dtype), slopes):
        assert np.all(np.isfinite(found))
        limit = 2 * rounding * np.abs(wanted).max() + 1e-5
        assert np.all(np.abs(found - wanted) <= limit)


def test_leading_axes():
    query, key, scale, _ = drawn((6, 17, 23, 37))
    similar = expected(query, key, scale, np.zeros((6, 17, 23)))[0]
    more = scores.additive(
        tensor(query.reshape(2, 3, 17, 37)),
        tensor(key.reshape(2, 3, 23, 37)),
        tensor(scale),
    )
    np.testing.assert_allclose(to_numpy(more), similar.reshape(2, 3, 17, 23), atol=2e-5)
    none = scores.additive(*map(tensor, (query[1], key[1], scale)))
    np.testing.assert_allclose(to_numpy(none), similar[1], atol=2e-5)
    one = scores.additive(*map(tensor, (query, key[:1], scale)))
    np.testing.assert_allclose(to_numpy(one)[0], similar[0], atol=2e-5)
    assert tuple(one.shape) == (6, 17, 23)


def test_masked_keys_are_never_read():
    query, key, scale, _ = drawn(LARGE)
    mask = references.normal(3, 17, 23, seed=4) > 0
    mask[:, 4] = False
    mask[:, :, 7] = False

    def output(q, k):
        def score(q, k):
            return scores.additive(q, k, tensor(scale))

        return attend(q, k, k, score, "softmax", ops.convert_to_tensor(mask))[0]

    found = to_numpy(output(tensor(query), tensor(key)))
    assert np.all(found[:, 4] == 0)
    moved = key.copy()
    moved[:, 7] += 3
    again = to_numpy(output(tensor(query), tensor(moved)))
    np.testing.assert_array_equal(again, found)
    dq, dk = gradient(lambda q, k: ops.sum(output(q, k)), query, key)
    assert np.all(np.isfinite(dq))
    assert np.all(dq[:, 4] == 0)
    assert np.all(dk[:, 7] == 0)


def test_scale_of_another_width():
    message = (
        r"`scale` must hold one number for each unit \(last axis of `query`\)\. "
        r"Received: scale\.shape=\(4,\), query\.shape=\(3, 5\)"
    )
    x = tensor(np.ones((3, 5)))
    with pytest.raises(ValueError, match=message):
        scores.additive(x, x, tensor(np.ones(4)))


@pytest.mark.backends("jax", reason="of JAX")
def test_jax_holds_no_units_of_all_pairs_and_takes_unknown_sizes():
    import jax
    from jax import export

    *inputs, slope = map(tensor, drawn((4, 128, 128, 64)))

    def total(*x):
        return ops.sum(slope * scores.additive(*x))

    step = jax.jit(jax.grad(total, (0, 1, 2))).lower(*inputs).compile()
    every = 4 * 4 * 128 * 128 * 64
    assert step.memory_analysis().temp_size_in_bytes < every / 4

    shapes = export.symbolic_args_specs(tuple(inputs), ("b, t, u", "b, s, u", "u"))
    assert (
        "while"
        not in export.export(jax.jit(kernels.additive, static_argnums=3))(
            *shapes, False
        ).mlir_module()
    )


@pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated")
@pytest.mark.filterwarnings("ignore:Converting a tensor to a Python")
@pytest.mark.backends("torch", reason="of torch")
def test_torch_traces_the_plain_form():
    import torch

    query, key, scale, _ = drawn(LARGE)
    traced = torch.jit.trace(scores.additive, tuple(map(tensor, (query, key, scale))))
    query, key, scale, slope = drawn((2, 19, 29, 37))
    similar = expected(query, key, scale, slope)[0]
    found = traced(*map(tensor, (query, key, scale)))
    np.testing.assert_allclose(to_numpy(found), similar, atol=2e-5)


@pytest.mark.backends("tensorflow", reason="of TensorFlow")
def test_exports_take_the_plain_form(tmp_path):
    """Nothing that XLA must compile, and no loop, goes into a SavedModel."""
    import tensorflow as tf

    x, y = keras.Input((17, 37)), keras.Input((23, 37))
    model = keras.Model([x, y], AdditiveScore(31)(x, y))
    model.export(tmp_path, format="tf_saved_model", verbose=False)
    loaded = tf.saved_model.load(tmp_path)
    query, key = map(tensor, drawn(LARGE)[:2])
    np.testing.assert_allclose(loaded.serve([query, key]), model([query, key]), 0, 2e-5)
    graph = loaded.serve.get_concrete_function([query, key])
    library = graph.graph.as_graph_def().library.function
    operations = {node.op for f in library for node in f.node_def}
    assert "Tanh" in operations
    assert not [name for name in operations if "While" in name]
    assert not any(f.attr["_XlaMustCompile"].b for f in library)


@pytest.mark.backends("tensorflow", reason="of TensorFlow")
@pytest.mark.parametrize("compiled", [False, True])
@few_compiled("unknown", ["BTS", "B", ""])
def test_tensorflow_graphs(compiled, unknown):
    import tensorflow as tf

    sizes = {"B": 2, "T": 67, "S": 71, "U": 37}
    known = {n: None if n in unknown else size for n, size in sizes.items()}
    shapes = ["BTU", "BSU", "U", "BTS"]

    @tf.function(
        jit_compile=compiled,
        input_signature=[tf.TensorSpec([known[n] for n in s]) for s in shapes],
    )
    def step(query, key, scale, slope):
        with tf.GradientTape() as tape:
            tape.watch([query, key, scale])
            similar = scores.additive(query, key, scale)
        assert similar.shape.as_list() == [known[n] for n in "BTS"]
        return similar, *tape.gradient(similar, [query, key, scale], slope)

    others = {"": sizes, "B": {**sizes, "B": 3}}
    others["BTS"] = {"B": 1, "T": 131, "S": 257, "U": 37}
    for at in (sizes, others[unknown]):
        inputs = drawn(tuple(at.values()))
        for found, wanted in zip(step(*map(tensor, inputs)), expected(*inputs)):
            limit = 2e-5 * max(1, np.abs(wanted).max())
            np.testing.assert_allclose(found, wanted, rtol=0, atol=limit)
