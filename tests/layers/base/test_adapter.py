"""Keras layers, and a user's own, under the protocol of attention layers."""

import json
import zipfile

import keras
import numpy as np
import pytest
import references
from calling import carries_masks, few_compiled, needs_training
from gradients import tensor, to_numpy
from heads import UsersAttention, compare
from keras import ops

from keras_attention import layers, record_attention
from keras_attention.layers.base.adapter import KerasAttention, as_attention

B, T, S, D = 2, 3, 5, 7
IS_VALID = np.ones((B, S), bool)  # of the memory; the second one is empty
IS_VALID[0, [1, 3]] = IS_VALID[1] = False


@keras.saving.register_keras_serializable("tests")
class OfAList(keras.layers.Layer):
    """As a user writes one with the call of `keras.layers.Attention`."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs, mask=None, return_attention_scores=False):
        query, value, key = inputs
        of_values = mask[1] if mask else None  # Keras itself may hand over [None] * 3
        if of_values is not None:
            of_values = ops.expand_dims(of_values, 1)
        weights = compare(query, key, of_values)
        output = ops.matmul(weights, value)
        return (output, weights) if return_attention_scores else output


@keras.saving.register_keras_serializable("tests")
class Bare(keras.layers.Layer):
    """It can neither be masked nor say where it attends."""

    def call(self, query, value, key=None):
        return ops.matmul(compare(query, key, None), value)


class Failing(UsersAttention):
    def call(self, query, value, key=None, attention_mask=None):
        raise ArithmeticError("of the user")


FOUND = {
    "MultiHeadAttention": lambda: keras.layers.MultiHeadAttention(2, 3),
    "GroupQueryAttention": lambda: keras.layers.GroupQueryAttention(3, 4, 2),
    "Attention": lambda: keras.layers.Attention(use_scale=True),
    "AdditiveAttention": lambda: keras.layers.AdditiveAttention(),
    "UsersAttention": UsersAttention,
    "OfAList": OfAList,
}
HEADS = {"MultiHeadAttention": 2, "GroupQueryAttention": 4}
LISTS = ("Attention", "AdditiveAttention", "OfAList")
every = pytest.mark.parametrize("name", FOUND)


def inputs(width=D):
    return [*map(tensor, references.normals((B, T, D), *[(B, S, width)] * 2))]


def built(name):
    """A layer with random weights, and its adapter."""
    layer = FOUND[name]()
    adapter = as_attention(layer)
    assert not adapter.built or not layer.weights
    adapter.build((B, T, D), (B, S, D))
    rng = np.random.default_rng(7)
    layer.set_weights([rng.normal(size=w.shape) for w in layer.weights])
    return layer, adapter


def directly(layer, name, query, value, key, mask=None):
    """The layer's own call."""
    more = {"return_attention_scores": True}
    if name in LISTS:
        hidden = {} if mask is None else {"mask": [None, mask]}
        return layer([query, value, key], **hidden, **more)
    if mask is not None:
        mask = np.broadcast_to(np.asarray(mask)[:, None], (B, T, S))
        mask = ops.convert_to_tensor(mask)
    return layer(query, value, key=key, attention_mask=mask, **more)


def assert_close(found, expected):
    assert tuple(found.shape) == tuple(expected.shape)
    np.testing.assert_allclose(
        to_numpy(found), to_numpy(expected), rtol=1e-5, atol=1e-6
    )


@every
def test_found_without_being_asked_for(name):
    layer = FOUND[name]()
    adapter = as_attention(layer)
    assert isinstance(adapter, KerasAttention)
    assert adapter.layer is layer
    assert adapter.name == layer.name


def test_one_of_ours_is_taken_as_it_is():
    for layer in (layers.Attention(), layers.MultiHeadAttention(2, 3)):
        assert as_attention(layer) is layer


@pytest.mark.parametrize(
    "given",
    [
        keras.layers.Dense(3),
        keras.layers.GRUCell(3),
        "dot",
        None,
        len,
        # Of this package, with a call like that of keras.layers.Attention.
        layers.AttentionPooling(),
        layers.HopfieldPooling(),
        layers.HopfieldLayer(3),
        layers.TransformerEncoderBlock(2, 8),
    ],
    ids=str,
)
def test_what_is_no_attention_is_refused(given):
    with pytest.raises(ValueError, match="`look` must be an attention layer") as error:
        as_attention(given, "look")
    assert f"Received: look={given!r}" in str(error.value)
    assert "keras.layers.MultiHeadAttention" in str(error.value)


def test_a_class_is_no_layer():
    with pytest.raises(ValueError, match=r"`look` .*not a class: pass an instance"):
        as_attention(keras.layers.MultiHeadAttention, "look")


@every
def test_it_computes_what_the_layer_computes(name):
    layer, adapter = built(name)
    query, value, key = inputs()
    mask = ops.convert_to_tensor(np.concatenate([IS_VALID[:1]] * B))
    expected = directly(layer, name, query, value, key, mask)
    found = adapter(query, value, key, value_mask=mask, return_attention_scores=True)
    for one, other in zip(found, expected):
        assert_close(one, other)
    alone = adapter(query, value, key, key_mask=mask)
    assert_close(alone, expected[0])
    assert tuple(found[1].shape) == adapter.weights_shape(B, T, S)
    heads = (HEADS[name],) if name in HEADS else ()
    assert tuple(found[1].shape) == (B, *heads, T, S)
    assert adapter.output_width(D, D) == expected[0].shape[-1]
    by_itself = adapter(query, value, return_attention_scores=True)
    for one, other in zip(by_itself, directly(layer, name, query, value, value)):
        assert_close(one, other)


@every
def test_rows_with_nothing_to_attend_to_give_zero(name):
    _, adapter = built(name)
    query, value, key = inputs()
    mask = ops.convert_to_tensor(IS_VALID)
    output, weights = adapter(
        query, value, key, value_mask=mask, return_attention_scores=True
    )
    assert np.isfinite(to_numpy(output)).all()
    assert not to_numpy(output[1]).any()
    assert not to_numpy(weights[1]).any()
    assert not to_numpy(weights)[0][..., ~IS_VALID[0]].any()
    np.testing.assert_allclose(to_numpy(weights[0]).sum(-1), 1, atol=1e-6)
    asked = ops.convert_to_tensor(np.array([[True, False, True]] * B))
    output, weights = adapter(
        query, value, query_mask=asked, return_attention_scores=True
    )
    assert not to_numpy(output[:, 1]).any()
    assert not to_numpy(weights)[..., 1, :].any()
    assert to_numpy(output[:, 0]).any()


@every
def test_a_memory_is_prepared_once(name):
    """`attend`, with T queries and with one, is the call."""
    _, adapter = built(name)
    query, value, key = inputs()
    mask = ops.convert_to_tensor(IS_VALID)
    expected = adapter(query, value, key, value_mask=mask, return_attention_scores=True)
    prepared = adapter.prepare(value, key, mask)
    assert adapter.initial_state(prepared) == ()
    assert adapter.state_shapes((B, S)) == []
    *found, state = adapter.attend(query, prepared)
    assert state == ()
    for one, other in zip(found, expected):
        assert_close(one, other)
    output, weights, _ = adapter.attend(query[:, 1], prepared)
    assert_close(output, expected[0][:, 1])
    assert_close(weights, expected[1][..., 1, :])
    assert_close(adapter.context(query[:, 1], prepared)[0], expected[0][:, 1])
    with record_attention() as maps:
        adapter.context(query, prepared)
        adapter(query, value, key)
    assert all(x.shape == adapter.weights_shape(B, T, S) for x in maps.values())
    assert len(maps) == 2


@every
def test_steps_are_causal_self_attention(name):
    """A prompt at once, then one position; the first of the second is padding."""
    if name == "OfAList":
        pytest.skip("its call has no argument `use_causal_mask` to compare with")
    _, adapter = built(name)
    query = inputs()[0]
    mask = np.ones((B, T), bool)
    mask[1, 0] = False
    given = ops.convert_to_tensor(mask)
    expected = adapter(
        query, query, query_mask=given, value_mask=given, use_causal_mask=True
    )
    cache = adapter.initial_cache(B, T + 2, D)
    first, cache = adapter.step(query[:, :2], cache, 0, given[:, :2])
    last, cache = adapter.step(query[:, 2], cache, 2, given[:, 2])
    found = ops.concatenate([first, last[:, None]], axis=1)
    for b in range(B):
        np.testing.assert_allclose(
            to_numpy(found)[b, mask[b]], to_numpy(expected)[b, mask[b]], atol=1e-5
        )
    with pytest.raises(ValueError, match="The argument `width` must be"):
        adapter.initial_cache(B, T)


KINDS = {
    "MultiHeadAttention": lambda w: keras.layers.MultiHeadAttention(
        2, 3, sliding_window=w
    ),
    "GroupQueryAttention": lambda w: keras.layers.GroupQueryAttention(
        3, 4, 2, sliding_window=w
    ),
}


def in_window(name, window):
    """The adapter of a layer of Keras with a sliding window."""
    adapter = as_attention(KINDS[name](window))
    adapter.build((B, T, D), (B, S, D))
    return adapter


@pytest.mark.parametrize("window", [1, 2, 3, 9])
@pytest.mark.parametrize("name", KINDS)
def test_steps_count_positions_in_a_window(name, window):
    """A prompt of two, then a step each, in a cache with padding."""
    adapter, x = in_window(name, window), inputs()[1]
    given = np.ones((B, S), bool)
    given[1, 0] = False
    given = ops.convert_to_tensor(given)
    with record_attention() as maps:
        expected = adapter(x, x, value_mask=given, use_causal_mask=True)
        cache = adapter.initial_cache(B, 13, D)
        found, cache = adapter.step(x[:, :2], cache, 0, given[:, :2])
        found = [found[:, 0], found[:, 1]]
        for t in range(2, S):
            output, cache = adapter.step(x[:, t], cache, t, given[:, t])
            found.append(output)
    np.testing.assert_allclose(
        to_numpy(ops.stack(found, 1)), to_numpy(expected), atol=1e-5
    )
    whole, prompt, *steps = maps.values()
    rows = [prompt, *(x[..., None, :] for x in steps)]
    rows = np.concatenate(rows, axis=2)  # (B, H, S, 13)
    assert not rows[..., S:].any()
    np.testing.assert_allclose(rows[..., :S], whole, atol=1e-6)


@pytest.mark.parametrize("window", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("name", KINDS)
def test_a_loop_counts_positions_in_a_window(name, window):
    """Queries of a recurrent decoder, of which the last are past the memory."""
    adapter = in_window(name, window)
    query = tensor(references.normal(B, S + 6, D))
    value = inputs()[1]
    mask = ops.convert_to_tensor(IS_VALID)
    expected = adapter(query, value, value_mask=mask, return_attention_scores=True)
    near = abs(np.arange(S + 6)[:, None] - np.arange(S)) < window
    seen = near & IS_VALID[:, None]
    assert not to_numpy(expected[1])[
        ~np.broadcast_to(seen[:, None], expected[1].shape)
    ].any()
    assert not to_numpy(expected[0])[~seen.any(-1)].any()
    prepared = adapter.prepare(value, mask=mask)
    state, found = adapter.initial_state(prepared), []
    assert [tuple(state.shape)] == adapter.state_shapes((B, S)) == [(B,)]
    for t in (0, slice(1, 4), *range(4, S + 6)):
        rows = t if isinstance(t, slice) else slice(t, t + 1)
        *both, state = adapter.attend(query[:, rows], prepared, state)
        found.append(both)
    for index, axis in ((0, 1), (1, 2)):
        steps = ops.concatenate([both[index] for both in found], axis=axis)
        np.testing.assert_allclose(
            to_numpy(steps), to_numpy(expected[index]), atol=1e-5
        )


@keras.saving.register_keras_serializable("tests")
class OneSided(keras.layers.MultiHeadAttention):
    """Uses the window in a way of its own."""

    def _compute_sliding_window_mask(self, query, value=None):
        return super()._compute_sliding_window_mask(query, value)


def test_the_window_of_another_class_takes_no_steps():
    block = layers.TransformerEncoderBlock(
        intermediate_dim=8, attention=OneSided(2, 3, sliding_window=2)
    )
    x = inputs()[0]
    assert tuple(block(x, use_causal_mask=True).shape) == (B, T, D)
    refusal = "cannot attend step by step.*sliding_window=2 of OneSided"
    with pytest.raises(ValueError, match=refusal):
        block.step(x, block.initial_cache(B, T), 0)
    rnn = layers.AttentionRNN(keras.layers.GRUCell(D), OneSided(2, 3, sliding_window=2))
    with pytest.raises(ValueError, match=refusal):
        rnn(x, inputs()[1])


@carries_masks
@pytest.mark.backends("all")  # each backend's tensors hold masks in their own way
@few_compiled("name", ["MultiHeadAttention", "AdditiveAttention"])
def test_masks_of_inputs_are_left_as_they_were(name):
    embedding = keras.layers.Embedding(5, D, mask_zero=True)
    query = embedding(np.array([[1, 2, 0]] * B))
    value = embedding(np.array([[1, 0, 3, 0, 2]] * B))
    held = [query._keras_mask, value._keras_mask]
    _, adapter = built(name)
    _, weights = adapter(query, value, return_attention_scores=True)
    assert query._keras_mask is held[0]
    assert value._keras_mask is held[1]
    # What they say is for the holder to hand over: nothing is masked twice, or by half.
    assert to_numpy(weights).all()
    failing = as_attention(Failing())
    failing.build((B, T, D), (B, S, D))
    with pytest.raises(ArithmeticError, match="of the user"):
        failing(query, value)
    assert query._keras_mask is held[0]
    assert value._keras_mask is held[1]


def test_dropout_inside_a_loop_is_refused():
    kinds = keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention
    dropping = [
        kinds[0](2, 3, dropout=0.5),
        kinds[1](3, 4, 2, dropout=0.5),
        keras.layers.Attention(dropout=0.5),
        keras.layers.AdditiveAttention(dropout=0.5),
    ]
    for layer in dropping:
        adapter = as_attention(layer)
        adapter.build((B, T, D), (B, S, D))
        assert adapter.sample((B, T, S), False) is None
        assert adapter.sample((B, T, S), None) is None
        with pytest.raises(ValueError, match="no dropout inside a loop") as error:
            adapter.sample((B, T, S), True)
        assert layer.name in str(error.value)
    for name in FOUND:
        assert built(name)[1].sample((B, T, S), True) is None
    rnn = layers.AttentionRNN(keras.layers.GRUCell(D), dropping[0])
    query, memory, _ = inputs()
    rnn(query, memory)
    with pytest.raises(ValueError, match="no dropout inside a loop"):
        rnn(query, memory, training=True)


@every
def test_a_file_holds_the_layer_and_not_the_adapter(name, tmp_path):
    x, memory = keras.Input((None, D)), keras.Input((None, D))
    attention = FOUND[name]()
    rnn = layers.AttentionRNN(keras.layers.GRUCell(D), attention)
    model = keras.Model([x, memory], rnn(x, memory))
    model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        text = archive.read("config.json").decode()
    assert "KerasAttention" not in text
    saved = next(
        layer["config"]["attention"]
        for layer in json.loads(text)["config"]["layers"]
        if layer["class_name"] == "AttentionRNN"
    )
    config = keras.saving.serialize_keras_object(attention)
    assert saved["class_name"] == config["class_name"]
    if name in ("UsersAttention", "OfAList"):
        assert saved["registered_name"] == f"tests>{name}"
    else:
        assert saved["module"] == "keras.layers"
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    query, value, _ = inputs()
    assert_close(loaded([query, value]), model([query, value]))
    paths = [w.path.split("/", 1)[1] for w in model.weights]
    assert [w.path.split("/", 1)[1] for w in loaded.weights] == paths


def test_what_a_layer_cannot_do_is_said():
    query, value, key = inputs()
    bare = as_attention(Bare(name="bare"))
    assert tuple(bare(query, value, key).shape) == (B, T, D)
    with pytest.raises(ValueError, match="'bare' cannot be masked"):
        bare(query, value, value_mask=ops.convert_to_tensor(IS_VALID))
    with pytest.raises(ValueError, match="'bare' cannot return its weights"):
        bare(query, value, return_attention_scores=True)
    _, listed = built("AdditiveAttention")
    with pytest.raises(ValueError, match="`attention_mask` must be None"):
        listed(query, value, attention_mask=ops.ones((T, S), "bool"))
    unbuilt = as_attention(keras.layers.MultiHeadAttention(2, 3))
    with pytest.raises(RuntimeError, match="needs a layer that is built"):
        unbuilt.prepare(value)


def test_values_may_be_of_another_width():
    adapter = as_attention(keras.layers.MultiHeadAttention(2, 3))
    adapter.build((B, T, D), (B, S, 11), (B, S, 13))
    query, value, key = inputs()[0], inputs(11)[1], inputs(13)[2]
    assert tuple(adapter(query, value, key).shape) == (B, T, D)
    assert adapter.output_width(D, 11) == D


@keras.saving.register_keras_serializable("tests")
class Infinite(keras.layers.Layer):
    """Hides keys by −∞, so that a fully masked row is NaN, as is its gradient."""

    def call(self, query, value, key=None, attention_mask=None):
        key = value if key is None else key
        scores = ops.matmul(query, ops.swapaxes(key, 1, 2))
        if attention_mask is not None:
            scores = ops.where(attention_mask, scores, -np.inf)
        return ops.matmul(ops.softmax(scores), value)


@pytest.mark.backends("all")
@needs_training
def test_hidden_rows_have_no_gradient():
    inputs = keras.Input((S, 8))
    mask = keras.Input((S,), dtype="bool")
    block = layers.TransformerEncoderBlock(intermediate_dim=8, attention=Infinite())
    model = keras.Model([inputs, mask], block(inputs, mask=mask))
    model.compile("sgd", "mse")
    x = references.normal(B, S, 8).astype("float32")
    model.fit([x, IS_VALID], x, verbose=0)  # the second row is fully masked
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert np.isfinite(model.predict([x, IS_VALID], verbose=0)).all()


@pytest.mark.parametrize("name", ["MultiHeadAttention", "Attention"])
def test_a_full_cache_is_refused(name):
    _, adapter = built(name)
    cache = adapter.initial_cache(B, 2, D)
    x = inputs()[1][:, :2]
    _, cache = adapter.step(x, cache, 0)
    with pytest.raises(ValueError, match="`cache` is full: it has 2 places"):
        adapter.step(x[:, 0], cache, 2)
    with pytest.raises(ValueError, match="must not be longer than the cache"):
        adapter.step(ops.tile(x, (1, 2, 1)), cache, 0)


def test_a_prompt_is_one_call(monkeypatch):
    _, adapter = built("MultiHeadAttention")
    calls = []
    monkeypatch.setattr(adapter, "_attend", counted(adapter._attend, calls))
    adapter.step(inputs()[1], adapter.initial_cache(B, S, D), 0)
    assert len(calls) == 1


def counted(function, calls):
    def wrapper(*arguments):
        calls.append(1)
        return function(*arguments)

    return wrapper


@pytest.mark.parametrize("name", ["Attention", "AdditiveAttention"])
def test_widths_that_keras_cannot_compare_are_refused(name):
    rnn = layers.AttentionRNN(keras.layers.GRUCell(4), FOUND[name]())
    with pytest.raises(ValueError, match="`query` and `key` must have the same width"):
        rnn(*inputs()[:2])
