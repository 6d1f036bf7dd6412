"""`AttentionRNN` against its equations in NumPy, and step by step against at once."""

import keras
import numpy as np
import pytest
from calling import few_compiled, needs_training
from gradients import gradient, to_numpy
from keras import ops

from keras_attention import record_attention
from keras_attention.layers import (
    AdditiveScore,
    Attention,
    AttentionRNN,
    BahdanauAttention,
    LuongAttention,
    MonotonicAttention,
)

B, T, S, D, U, V, A = 2, 5, 7, 3, 11, 13, 4

CELLS = {
    "simple": lambda: keras.layers.SimpleRNNCell(U),
    "lstm": lambda: keras.layers.LSTMCell(U),
    "gru": lambda: keras.layers.GRUCell(U),
    "stacked": lambda: [keras.layers.LSTMCell(3), keras.layers.GRUCell(U)],
    "nested": lambda: [
        keras.layers.LSTMCell(3),
        keras.layers.StackedRNNCells(
            [keras.layers.LSTMCell(4), keras.layers.GRUCell(U)]
        ),
    ],
}
FORMS = [
    ("before", None, False),
    ("before", A, False),
    ("after", A, False),
    ("after", None, True),
    ("after", A, True),
]


def data(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(B, T, D)).astype("float32")
    memory = rng.normal(size=(B, S, V)).astype("float32")
    key = rng.normal(size=(B, S, U)).astype("float32")
    hidden = np.ones((B, S), bool)
    hidden[0, 4:] = hidden[1, 0] = False
    missing = np.ones((B, T), bool)
    missing[0, 3:] = missing[1, 1] = False
    return x, memory, key, hidden, missing


def layer(form, cell="simple", **more):
    order, units, feeding = form
    return AttentionRNN(
        CELLS[cell](),
        Attention("dot"),
        order,
        units,
        feeding,
        return_sequences=True,
        **more,
    )


def reference(rnn, x, memory, key, hidden, missing):
    """The equations, one sample and one step after the other, in float64."""
    kernel, recurrent, bias = (np.float64(w) for w in rnn.cell.get_weights())
    combine = None if rnn.combine is None else np.float64(rnn.combine.get_weights()[0])
    outputs = np.zeros((B, T, U + V if combine is None else A))
    weights, states = np.zeros((B, T, S)), np.zeros((B, U))
    for b in range(B):
        s, fed = np.zeros(U), np.zeros(V if combine is None else A)

        def look(query, b=b):
            score = np.where(hidden[b], np.float64(key[b]) @ query, -np.inf)
            alpha = np.exp(score - score.max())
            alpha /= alpha.sum()
            return alpha @ memory[b], alpha

        def cell(read, s):
            return np.tanh(read @ kernel + s @ recurrent + bias)

        for t in range(T):
            if not missing[b, t]:
                continue
            if rnn.order == "before":
                context, alpha = look(s)
                s = cell(np.concatenate([x[b, t], context]), s)
            else:
                read = [x[b, t], fed] if rnn.input_feeding else [x[b, t]]
                s = cell(np.concatenate(read), s)
                context, alpha = look(s)
            weights[b, t] = alpha
            if combine is None:
                outputs[b, t], fed = np.concatenate([s, context]), context
            else:
                fed = np.tanh(np.concatenate([context, s]) @ combine)
                outputs[b, t] = fed
        states[b] = s
    return outputs, states, weights


@pytest.mark.parametrize("form", FORMS)
def test_the_equations(form):
    x, memory, key, hidden, missing = data()
    rnn = layer(form, return_state=True)
    output, state, *_, weights = rnn(
        x,
        memory,
        key,
        inputs_mask=missing,
        memory_mask=hidden,
        return_attention_scores=True,
    )
    expected = reference(rnn, x, memory, key, hidden, missing)
    for found, wanted in zip((output, state, weights), expected):
        np.testing.assert_allclose(to_numpy(found), wanted, atol=1e-5)


@pytest.mark.backends("all")
@pytest.mark.parametrize("cell", CELLS)
@few_compiled("form", FORMS)
def test_step_by_step_is_at_once(form, cell):
    x, memory, key, hidden, _ = data()
    rnn = layer(form, cell, return_state=True)
    arguments = {"memory_mask": hidden, "return_attention_scores": True}
    output, *state, weights = rnn(x, memory, key, **arguments)
    last, outputs, alphas = None, [], []
    for t in range(T):
        found, *last, alpha = rnn(
            x[:, t : t + 1], memory, key, initial_state=last, **arguments
        )
        outputs.append(to_numpy(found))
        alphas.append(to_numpy(alpha))
    np.testing.assert_allclose(np.concatenate(outputs, 1), to_numpy(output), atol=1e-5)
    np.testing.assert_allclose(np.concatenate(alphas, 1), to_numpy(weights), atol=1e-5)
    assert len(state) == len(last)
    for found, wanted in zip(last, state):
        np.testing.assert_allclose(to_numpy(found), to_numpy(wanted), atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_prepare_start_and_step_are_the_call(form):
    x, memory, key, hidden, _ = data()
    rnn = layer(form, "lstm")
    expected = to_numpy(rnn(x, memory, key, memory_mask=hidden))
    prepared = rnn.prepare(*map(ops.convert_to_tensor, (memory, key, hidden)))
    state = rnn.start(prepared, B)
    for t in range(T):
        state, seen = rnn.step(ops.convert_to_tensor(x[:, t]), state, prepared)
        np.testing.assert_allclose(
            to_numpy(rnn.read_out(seen)), expected[:, t], atol=1e-5
        )


@pytest.mark.backends("all")
@pytest.mark.parametrize("cell", ["lstm", "gru", "stacked", "nested"])
def test_keras_rnn_with_a_cell_that_holds_the_memory_gives_the_same(cell):
    x, memory, *_ = data()
    rnn = layer(("before", None, False), cell)
    rnn.attentions[0] = Attention(AdditiveScore(A, exact=True))
    expected = to_numpy(rnn(x, memory))

    class Cell(keras.layers.Layer):
        state_size = rnn.cell.state_size
        output_size = U + V

        def get_initial_state(self, batch_size=None):
            return rnn.cell.get_initial_state(batch_size=batch_size)

        def call(self, inputs, states):
            last = {"stacked": states[-1], "nested": states[-1][-1]}.get(cell, states)
            query = keras.tree.flatten(last)[0]
            context = rnn.attentions[0](query, ops.convert_to_tensor(memory))
            read = ops.concatenate([inputs, context], -1)
            output, new = rnn.cell(read, list(states))
            return ops.concatenate([output, context], -1), new

    found = keras.layers.RNN(Cell(), return_sequences=True)(x)
    np.testing.assert_allclose(to_numpy(found), expected, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_masked_memory_is_never_read(form):
    x, memory, key, hidden, _ = data()
    rnn = layer(form, "gru")
    one = rnn(x, memory, key, memory_mask=hidden)
    blank = np.where(hidden[:, :, None], 0, np.float32(1e4))
    other = rnn(x, memory + blank, key - blank, memory_mask=hidden)
    np.testing.assert_array_equal(to_numpy(one), to_numpy(other))


def test_nothing_to_attend_to():
    x, memory, key, hidden, _ = data()
    hidden[0] = False
    for form in FORMS:
        output, weights = layer(form)(
            x, memory, key, memory_mask=hidden, return_attention_scores=True
        )
        assert (to_numpy(weights)[0] == 0).all()
        assert np.isfinite(to_numpy(output)).all()
        if form[1] is None:
            assert (to_numpy(output)[0, :, U:] == 0).all()


@pytest.mark.backends("all")
@needs_training
def test_gradients_are_finite_where_all_is_hidden():
    x, memory, key, hidden, missing = data()
    hidden[0] = missing[1] = False
    for form in FORMS:
        rnn = layer(form, "lstm")
        rnn(x, memory, key)

        def loss(x, memory, key, rnn=rnn):
            y = rnn(x, memory, key, inputs_mask=missing, memory_mask=hidden)
            return ops.sum(y**2)

        dx, dmemory, dkey = gradient(loss, x, memory, key)
        assert all(np.isfinite(g).all() for g in (dx, dmemory, dkey))
        assert (dmemory[0] == 0).all()
        assert (dkey[0] == 0).all()
        assert (dx[1] == 0).all()
        assert (dx[0, :3] != 0).any()


@pytest.mark.backends("all")
def test_the_last_output_is_that_of_the_last_step_there_is():
    x, memory, key, _, missing = data()
    keras.utils.set_random_seed(0)
    all_of_them = layer(FORMS[0], "gru")
    rnn = AttentionRNN.from_config(
        {**all_of_them.get_config(), "return_sequences": False}
    )
    outputs = to_numpy(all_of_them(x, memory, key, inputs_mask=missing))
    rnn(x, memory, key)
    rnn.set_weights(all_of_them.get_weights())
    last = to_numpy(rnn(x, memory, key, inputs_mask=missing))
    np.testing.assert_allclose(last[0], outputs[0, 2], atol=1e-6)
    np.testing.assert_allclose(last[1], outputs[1, 4], atol=1e-6)


def test_several_attentions_over_one_memory_or_several():
    x, memory, key, hidden, _ = data()
    heads = [Attention(AdditiveScore(A)), Attention("general")]
    rnn = AttentionRNN(keras.layers.GRUCell(U), heads, return_sequences=True)
    output, weights = rnn(x, memory, memory_mask=hidden, return_attention_scores=True)
    assert tuple(output.shape) == (B, T, U + 2 * V)
    assert [tuple(w.shape) for w in weights] == [(B, T, S)] * 2
    rnn = AttentionRNN.from_config(rnn.get_config())
    other = key[:, :3]
    with record_attention() as maps:
        output, weights = rnn(
            x,
            [memory, other],
            memory_mask=[hidden, hidden[:, :3]],
            return_attention_scores=True,
        )
    assert tuple(output.shape) == (B, T, U + V + U)
    assert [tuple(w.shape) for w in weights] == [(B, T, S), (B, T, 3)]
    assert [m.shape for m in maps.values()] == [(B, T, S), (B, T, 3)]


@pytest.mark.backends("all")
@needs_training
def test_dropout_is_drawn_once_a_sequence():
    x, memory, key, *_ = data()
    keras.utils.set_random_seed(0)
    cell = keras.layers.SimpleRNNCell(U, dropout=0.5, seed=3)
    attention = Attention("dot", dropout=0.5, seed=1)
    rnn = AttentionRNN(cell, attention, return_sequences=True)
    calm = to_numpy(rnn(x, memory, key))
    np.testing.assert_array_equal(calm, to_numpy(rnn(x, memory, key)))
    wild = to_numpy(rnn(x, memory, key, training=True))
    assert not np.allclose(calm, wild)
    assert not np.allclose(wild, to_numpy(rnn(x, memory, key, training=True)))
    assert getattr(cell, "_dropout_mask", None) is None
    # The attention's own is drawn for each step: c of a step that sees one entry of
    # value 1 is 0 or 2.
    one = np.ones((1, 1, 1), "float32")
    rnn = AttentionRNN(
        keras.layers.SimpleRNNCell(1), Attention("dot", dropout=0.5, seed=1),
        return_sequences=True,
    )  # fmt: skip
    y = to_numpy(rnn(np.ones((1, 64, 1), "float32"), one, training=True))[0, :, 1]
    assert set(y.tolist()) == {0.0, 2.0}
    assert 16 < (y == 0).sum() < 48


@needs_training
def test_it_learns_to_copy_what_it_must_look_for():
    """Inputs say which entry is wanted; only attention can fetch it."""
    rng = np.random.default_rng(0)
    place = rng.integers(0, S, (512, T))
    x = np.eye(S, dtype="float32")[place]
    content = rng.integers(0, 5, (512, S))
    memory = np.concatenate(
        [np.eye(5)[content], np.broadcast_to(np.eye(S), (512, S, S))], -1
    ).astype("float32")
    labels = np.take_along_axis(content, place, 1)
    keras.utils.set_random_seed(0)
    inputs, entries = keras.Input((None, S)), keras.Input((None, 5 + S))
    rnn = AttentionRNN(
        keras.layers.GRUCell(16), Attention("general"), "after", return_sequences=True
    )
    logits = keras.layers.Dense(5)(rnn(inputs, entries))
    model = keras.Model([inputs, entries], logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss, metrics=["accuracy"])
    model.fit([x[:384], memory[:384]], labels[:384], epochs=12, verbose=0)
    _, accuracy = model.evaluate([x[384:], memory[384:]], labels[384:], verbose=0)
    assert accuracy > 0.95  # chance is 0.2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AttentionRNN(7, Attention()), "`cell` must be a Keras layer"),
        (lambda: AttentionRNN([], Attention()), "`cell` must be a Keras layer"),
        (
            lambda: AttentionRNN(keras.layers.LSTM(3), Attention()),
            "`cell` must be a cell, which takes one step",
        ),
        (
            lambda: AttentionRNN(keras.layers.LSTMCell(3), "dot"),
            "`attention` must be an attention layer.*Received: attention='dot'",
        ),
        (
            lambda: AttentionRNN(keras.layers.LSTMCell(3), Attention(), "between"),
            "`order` must be one of.*Received: order='between'",
        ),
        (
            lambda: AttentionRNN(
                keras.layers.LSTMCell(3), Attention(), input_feeding=True
            ),
            "`input_feeding` needs order='after'",
        ),
    ],
)
def test_constructor_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"memory": np.zeros((B, 0, U), "float32")},
            r"`memory` must hold at least one entry.*\(2, 0, 11\)",
        ),
        (
            {"memory": np.zeros((B, U), "float32")},
            r"`memory` must have shape \(batch, length, width\).*\(2, 11\)",
        ),
        (
            {"key": np.zeros((B, S + 1, U), "float32")},
            r"`key` and `memory` must have the same length.*key\.shape=\(2, 8, 11\)",
        ),
        (
            {"memory_mask": np.ones((B, S + 1), bool)},
            r"`memory_mask` must have shape \(2, 7\).*\(2, 8\)",
        ),
        (
            {"memory": np.zeros((B + 1, S, U), "float32"), "memory_mask": None},
            r"`inputs` and `memory` must have the same batch.*\(3, 7, 11\)",
        ),
        (
            {"inputs": np.zeros((B, U), "float32"), "inputs_mask": None},
            r"`inputs` must have shape \(batch, steps, width\).*\(2, 11\)",
        ),
        (
            {"inputs_mask": np.ones((B, T + 1), bool)},
            r"`inputs_mask` must have shape \(2, 5\)",
        ),
        (
            {"initial_state": [np.zeros((B, U), "float32")]},
            r"must hold the 2 state\(s\) of the cell, of widths \[11, 11\].*1 tensor",
        ),
        (
            {"initial_state": [np.zeros((B, U + 1), "float32")] * 2},
            r"`initial_state` must hold tensors of shapes.*Received:.*\(2, 12\)",
        ),
    ],
)
def test_call_errors(change, message):
    x, _, key, hidden, missing = data()
    rnn = layer(("before", None, False), "lstm")
    arguments = {"memory_mask": hidden, "inputs_mask": missing}
    arguments = {"inputs": x, "memory": key, **arguments, **change}
    if not arguments["memory"].shape[1]:
        arguments["memory_mask"] = None
    with pytest.raises(ValueError, match=message):  # as it is built
        rnn(**arguments)
    rnn = layer(("before", None, False), "lstm")
    rnn(x, key)
    with pytest.raises(ValueError, match=message):
        rnn(**arguments)


@pytest.mark.parametrize(
    "make",
    [
        lambda: BahdanauAttention(U, coverage=True),
        lambda: LuongAttention("dot", "local-m", window=2),
        lambda: LuongAttention("general", "local-p", window=2),
        lambda: MonotonicAttention(mode="recursive", inference_mode=None),
        lambda: MonotonicAttention(),
    ],
    ids=["coverage", "local-m", "local-p", "monotonic", "hard"],
)
@pytest.mark.parametrize("order", ["before", "after"])
def test_attention_that_has_a_state(make, order):
    x, _, key, hidden, _ = data()
    rnn = AttentionRNN(
        *(keras.layers.GRUCell(U), make(), order),
        return_sequences=True,
        return_state=True,
    )
    arguments = {"memory_mask": hidden, "return_attention_scores": True}
    output, *state, weights = rnn(x, key, **arguments)
    spec = rnn(*map(as_spec, (x, key)), **{**arguments, "memory_mask": None})
    for found, said in zip((output, *state, weights), spec, strict=True):
        assert tuple(found.shape) == tuple(said.shape)
        assert keras.backend.standardize_dtype(found.dtype) == said.dtype
    last, alphas = None, []
    for t in range(T):
        _, *last, alpha = rnn(x[:, t : t + 1], key, initial_state=last, **arguments)
        alphas.append(to_numpy(alpha))
    np.testing.assert_allclose(np.concatenate(alphas, 1), to_numpy(weights), atol=1e-5)
    for found, wanted in zip(last, state, strict=True):
        np.testing.assert_allclose(to_numpy(found), to_numpy(wanted), atol=1e-5)
    assert (to_numpy(weights)[~np.broadcast_to(hidden[:, None], (B, T, S))] == 0).all()


def as_spec(array):
    return keras.KerasTensor(array.shape, str(array.dtype))


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_functional_model_may_give_out_all_that_it_returns(order):
    rnn = AttentionRNN(
        keras.layers.GRUCell(U),
        BahdanauAttention(U),
        order,
        return_sequences=True,
        return_state=True,
    )
    inputs, memory = keras.Input((None, D)), keras.Input((None, V))
    found = rnn(inputs, memory, return_attention_scores=True)
    model = keras.Model([inputs, memory], found)
    x, memory, *_ = data()
    output, state, weights = (to_numpy(y) for y in model([x, memory]))
    assert output.shape == (B, T, U + V)
    assert state.shape == (B, U)
    np.testing.assert_allclose(weights.sum(-1), np.ones((B, T)), atol=1e-6)
    np.testing.assert_allclose(output[:, -1, :U], state, atol=1e-6)


@pytest.mark.backends("all")
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize(
    ("inner", "outer"), [("mixed_bfloat16", None), (None, "mixed_bfloat16")]
)
def test_an_attention_may_have_another_dtype(inner, outer, order):
    rnn = AttentionRNN(
        keras.layers.GRUCell(U, dtype=outer),
        Attention("general", dtype=inner),
        order,
        input_feeding=order == "after",
        return_sequences=True,
        dtype=outer,
    )
    arguments = {"memory": keras.Input((S, U)), "return_attention_scores": True}
    expected = rnn(keras.Input((T, U)), **arguments)
    x = ops.convert_to_tensor(np.ones((B, T, U), "float32"))
    memory = ops.convert_to_tensor(np.ones((B, S, U), "float32"))
    for one, spec in zip(rnn(x, memory, return_attention_scores=True), expected):
        assert keras.backend.standardize_dtype(one.dtype) == spec.dtype
