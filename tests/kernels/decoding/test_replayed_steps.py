"""Loops in compiled functions: nothing of an earlier call may stay in a later one.

On torch the steps of a loop are traced and replayed; what cannot be runs as it is.
"""

import concurrent.futures
import threading

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import samplers
from keras_attention.models import Seq2Seq
from keras_attention.ops.sequence import decoding

on_torch = pytest.mark.backends("torch", reason="only torch replays steps")


@pytest.fixture
def traced(monkeypatch):
    """For each loop that was met for the first time: whether it was traced."""
    from keras_attention.kernels.decoding import torch as torch_decoding

    traced, trace = [], torch_decoding._Loops._trace

    def noting(self, function, tensors):
        run = trace(self, function, tensors)
        traced.append(run is not None)
        return run

    monkeypatch.setattr(torch_decoding._Loops, "_trace", noting)
    return traced


def compiled(layer=None):
    layer = keras.layers.Dense(1) if layer is None else layer
    if not layer.built:
        layer.build((None, 3))
    return decoding.CompiledFunctions(layer)


def call(functions, function, *args, key="f"):
    args = [np.asarray(x, "float32") if isinstance(x, list) else x for x in args]
    out = functions(key, function, *args)
    return keras.tree.map_structure(ops.convert_to_numpy, out)


def identity_twice():
    """A layer, its functions, and a loop that calls it two times."""
    layer = keras.layers.Dense(3, use_bias=False, kernel_initializer="identity")
    return (
        layer,
        compiled(layer),
        lambda x: decoding.generate(lambda i, x: layer(x), x, 0, 2),
    )


def sums(x, y):
    """Adds y to x, four times; y comes with the state."""
    step = lambda i, state: (state[0] + state[1], state[1])  # noqa: E731
    return decoding.generate(step, (x, y), 0, 4)[0]


def sums_over_a_closure(x, y):
    return decoding.generate(lambda i, x: x + y, x, 0, 4)


@pytest.mark.parametrize("function", [sums, sums_over_a_closure])
def test_tensors_of_another_call_do_not_stay(function):
    functions = compiled()
    for y in ([1.0, 2.0], [3.0, 5.0]):
        found = call(functions, function, [0.0, 10.0], y)
        np.testing.assert_allclose(found, [4 * y[0], 10 + 4 * y[1]])


def test_numbers_of_another_call_do_not_stay():
    functions = compiled()
    for y in (1.0, 3.0):
        found = call(functions, sums_over_a_closure, [0.0, 10.0], y)
        np.testing.assert_allclose(found, [4 * y, 10 + 4 * y])


def test_shapes_and_missing_tensors_of_another_call_do_not_stay():
    def run(x, y):
        def step(i, state):
            x, y = state
            return (x + 1 if y is None else x + y), y

        return decoding.generate(step, (x, y), 1, 3)[0]

    functions = compiled()
    for x, y, expected in [
        ([0.0], None, [2]),
        ([0.0], [5.0], [10]),
        ([0.0, 1.0], None, [2, 3]),
        ([7.0], None, [9]),
    ]:
        np.testing.assert_allclose(call(functions, run, x, y), expected)


def test_two_loops_of_one_function_are_two():
    def run(x):
        x = decoding.generate(lambda i, x: x + 1, x, 0, 3)
        return decoding.generate(lambda i, x: x * 2, x, 0, 3)

    functions = compiled()
    for x in (1.0, 2.0):
        np.testing.assert_allclose(call(functions, run, [x]), [8 * (x + 3)])


def test_the_place_is_that_of_the_step():
    def run(x, start):
        def step(i, x):
            now = decoding.read(x, i - 1) + ops.cast(i, "float32")
            return decoding.write(x, i, now)

        return decoding.generate(step, ops.copy(x), start, 5)

    functions = compiled()
    start = np.asarray(2, "int32")
    for first in (3.0, 5.0):
        x = [[0.0, first, 0.0, 0.0, 0.0]]
        found = call(functions, run, x, start)
        np.testing.assert_allclose(found, [[0, first, *first + np.array([2, 5, 9])]])


def test_a_loop_that_is_done_stops_there():
    def run(x, most):
        done = lambda state: ops.all(state[0] >= state[1])  # noqa: E731
        step = lambda i, state: (state[0] * 2, state[1])  # noqa: E731
        return decoding.generate(step, (x, most), 0, 9, done)[0]

    functions = compiled()
    for most, expected in [(7.0, 8), (30.0, 32), (1.0, 1), (1e6, 512)]:
        np.testing.assert_allclose(call(functions, run, [1.0], [most]), [expected])


def test_weights_are_read_anew():
    layer, functions, run = identity_twice()
    for scale in (1.0, 2.0, 3.0):
        layer.set_weights([scale * np.eye(3, dtype="float32")])
        found = call(functions, run, [[1.0, 2.0, 3.0]])
        np.testing.assert_allclose(found, scale**2 * np.array([[1, 2, 3]]))
    layer.enable_lora(1)
    x = ops.convert_to_tensor(np.array([[1.0, 2.0, 3.0]], "float32"))
    for scale in (1.0, 2.0):  # what weights alone decide is computed anew, too
        layer.lora_kernel_b.assign(scale * np.ones((1, 3)))
        expected = ops.convert_to_numpy(layer(layer(x)))
        found = call(functions, run, [[1.0, 2.0, 3.0]])
        np.testing.assert_allclose(found, expected, 1e-5)


@on_torch
def test_weights_of_a_stateless_scope_count(traced):
    layer, functions, run = identity_twice()
    twice = ops.convert_to_tensor(2 * np.eye(3, dtype="float32"))
    with keras.StatelessScope(state_mapping=[(layer.kernel, twice)]):
        found = call(functions, run, [[1.0, 2.0, 3.0]])
    np.testing.assert_allclose(found, [[4, 8, 12]])
    np.testing.assert_allclose(call(functions, run, [[1.0, 2.0, 3.0]]), [[1, 2, 3]])
    assert traced == [True, True]


@on_torch
def test_a_weight_in_the_place_of_another_is_noticed(traced):
    import torch

    layer, functions, run = identity_twice()
    call(functions, run, [[1.0, 2.0, 3.0]])
    layer.kernel._value = torch.nn.Parameter(2 * torch.eye(3))
    found = call(functions, run, [[1.0, 2.0, 3.0]])
    np.testing.assert_allclose(found, [[4, 8, 12]])
    assert traced == [True, True]


@on_torch
def test_autocast_leaves_nothing_to_later_calls():
    import torch

    layer, functions, run = identity_twice()
    layer.set_weights([(1 + 2.0**-10) * np.eye(3, dtype="float32")])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = call(functions, run, [[1.0, 2.0, 4.0]])
    np.testing.assert_array_equal(found, [[1, 2, 4]])
    found = call(functions, run, [[1.0, 2.0, 4.0]])
    np.testing.assert_allclose(found, (1 + 2.0**-10) ** 2 * np.array([[1, 2, 4]]))


@on_torch
def test_a_hook_runs_in_each_step():
    layer, functions, run = identity_twice()
    call(functions, run, [[1.0, 2.0, 4.0]])
    calls = []
    handle = layer.register_forward_hook(lambda *_: calls.append(1))
    for count in (2, 4):
        call(functions, run, [[1.0, 2.0, 4.0]])
        assert len(calls) == count
    handle.remove()
    call(functions, run, [[1.0, 2.0, 4.0]])
    assert len(calls) == count


@on_torch
def test_what_is_not_the_same_each_time_is_not_traced(traced):
    functions = compiled()
    variable = keras.Variable(np.zeros((), "float32"))

    def asks(x):
        return decoding.generate(lambda i, x: x + 1 if x[0] < 3 else x, x, 0, 9)

    def counts(x):
        return decoding.generate(lambda i, x: x + list(range(9))[int(i)], x, 0, 4)

    def grows(x):
        return decoding.generate(lambda i, x: ops.concatenate([x, x]), x, 0, 3)

    def hands_on(x):
        kernel = functions.owner.kernel
        step = lambda i, state: (state[0] + 1, kernel.value)  # noqa: E731
        return decoding.generate(step, (x, ops.zeros((3, 1))), 0, 4)[0]

    def assigns(x):
        def step(i, x):
            variable.assign(variable + 1)
            return x + variable

        return decoding.generate(step, x, 0, 3)

    expected = {asks: [3], counts: [6], grows: [0] * 8, hands_on: [4]}
    for function, value in expected.items():
        for _ in range(2):
            found = call(functions, function, [0.0], key=function.__name__)
            np.testing.assert_allclose(found, value)
    for value in (1 + 2 + 3, 4 + 5 + 6):
        out = functions("a", assigns, np.zeros(1, "float32"), variables=[variable])
        np.testing.assert_allclose(ops.convert_to_numpy(out), [value])
    y = ops.ones(1)
    call(functions, lambda x: sums_over_a_closure(x, y), [0.0], key="closure")
    assert traced == [False] * 6


@on_torch
def test_an_error_in_a_step_is_raised():
    def run(x):
        return decoding.generate(lambda i, x: ops.matmul(x, x), x, 0, 3)

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        call(compiled(), run, [[1.0, 2.0, 3.0]])


@on_torch
@pytest.mark.parametrize("stop", [None, 3])
@pytest.mark.parametrize(
    "sampler",
    [
        samplers.GreedySampler(),
        samplers.TopPSampler(),
        samplers.BeamSampler(3, 0.6, 0.2, return_all_beams=True),
    ],
    ids=["greedy", "top_p", "beam"],
)
@pytest.mark.parametrize("attention", ["bahdanau", "luong", None])
def test_seq2seq_is_traced_once_a_bucket(traced, attention, sampler, stop):
    keras.utils.set_random_seed(0)
    model = Seq2Seq(11, 13, embedding_dim=5, units=7, attention=attention)
    source = np.random.default_rng(0).integers(1, 11, (3, 9))
    arguments = {"stop_token_ids": stop, "seed": 0, "sampler": sampler}
    model.run_eagerly = True
    expected = model.generate(source, 9, **arguments)
    assert not traced
    model.run_eagerly = False
    for length in (9, 12, 15):
        model.generate(source[:, :5], length, **arguments)
    found = model.generate(source, 9, **arguments)
    keras.tree.map_structure(np.testing.assert_array_equal, found, expected)
    assert traced == [True]


@on_torch
def test_two_threads_trace_one_after_the_other(traced):
    """Without waiting, the first would end while the second still traces."""
    begun, both, ended = (threading.Event() for _ in range(3))

    def first(x):
        def step(i, x):
            begun.set()
            both.wait(0.3)
            return x + 1

        return decoding.generate(step, x, 0, 3)

    def second(x):
        def step(i, x):
            both.set()
            ended.wait(60)
            return x + 2

        return decoding.generate(step, x, 0, 3)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        one = pool.submit(call, compiled(), first, [0.0])
        one.add_done_callback(lambda _: ended.set())
        begun.wait(60)
        two = pool.submit(call, compiled(), second, [0.0])
        np.testing.assert_allclose([one.result(), two.result()], [[3.0], [6.0]])
    assert traced == [True, True]


@on_torch
def test_a_traced_step_is_shortened():
    """Views are merged, equal operations are one, weights' views are made before."""
    import torch

    from keras_attention.kernels.replay.torch_trace import Call, plan

    weight = keras.Variable(np.arange(6, dtype="float32").reshape(2, 3))

    def step(place, x, buffer):
        turned = x[:, None].permute(2, 0, 1).reshape(2, 4)  # views of views
        y = (turned.T @ weight.value).sum(1) + torch.arange(4) + torch.arange(4)
        twice = (x * 2).sum() + (x * 2).sum()
        before = buffer + 1
        buffer.index_copy_(0, place.reshape(1), y[:1])
        after = buffer + 1  # not the same as before it was written to
        return [x + twice + before.sum() + after.sum() + y[:, None], buffer]

    def inputs(seed):
        torch.manual_seed(seed)
        return torch.tensor(2), torch.rand(4, 2), torch.rand(5)

    leaves = {}
    arguments = plan((inputs(0), {}), leaves)
    with torch.no_grad():
        call = Call(
            step, arguments, leaves, [weight], [weight.value.data], in_place=True
        )
        operations = call.observe()
        run = call.trace().forward
        few = len([n for n in run.func.__self__.graph.nodes if n.op == "call_function"])
        assert few <= operations - 8
        for seed in range(3):
            results = zip(run(*inputs(seed)), step(*inputs(seed)), strict=True)
            for result, expected in results:
                torch.testing.assert_close(result, expected)
            weight.value.data.mul_(1.5)  # as a weight does that is trained


@on_torch
def test_long_loops_pack_weights(monkeypatch, traced):
    """They do so each time, because weights change in place."""
    import torch

    from keras_attention.kernels.decoding import torch_packing
    from keras_attention.kernels.replay import torch_rewrite

    packed, pack = [], torch_packing._pack

    def noting(weights):
        packed.append(len(weights))
        return pack(weights)

    monkeypatch.setattr(torch_packing, "_pack", noting)
    monkeypatch.setattr(torch_rewrite, "MOST_CONSTANT", 1)  # views may be larger
    rng = np.random.default_rng(0)
    arrays = [*rng.normal(size=(4, 256, 256)) / 20, rng.normal(size=256)]
    variables = [keras.Variable(x.astype("float32")) for x in arrays]

    def run(x, stop):
        def step(i, x):
            a, b, c, d, bias = (v.value for v in variables)
            y = torch.addmm(bias, x, a) + torch.tanh(torch.addmm(bias, x, b.T))
            view = y.view_as(y)
            z = view @ c
            y.mul_(0.5)  # so the next product is of other numbers
            return torch.tanh(z + view @ d)

        return decoding.generate(step, x, 0, stop)

    functions, x = compiled(), rng.normal(size=(3, 256)).astype("float32")
    for stop, products in ((5, []), (16, [2]), (16, [2]), (5, [])):
        result = functions("f", run, x, np.asarray(stop, "int32"), variables=variables)
        with torch.no_grad():
            expected = run(ops.convert_to_tensor(x), stop)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
        assert packed == products
        packed.clear()
        for v in variables:
            v.value.data.mul_(1.1)  # without a trace in its version
    assert traced == [True]


@on_torch
@pytest.mark.usefixtures("traced")
def test_what_a_state_is_made_of_is_not_shared():
    """Two buffers that are equal at first are written to apart, and anew each call."""
    functions = compiled()

    def fills(x):
        def step(index, state):
            total, kept, other, _ = state
            kept = decoding.write(kept, index, total)
            other = decoding.write(other, index, -total)
            return total + 1, kept, other, ops.zeros_like(kept)

        empty = ops.zeros((2, 4))
        state = (x, empty, ops.zeros((2, 4)), ops.zeros((2, 4)))
        return decoding.generate(step, state, 0, 4)[1:]

    for start in (0.0, 5.0):
        kept, other, zeros = call(functions, fills, [start, start + 10])
        expected = np.array([[start], [start + 10]]) + np.arange(4)
        np.testing.assert_array_equal(kept, expected)
        np.testing.assert_array_equal(other, -expected)
        assert not zeros.any()
