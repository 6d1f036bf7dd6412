"""Replayed calls on torch give the numbers of the call itself, or are refused.

The reference of each test is the model itself with the same weights.
"""

import gc
import threading
import weakref

import keras
import numpy as np
import pytest
from catalogue import CORE, ROWS
from keras import layers
from replayed import B, D, U, dense_model, warmed, wave

import keras_attention
from keras_attention import kernels
from keras_attention.layers import (
    BahdanauAttention,
    HardAttention,
    MemoryAge,
    MultiHeadAttention,
    SentenceEncoder,
)

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.backends("torch")

T, S = 3, 5
# The reasons why a call of a row is refused, by a word of the reason
REFUSED = {
    "depth_recurrence_adaptive": "loss",  # its ponder cost
    "image_captioner_doubly_stochastic": "loss",
    "multi_head_regularized": "loss",
    "dnc": "values",  # sparse links: as many as are not 0
    "associative_memory": "neither",  # its patterns are no weights
    "hopfield_rest": "values",
}
SEEDED = {"attention_pooling", "multi_head_grouped"}  # Keras' dropout with a seed
NO_TRAINING = {"dnc_cell_linkless", "hopfield_rest"}  # raise an error in training


def replays(fast):
    """The number of traces that would be replayed now."""
    return sum(calls.is_current() for calls in fast._replayer._signatures.values())


def gradients(output, sources):
    outputs = [x for x in keras.tree.flatten(output) if x.requires_grad]
    if not (sources and outputs):
        return []
    loss = sum((x * wave(*x.shape)).sum() for x in outputs)
    return torch.autograd.grad(loss, sources, allow_unused=True)


def assert_same(a, b, bound=0.0):
    a, b = keras.tree.flatten(a), keras.tree.flatten(b)
    assert len(a) == len(b)
    for one, other in zip(a, b):
        if one is None or other is None:
            assert one is other
        else:
            torch.testing.assert_close(
                one, other, rtol=bound, atol=bound, equal_nan=True
            )


SLOW = {
    *("dnc", "dnc_cell", "dnc_network", "fact_finder", "masked_lm", "memn2n"),
    *(
        "memnn",
        "recorded_model",
        "seq2seq",
        "transformer",
        "universal_transformer",
        "word_rnn",
    ),
}


def ring(row):
    """One row a class, and in the ring `release` all others."""
    if row.name not in CORE:
        return pytest.mark.release
    return pytest.mark.slow if row.name in SLOW else ()


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.name, marks=ring(row)) for row in ROWS]
)
def test_each_row(row):
    """Outputs, masks, gradients and states of other inputs and other weights.

    Only here each layer and model is replayed. Each row has one of the two modes; a
    seed is drawn for both.
    """
    training = sum(map(ord, row.name)) % 2 == 0 and row.name not in NO_TRAINING
    keras.utils.set_random_seed(0)
    made = row.make()
    fast = keras_attention.recorded(made)
    more = {"training": training} if kernels.takes_training(made) else {}
    for seed in (0, 0, 0, 1):
        inputs = row.inputs(np.random.default_rng(seed))
        inputs = {name: torch.as_tensor(x) for name, x in inputs.items()}
        if not made.built:
            row.call(made, inputs)
            continue
        weights = [v.value for v in made.trainable_variables]
        states = [np.copy(v) for v in made.non_trainable_variables]
        torch.manual_seed(seed)
        expected = row.call(made, inputs, **more)
        slopes = gradients(expected, weights)
        after = [np.copy(v) for v in made.non_trainable_variables]
        for variable, state in zip(made.non_trainable_variables, states):
            variable.assign(state)
        torch.manual_seed(seed)
        found = row.call(fast, inputs, **more)
        assert_same(expected, found, 1e-5)
        for one, other in zip(*map(keras.tree.flatten, (expected, found))):
            assert_same(kernels.carried_mask(one), kernels.carried_mask(other))
        assert_same(after, [np.copy(v) for v in made.non_trainable_variables])
        assert_same(slopes, gradients(found, weights), 1e-4)
        with torch.no_grad():
            for weight in weights:
                weight.mul_(1.1)
    reason = REFUSED.get(row.name, "values" if row.name in SEEDED and training else "")
    if reason:
        assert reason in " ".join(fast.refusals)
    else:
        assert replays(fast) == 1, fast.refusals


def test_gradients_of_inputs_and_of_one_tensor_given_twice():
    layer = MultiHeadAttention(2, 3)
    x, y = wave(B, T, D).requires_grad_(), wave(B, S, D, start=9).requires_grad_()
    layer(x, y)
    fast = warmed(keras_attention.recorded(layer), x, y)
    warmed(fast, x, x)
    assert replays(fast) == 2
    assert_same(gradients(layer(x, y), [x, y]), gradients(fast(x, y), [x, y]), 1e-6)
    assert_same(gradients(layer(x, x), [x]), gradients(fast(x, x), [x]), 1e-6)


def test_a_weight_that_no_used_output_depends_on_has_no_gradient():
    x = keras.Input((D,))
    model = keras.Model(x, [layers.Dense(2)(x), layers.Dense(3)(x)])
    fast = warmed(keras_attention.recorded(model), wave(B, D))
    weights = [v.value for v in model.trainable_variables]
    first, _ = fast(wave(B, D))
    found = torch.autograd.grad(first.sum(), weights, allow_unused=True)
    assert [grad is None for grad in found] == [False, False, True, True]


def test_modes_have_their_own_traces():
    model = keras.Sequential([layers.Dense(U), layers.Dropout(0.5)])
    model(wave(B, D))
    fast = warmed(keras_attention.recorded(model), wave(B, D), training=True)
    with torch.no_grad():
        warmed(fast, wave(B, D), training=False)
        assert not fast(wave(B, D), training=False).requires_grad
    assert replays(fast) == 2
    assert fast(wave(B, D), training=True).requires_grad
    with torch.inference_mode():
        assert_same(fast(wave(B, D)), model(wave(B, D)))
    with torch.autocast("cpu", torch.bfloat16):
        assert fast(wave(B, D)).dtype == model(wave(B, D)).dtype
    assert replays(fast) == 2


def test_other_shapes_strides_and_dtypes():
    model = dense_model()
    fast = warmed(keras_attention.recorded(model), wave(B, D))
    for x in (wave(S, D), wave(D, B).T, wave(B, 2 * D)[:, ::2], wave(B, D).double()):
        for _ in range(3):
            assert_same(fast(x), model(x))
    part = wave(S, D)[1 : 1 + B]  # the strides of the first call, at another offset
    assert_same(fast(part), model(part))


class TestNeverStale:
    """Each change shows in the next call."""

    def changed(self, change, model=None, **more):
        model = dense_model() if model is None else model
        fast = warmed(keras_attention.recorded(model), wave(B, D), **more)
        assert replays(fast) == 1
        before = fast(wave(B, D), **more)
        change(model)
        for _ in range(3):
            assert_same(fast(wave(B, D), **more), model(wave(B, D), **more))
        assert not torch.equal(fast(wave(B, D), **more), before)

    def test_assigned(self):
        self.changed(lambda m: m.layers[0].kernel.assign(wave(D, U)))

    def test_set_in_place(self):
        def change(model):
            with torch.no_grad():
                model.layers[0].kernel.value.mul_(2)

        self.changed(change)

    def test_data_replaced(self):
        def change(model):
            model.layers[0].kernel.value.data = wave(D, U)

        self.changed(change)

    def test_data_transposed_at_the_same_address(self):
        model = keras.Sequential([layers.Dense(D)])

        def change(model):
            kernel = model.layers[0].kernel.value
            kernel.data = kernel.data.T

        model(wave(B, D))
        self.changed(change, model)

    def test_value_replaced(self):
        def change(model):
            model.layers[0].kernel._value = torch.nn.Parameter(wave(D, U))

        self.changed(change)

    def test_attribute_set(self):
        def change(model):
            model.layers[0].activation = keras.activations.tanh

        self.changed(change)

    def test_rate_set(self):
        model = keras.Sequential([layers.Dropout(1e-12), layers.Dense(D)])
        model(wave(B, D))

        def change(model):
            model.layers[0].rate = 1.0

        self.changed(change, model, training=True)

    def test_lora(self):
        def change(model):
            model.layers[0].enable_lora(2)
            model.layers[0].lora_kernel_b.assign(wave(2, U))

        self.changed(change)

    def test_quantized(self):
        self.changed(lambda model: model.layers[0].quantize("int8"))

    def test_dtype_policy(self):
        model = dense_model()
        fast = warmed(keras_attention.recorded(model), wave(B, D))
        model.layers[1].dtype_policy = keras.DTypePolicy("mixed_bfloat16")
        assert fast(wave(B, D)).dtype == torch.bfloat16

    def test_list_of_an_attribute_grows(self):
        class Repeat(keras.layers.Layer):
            def __init__(self):
                super().__init__()
                self.factors = {"first": 2.0}

            def call(self, x):
                for factor in self.factors.values():
                    x = factor * x
                return x

        layer = Repeat()
        layer(wave(B, D))
        self.changed(lambda layer: layer.factors.__setitem__("second", 3.0), layer)

    def test_hook(self):
        def change(model):
            model.layers[0].register_forward_hook(lambda layer, x, y: 2 * y)

        self.changed(change)

    def test_frozen(self):
        model = dense_model()
        fast = warmed(keras_attention.recorded(model), wave(B, D))
        model.layers[0].trainable = False
        for _ in range(3):
            fast(wave(B, D)).sum().backward()
        assert model.layers[0].kernel.value.grad is None
        assert model.layers[1].kernel.value.grad is not None

    def test_changed_before_the_gradient(self):
        model = dense_model()
        fast = warmed(keras_attention.recorded(model), wave(B, D))
        loss = fast(wave(B, D)).sum()
        model.layers[1].kernel.assign(wave(U, D))
        with pytest.raises(RuntimeError, match="weights that were changed in place"):
            loss.backward()

    def test_second_derivative(self):
        fast = warmed(keras_attention.recorded(dense_model()), wave(B, D))
        x = wave(B, D).requires_grad_()
        warmed(fast, x)
        with pytest.raises(RuntimeError, match="no second derivatives"):
            torch.autograd.grad(fast(x).sum(), x, create_graph=True)


class Refused(keras.layers.Layer):
    """A layer whose call is a function of the layer and a tensor."""

    def __init__(self, function):
        super().__init__()
        self.function, self.count = function, 0

    def call(self, x):
        return self.function(self, x)


def counted(layer, x):
    layer.count += 1
    return x * layer.count


def penalized(layer, x):
    layer.add_loss(x.sum())
    return x


def mutated(layer, x):
    x.add_(1)
    return 2 * x


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda layer, x: x if x.sum() > 0 else -x, "reads the values"),
        (lambda layer, x: x * x.sum().item(), "reads the values"),
        (lambda layer, x: x * float(np.sum(x.numpy())), "reads the values"),
        (lambda layer, x: x * float(np.asarray(x.detach())[0, 0]), "reads the values"),
        (lambda layer, x: x[x > 0], "reads the values"),
        (lambda layer, x: x * x.tolist()[0][0], "reads the values"),
        (counted, "changes attributes"),
        (penalized, "adds a loss"),
        (mutated, "in place"),
        (
            lambda layer, x: keras.random.dropout(x, 0.5, seed=layer.count),
            "",  # a seed that is a number gives the same numbers at each call
        ),
    ],
)
def test_refused_calls_run_as_usual(function, reason):
    fast = keras_attention.recorded(Refused(function))
    plain = Refused(function)
    for start in (0, 0, 3, 1, 5):
        x = wave(B, D, start=start)
        assert_same(fast(x.clone()), plain(x.clone()))
    assert reason in " ".join(fast.refusals)
    assert bool(fast.refusals) == (replays(fast) == 0)


def add_to_weight(layer, x):
    layer.total.value.add_(1)
    return 2 * x


def add_to_buffer(layer, x):
    layer.part.module.count.add_(1)
    return 2 * x


@pytest.mark.parametrize(
    "function",
    [mutated, lambda layer, x: x.data.add_(1), add_to_weight, add_to_buffer],
    ids=["argument", "data", "weight", "buffer"],
)
def test_a_call_that_writes_in_place_does_it_once(function):
    layer = Refused(function)
    layer.total = layer.add_weight(shape=(), initializer="zeros", trainable=False)
    layer.part = layers.TorchModuleWrapper(torch.nn.Identity())
    count, total = torch.zeros(()), layer.total.value
    layer.part.module.register_buffer("count", count)
    fast = keras_attention.recorded(layer)
    for calls in range(1, 5):
        x = torch.zeros(B, D)
        fast(x)
        writes = float(x[0, 0]) + float(total) + float(count)
        assert writes == (1 if x.any() else calls)
    assert replays(fast) == 0
    assert layer.part.module.count is count


def test_a_tensor_from_elsewhere_is_refused():
    held = {"x": wave(B, D)}
    fast = keras_attention.recorded(Refused(lambda layer, x: x + held["x"]))
    for start in (0, 1, 2, 3):
        held["x"] = wave(B, D, start=start)
        assert_same(fast(wave(B, D)), wave(B, D) + held["x"])
    assert fast.refusals


def test_too_many_operations(monkeypatch):
    monkeypatch.setattr("keras_attention.kernels.replay.torch_trace.MOST_OPERATIONS", 9)
    fast = warmed(keras_attention.recorded(Refused(lambda _, x: sum([x] * 9))), wave(2))
    assert fast.refusals == ["more than 9 operations"]


class TestRandomNumbers:
    def test_dropout_without_a_seed_continues_the_same_stream(self):
        model = keras.Sequential([layers.Dropout(0.5), layers.Dense(D)])
        fast = warmed(keras_attention.recorded(model), wave(B, D), training=True)
        outputs = []
        for called in (model, fast):
            torch.manual_seed(3)
            outputs.append([called(wave(B, D), training=True) for _ in range(3)])
        assert replays(fast) == 1
        assert_same(*outputs)
        assert not torch.equal(outputs[0][0], outputs[0][1])

    @pytest.mark.parametrize(
        "layer",
        [
            lambda: MemoryAge(9, noise=1.0, seed=5),
            lambda: HardAttention(units=U, seed=5),
        ],
    )
    def test_seeded_numbers_are_drawn_at_each_call(self, layer):
        one, other = layer(), layer()
        x = (wave(B, T, D) > 0).int() if isinstance(one, MemoryAge) else wave(B, T, D)
        given = (x,) if isinstance(one, MemoryAge) else (x, x)
        one(*given, training=True), other(*given, training=True)
        other.set_weights(one.get_weights())
        fast = keras_attention.recorded(one)
        found = [fast(*given, training=True) for _ in range(6)]
        assert replays(fast) == 1
        expected = [other(*given, training=True) for _ in range(6)]
        assert_same(found, expected)
        assert any(not torch.equal(found[-1], x) for x in found[:-1])


class Decides(layers.Layer):
    """Draws a seeded number before it looks at its input."""

    def __init__(self):
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(7)

    def call(self, x):
        number = kernels.random_input(
            lambda: keras.random.uniform((1,), seed=self.seed_generator)
        )
        return x * number if kernels.decision(x.sum() > 0) else x + number


def test_a_replay_that_ends_draws_no_numbers():
    outputs = []
    for layer in (Decides(), keras_attention.recorded(Decides())):
        torch.manual_seed(0)
        signs = (1.0, 1.0, 1.0, 1.0, -1.0, 1.0, -1.0, 1.0)
        outputs.append([layer(torch.full((1, 1), sign)) for sign in signs])
    assert replays(layer) == 1
    assert_same(*outputs)


def split_by_keras():
    x = keras.Input((6,))
    one, other = keras.ops.split(x, 2, axis=1)
    return keras.Model(x, one[:, 1:] * other[:, :2])


@pytest.mark.parametrize(
    "make",
    [
        split_by_keras,
        lambda: Refused(lambda layer, x: x.unbind(1)[1]),
        lambda: Refused(lambda layer, x: x.view(2, 2, 3).diagonal(0, 1, 2)[:, 1:] + 0),
        lambda: Refused(lambda layer, x: x.split(2, 1)[1].split(1, 1)[1] * 2),
    ],
)
def test_batches_of_one_tensor_begin_at_other_places(make):
    whole = wave(10, 6)
    plain = make()
    fast = keras_attention.recorded(plain)
    for start in range(0, 10, 2):
        x = whole[start : start + 2]
        assert_same(fast(x), plain(x))
    assert replays(fast) == 1


def test_a_loss_that_a_layer_adds_counts_at_each_step():
    dense = layers.Dense(U, activity_regularizer="l2")
    model = keras.Sequential([dense, layers.Dense(1)])
    fast = keras_attention.recorded(model)
    fast.compile(keras.optimizers.SGD(0.0), "mse")
    x, y = wave(B, D).numpy(), wave(B, 1).numpy()
    losses = [float(fast.train_on_batch(x, y)) for _ in range(4)]
    assert losses == pytest.approx([losses[0]] * 4)
    assert "adds a loss" in " ".join(fast.refusals)


class Signed(layers.Layer):
    def call(self, x, factor=1.0):
        return x * float(np.copysign(1.0, factor))


def test_the_sign_of_zero_is_part_of_a_signature():
    fast = warmed(keras_attention.recorded(Signed()), wave(B, D), factor=0.0)
    assert_same(fast(wave(B, D), factor=-0.0), -wave(B, D))


def test_decisions_are_made_again_at_each_call():
    """Bahdanau's factored score holds near 0 only, so a far key ends the replay."""
    layer = BahdanauAttention(U)
    x = wave(B, T, D)
    layer(x, x)
    fast = warmed(keras_attention.recorded(layer), x, x)
    assert replays(fast) == 1
    for scale in (1.0, 1e3, 1e6, 1.0):
        assert_same(fast(scale * x, scale * x), layer(scale * x, scale * x), 1e-6)


def test_statistics_of_batch_normalization():
    one, other = layers.BatchNormalization(), layers.BatchNormalization()
    fast = keras_attention.recorded(one)
    for start in range(5):
        x = wave(B, D, start=start)
        assert_same(fast(x, training=True), other(x, training=True))
    assert replays(fast) == 1
    assert_same(list(map(np.array, one.weights)), list(map(np.array, other.weights)))


def test_masks_are_passed_on():
    embedding = layers.Embedding(U, D, mask_zero=True)
    x = keras.Input((None,), dtype="int32")
    model = keras.Model(x, layers.LSTM(T, return_sequences=True)(embedding(x)))
    tokens = torch.as_tensor([[1, 2, 0], [3, 0, 0]])
    fast = warmed(keras_attention.recorded(model), tokens)
    tokens = torch.as_tensor([[1, 0, 0], [3, 4, 5]])
    expected, found = model(tokens), fast(tokens)
    assert_same(expected, found, 1e-6)
    assert_same(kernels.carried_mask(expected), kernels.carried_mask(found))
    attention = MultiHeadAttention(2, 3)
    y = embedding(tokens)
    attention(y, y)
    fast = warmed(keras_attention.recorded(attention), y, y)
    other = embedding(torch.as_tensor([[7, 8, 9], [0, 0, 0]]))
    assert_same(fast(other, other), attention(other, other), 1e-6)
    assert replays(fast) == 1


def test_attention_is_recorded_by_its_own_context():
    layer = MultiHeadAttention(2, 3, name="attention")
    x = wave(B, T, D)
    layer(x, x)
    fast = warmed(keras_attention.recorded(layer), x, x)
    with keras_attention.record_attention() as maps:
        fast(x, x)
    (weights,) = maps.values()
    assert weights.shape == (B, 2, T, T)


def test_inside_other_models_and_compiled_functions():
    inner = keras_attention.recorded(dense_model())
    x = keras.Input((D,))
    outer = keras.Model(x, layers.Dense(1)(inner(x)))
    expected = outer.layers[-1](inner.model(wave(B, D)))
    for _ in range(3):
        assert_same(outer(wave(B, D)), expected)
    assert replays(inner) == 0
    values = torch.func.vmap(lambda x: inner(x[None])[0])(wave(B, D))
    assert_same(values, inner.model(wave(B, D)), 1e-6)


def test_threads():
    model = dense_model()
    fast = warmed(keras_attention.recorded(model), wave(B, D))
    found = {}

    def run(start):
        found[start] = [fast(wave(B, D, start=start)).detach() for _ in range(20)]

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for start, outputs in found.items():
        for output in outputs:
            assert_same(output, model(wave(B, D, start=start)).detach())


def test_a_trace_is_dropped_less_and_less_often():
    """A callback that sets an attribute at each step must not trace at each step."""
    model = dense_model()
    fast = warmed(keras_attention.recorded(model), wave(B, D))
    (calls,) = fast._replayer._signatures.values()
    programs = {id(calls.trace): calls.trace}
    for step in range(20):
        model.layers[0].note = object()
        fast(wave(B, D, start=step))
        programs[id(calls.trace)] = calls.trace
    assert len(programs) <= 3


def test_nothing_holds_the_model_back():
    model = dense_model()
    fast = warmed(keras_attention.recorded(model), wave(B, D))
    del model
    found = weakref.ref(fast)
    del fast
    gc.collect()
    assert found() is None


def test_ids_of_sublayers_are_checked_at_each_replay():
    x = keras.Input((None,), dtype="int32")
    model = keras.Model(x, SentenceEncoder(U, D)(x))
    tokens = torch.as_tensor([[1, 2, 0], [3, 0, 0]])
    model(tokens)
    fast = warmed(keras_attention.recorded(model), tokens)
    assert replays(fast) == 1
    for wrong in (-7, U):
        with pytest.raises(ValueError, match="must hold ids"):
            fast(torch.as_tensor([[1, wrong, 0], [3, 0, 0]]))
    assert_same(fast(tokens + 1), model(tokens + 1))
    assert replays(fast) == 1
