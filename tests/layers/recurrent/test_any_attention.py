"""`AttentionRNN` over any attention: ours with heads, Keras' own, a user's."""

import keras
import numpy as np
import pytest
from calling import few_compiled, needs_training
from gradients import to_numpy
from keras import ops

from keras_attention import layers, record_attention

B, T, S, D, U, V, A = 2, 3, 7, 3, 5, 5, 4


@keras.saving.register_keras_serializable("tests")
class MeanAttention(keras.layers.Layer):
    """A user's: the mean of what may be attended to, with Keras' call."""

    def call(
        self,
        query,
        value,
        key=None,
        attention_mask=None,
        return_attention_scores=False,
    ):
        weights = ops.ones_like(ops.matmul(query, ops.swapaxes(value, 1, 2)))
        if attention_mask is not None:
            weights = weights * ops.cast(attention_mask, weights.dtype)
        weights = weights / ops.maximum(ops.sum(weights, -1, keepdims=True), 1)
        output = ops.matmul(weights, value)
        return (output, weights) if return_attention_scores else output

    def compute_output_spec(self, query, value, key=None, **options):
        # On NumPy Keras would run `call` on memory that holds anything.
        output = keras.KerasTensor((*query.shape[:-1], value.shape[-1]), "float32")
        weights = keras.KerasTensor((*query.shape[:-1], value.shape[1]), "float32")
        return (output, weights) if options.get("return_attention_scores") else output


KINDS = {
    "heads": lambda: layers.MultiHeadAttention(2, 3),
    "hopfield": lambda: layers.Hopfield(2, 3, update_steps=2),
    "keras_heads": lambda: keras.layers.MultiHeadAttention(2, 3),
    "keras_additive": lambda: keras.layers.AdditiveAttention(),
    "users": lambda: MeanAttention(),
}
FORMS = {
    "before": {},
    "after": {"order": "after", "attention_units": A},
    "fed": {"order": "after", "attention_units": A, "input_feeding": True},
}


def make(kind, form="before", **more):
    keras.utils.set_random_seed(0)
    cell = keras.layers.SimpleRNNCell(U)
    options = {"return_sequences": True, **FORMS[form], **more}
    return layers.AttentionRNN(cell, KINDS[kind](), **options)


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(B, T, D)).astype("float32")
    memory = rng.normal(size=(B, S, V)).astype("float32")
    mask = np.ones((B, S), bool)
    mask[0, 4:] = mask[1, 1] = False
    return x, memory, mask


def ask(layer, query, memory, mask):
    """Output and weights of a layer's own call, of one query (B, U)."""
    query = ops.convert_to_tensor(query[:, None].astype("float32"))
    memory, mask = ops.convert_to_tensor(memory), ops.convert_to_tensor(mask)
    if isinstance(layer, keras.layers.Attention):
        given = {"mask": [None, mask], "return_attention_scores": True}
        output, weights = layer([query, memory, memory], **given)
    else:
        given = {"attention_mask": mask[:, None], "return_attention_scores": True}
        output, weights = layer(query, memory, **given)
    return to_numpy(output)[:, 0], np.take(to_numpy(weights), 0, axis=-2)


def by_steps(rnn, x, memory, mask):
    """The equations of the layer in NumPy, around the attention's own call."""
    kernel, recurrent, bias = (np.float64(w) for w in rnn.cell.get_weights())
    combine = None if rnn.combine is None else np.float64(rnn.combine.get_weights()[0])
    (attention,) = rnn.attentions
    state, fed = np.zeros((B, U)), np.zeros((B, A))
    outputs, weights = [], []
    for t in range(T):
        read = [x[:, t]]
        if rnn.order == "before":
            context, alpha = ask(attention, state, memory, mask)
            read.append(context)
        elif rnn.input_feeding:
            read.append(fed)
        state = np.tanh(np.concatenate(read, -1) @ kernel + state @ recurrent + bias)
        if rnn.order == "after":
            context, alpha = ask(attention, state, memory, mask)
        if combine is None:
            outputs.append(np.concatenate([state, context], -1))
        else:
            fed = np.tanh(np.concatenate([context, state], -1) @ combine)
            outputs.append(fed)
        weights.append(alpha)
    return np.stack(outputs, 1), np.stack(weights, -2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_attention_called_step_by_step(kind, form):
    x, memory, mask = data()
    rnn = make(kind, form)
    given = {"memory_mask": mask, "return_attention_scores": True}
    output, weights = rnn(x, memory, **given)
    outputs, alphas = by_steps(rnn, x, memory, mask)
    np.testing.assert_allclose(to_numpy(output), outputs, atol=1e-5)
    np.testing.assert_allclose(to_numpy(weights), alphas, atol=1e-5)
    # Where nobody asks for the weights, outputs are the same.
    plain = rnn(x, memory, memory_mask=mask)
    np.testing.assert_allclose(to_numpy(plain), outputs, atol=1e-5)
    with record_attention() as maps:
        rnn(x, memory, memory_mask=mask)
    np.testing.assert_allclose(maps[rnn.path], alphas, atol=1e-5)


@pytest.mark.parametrize("form", ["before", "after"])
@pytest.mark.parametrize("kind", KINDS)
def test_shapes_are_as_said(kind, form):
    x, memory, _ = data()
    rnn = make(kind, form, return_state=True)
    specs = [keras.KerasTensor(a.shape, "float32") for a in (x, memory)]
    said = rnn(*specs, return_attention_scores=True)
    found = rnn(x, memory, return_attention_scores=True)
    for one, spec in zip(found, said, strict=True):
        assert tuple(one.shape) == tuple(spec.shape)
    heads = kind in ("heads", "hopfield", "keras_heads")
    assert tuple(found[-1].shape) == ((B, 2, T, S) if heads else (B, T, S))


@pytest.mark.parametrize("kind", KINDS)
def test_masked_memory_is_never_read(kind):
    x, memory, mask = data()
    rnn = make(kind)
    one = to_numpy(rnn(x, memory, memory_mask=mask))
    other = memory + np.where(mask[..., None], 0, np.float32(1e4))
    np.testing.assert_array_equal(to_numpy(rnn(x, other, memory_mask=mask)), one)
    # Where nothing may be attended to, and in steps that are masked, all is 0.
    mask[0] = False
    steps = np.ones((B, T), bool)
    steps[1, 2] = False
    given = {"memory_mask": mask, "inputs_mask": steps}
    output, weights = rnn(x, memory, **given, return_attention_scores=True)
    output, weights = to_numpy(output), to_numpy(weights)
    assert np.isfinite(output).all()
    assert (output[0, :, U:] == 0).all()
    assert (weights[0] == 0).all()
    assert (output[1, 2] == 0).all()
    assert (weights[1, ..., 2, :] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_holds_the_attention_itself(kind, tmp_path):
    x, memory, _ = data()
    inputs, entries = keras.Input((None, D)), keras.Input((None, V))
    rnn = make(kind, "fed")
    model = keras.Model([inputs, entries], rnn(inputs, entries))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    (attention,) = again.layers[-1].attentions
    assert type(attention) is type(rnn.attentions[0])
    np.testing.assert_allclose(
        again.predict([x, memory], verbose=0),
        model.predict([x, memory], verbose=0),
        rtol=1e-6,
    )


@pytest.mark.backends("all")
@needs_training
@few_compiled(("kind", "form"), [("heads", "fed"), ("keras_heads", "before")])
def test_all_weights_learn_in_a_compiled_fit(kind, form):
    x, memory, mask = data()
    inputs, entries = keras.Input((T, D)), keras.Input((S, V))
    there = keras.Input((S,), dtype="bool")
    outputs = make(kind, form)(inputs, entries, memory_mask=there)
    model = keras.Model([inputs, entries, there], outputs)
    model.compile("sgd", "mse")
    before = [to_numpy(w.value) for w in model.trainable_weights]
    model.fit([x, memory, mask], np.ones((B, *outputs.shape[1:])), verbose=0)
    for old, weight in zip(before, model.trainable_weights):
        # A bias of keys moves all scores of a query alike: no weight changes.
        if "key/bias" not in weight.path:
            assert (to_numpy(weight.value) != old).any(), weight.path


@needs_training
def test_dropout_of_heads_is_drawn_before_the_loop_and_that_of_keras_refused():
    x, memory, _ = data()
    cell = keras.layers.SimpleRNNCell(U)
    attention = layers.MultiHeadAttention(2, 3, dropout=0.5, seed=1)
    rnn = layers.AttentionRNN(cell, attention, return_sequences=True)
    one, other = (to_numpy(rnn(x, memory, training=True)) for _ in range(2))
    assert (one != other).any()
    theirs = keras.layers.MultiHeadAttention(2, 3, dropout=0.5)
    rnn = layers.AttentionRNN(keras.layers.SimpleRNNCell(U), theirs)
    assert tuple(rnn(x, memory).shape) == (B, 2 * U)
    with pytest.raises(ValueError, match="`attention` must have no dropout"):
        rnn(x, memory, training=True)


def test_a_list_may_hold_layers_of_all_kinds():
    x, memory, mask = data()
    attentions = [make() for make in KINDS.values()] + [layers.BahdanauAttention(4)]
    rnn = layers.AttentionRNN(
        keras.layers.GRUCell(U), attentions, return_sequences=True
    )
    output, weights = rnn(x, memory, memory_mask=mask, return_attention_scores=True)
    assert tuple(output.shape) == (B, T, U + 6 * V)
    assert [len(w.shape) for w in weights] == [4, 4, 4, 3, 3, 3]
    again = layers.AttentionRNN.from_config(rnn.get_config())
    again(x, memory)
    again.set_weights(rnn.get_weights())
    np.testing.assert_allclose(
        to_numpy(again(x, memory, memory_mask=mask)), to_numpy(output), atol=1e-5
    )
    with pytest.raises(ValueError, match="`attention` must be an attention layer"):
        layers.AttentionRNN(keras.layers.GRUCell(U), [keras.layers.Dense(3)])
