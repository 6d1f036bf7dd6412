"""A mask that survives layers that drop it, and the warning where none does."""

import warnings

import keras
import numpy as np
import pytest
from calling import carries_masks, few_compiled
from gradients import to_numpy
from keras import ops

from keras_attention import layers
from keras_attention.layers import Attention, AttentionRNN, KeepMask

UNITS = 5
TOKENS = np.array([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0]])
PADDING = TOKENS == 0


@keras.saving.register_keras_serializable("tests")
class Scaled(keras.layers.Layer):
    """A layer of a user, who has not thought of masks."""

    def call(self, x):
        return 2 * x


@keras.saving.register_keras_serializable("tests")
class Mixed(Scaled):
    def build(self, shapes):
        self.built = True

    def call(self, inputs):
        return inputs[0] + inputs[1]


def loop(kind=keras.layers.LSTM, **options):
    return kind(UNITS, return_sequences=True, **options)


def both_ways(kind=keras.layers.GRU, merge_mode="concat", **options):
    return keras.layers.Bidirectional(loop(kind, **options), merge_mode=merge_mode)


CELLS = [keras.layers.GRUCell, keras.layers.LSTMCell]
# Each layer, and which of its outputs carry the mask
KEEPING = {
    "lstm": (loop, "+"),
    "lstm_states": (lambda: loop(return_state=True), "+--"),
    "stack": (
        lambda: keras.layers.RNN([c(UNITS) for c in CELLS], return_sequences=True),
        "+",
    ),
    "bidirectional": (both_ways, "+"),
    "bidirectional_states": (lambda: both_ways(return_state=True), "+--"),
    "bidirectional_apart": (lambda: both_ways(merge_mode=None), "++"),
    "time_distributed": (
        lambda: keras.layers.TimeDistributed(keras.layers.Dense(UNITS)),
        "+",
    ),
    "convolution": (lambda: keras.layers.Conv1D(UNITS, 3, padding="same"), "+"),
    "own": (Scaled, "+"),
}


def embedded(length=None):
    words = keras.Input((length,), dtype="int32")
    return words, keras.layers.Embedding(9, UNITS, mask_zero=True)(words)


def reader(layer):
    """A model from tokens to the weights of attention to what a layer returns."""
    words, x = embedded()
    states = keras.tree.flatten(layer(x))[0]
    _, weights = Attention()(states, states, return_attention_scores=True)
    return keras.Model(words, weights)


@carries_masks
@pytest.mark.backends("all")
@few_compiled("name", KEEPING)
def test_no_weight_on_padding_also_after_loading(name, tmp_path):
    model = reader(KeepMask(KEEPING[name][0]()))
    weights = to_numpy(model(TOKENS))
    assert (weights[np.broadcast_to(PADDING[:, None], weights.shape)] == 0).all()
    np.testing.assert_allclose(weights.sum(-1)[~PADDING], 1, atol=1e-5)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(to_numpy(again(TOKENS)), weights)


@carries_masks
@pytest.mark.parametrize("name", KEEPING)
def test_numbers_are_those_of_the_layer(name):
    make, carrying = KEEPING[name]
    x = keras.layers.Embedding(9, UNITS, mask_zero=True)(TOKENS)
    wrapper = KeepMask(make())
    returned = keras.tree.flatten(wrapper(x))
    options = {"mask": x._keras_mask} if "mask" in wrapper._accepted else {}
    for ours, theirs, sign in zip(
        returned, keras.tree.flatten(wrapper.layer(x, **options)), carrying
    ):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))
        carried = getattr(ours, "_keras_mask", None)
        assert (carried is not None) == (sign == "+")
    assert x._keras_mask is not None
    other = KeepMask.from_config(wrapper.get_config())
    assert other.get_config() == wrapper.get_config()


def test_mask_state_and_training_reach_the_layer():
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    mask = ops.convert_to_tensor(~PADDING)
    wrapper = KeepMask(loop(return_state=True, dropout=0.9))
    states = [ops.ones((2, UNITS))] * 2
    plain = wrapper.layer(x, initial_state=states, mask=mask)
    kept = wrapper(x, initial_state=states, mask=mask)
    for ours, theirs in zip(kept, plain):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))
    assert np.abs(to_numpy(wrapper(x)[0]) - to_numpy(kept[0])).max() > 0.01
    trained = wrapper(x, initial_state=states, mask=mask, training=True)
    assert np.abs(to_numpy(trained[0]) - to_numpy(kept[0])).max() > 0.01


@carries_masks
def test_a_carried_mask_is_kept_beside_a_state():
    x = keras.layers.Embedding(9, UNITS, mask_zero=True)(TOKENS)
    wrapper = KeepMask(loop())
    states = [ops.zeros((2, UNITS))] * 2  # with which Keras' loop ignores the mask
    np.testing.assert_array_equal(
        to_numpy(wrapper(x, initial_state=states)), to_numpy(wrapper(x))
    )


@carries_masks
def test_a_list_of_inputs_has_the_mask_of_the_first():
    words, x = embedded()
    mixed = KeepMask(Mixed())([x, keras.layers.Dense(UNITS)(x)])
    pooled = keras.layers.GlobalAveragePooling1D()(mixed)
    model = keras.Model(words, pooled)
    longer = np.pad(TOKENS, ((0, 0), (0, 2)))
    np.testing.assert_allclose(
        to_numpy(model(longer)), to_numpy(model(TOKENS)), atol=1e-6
    )


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: 3, "`layer` must be a layer. Received: layer=3"),
        (lambda: keras.layers.GRU(5), "set return_sequences=True"),
        (lambda: loop(go_backwards=True), "set go_backwards=False"),
        (lambda: keras.layers.Conv1D(5, 3), "must keep time"),
        (lambda: keras.layers.Conv1D(5, 3, 2, padding="same"), "must keep time"),
        (keras.layers.Flatten, "must keep time"),
        (layers.AttentionPooling, "must keep time"),
        (lambda: layers.HopfieldPooling(UNITS), "must keep time"),
    ],
)
def test_layers_that_do_not_keep_time_are_refused(make, error):
    with pytest.raises(ValueError, match=error):
        KeepMask(make())(np.ones((2, 7, 3), "float32"), mask=np.ones((2, 7), bool))


def cell_over(memory):
    rnn = AttentionRNN(keras.layers.GRUCell(UNITS), Attention())
    return rnn(keras.Input((None, 3)), memory)


READERS = {
    "value": lambda x: Attention(name="it")(x, x),
    "key": lambda x: layers.MultiHeadAttention(1, 2)(keras.Input((None, UNITS)), x),
    "inputs": lambda x: layers.AttentionPooling()(x),
    "memory": cell_over,
}
DROPS = "ignore:Layer .* does not support masking:UserWarning"  # Keras, of the layer


@pytest.mark.filterwarnings(DROPS)
@pytest.mark.parametrize("name", READERS)
def test_a_lost_mask_is_named(name):
    _, x = embedded()
    lost = keras.layers.Dense(UNITS)(keras.layers.Dropout(0.1)(Scaled()(x)))
    name = "value" if name == "key" else name
    message = rf"`{name}` of layer .* \(Scaled\) drops"
    with pytest.warns(UserWarning, match=message) as warned:
        READERS[name](lost)
    assert [w.filename for w in warned if "drops" in str(w.message)] == [__file__]


@pytest.mark.filterwarnings(DROPS)
def test_no_mask_was_lost():
    words, x = embedded()
    lost = Scaled()(x)
    READERS["value"](x)
    READERS["memory"](x)
    READERS["value"](KeepMask(Scaled())(x))
    READERS["value"](Scaled()(keras.Input((None, UNITS))))  # none was there
    Attention()(lost, lost, value_mask=ops.not_equal(words, 0))
    Attention()(lost, lost, attention_mask=keras.Input((None, None), dtype="bool"))
    Attention()(lost, x)  # the mask of queries changes no weight
    READERS["value"](keras.layers.Conv1D(4, 3)(Scaled()(embedded(7)[1])))


@carries_masks
def test_every_recurrent_layer_of_keras_passes_its_mask_or_is_named():
    """Keras 3.15 passes it; Keras 3.16 does not, so a warning says what to do."""
    for make in (loop, both_ways, KEEPING["time_distributed"][0]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = reader(make())
            weights = to_numpy(model(TOKENS))
        on_padding = weights[np.broadcast_to(PADDING[:, None], weights.shape)].max()
        assert (on_padding == 0) != any("KeepMask" in str(w.message) for w in caught)


def test_its_dtype_is_that_of_the_layer():
    """Another dtype would cast the input of a layer that computes in its dtype."""
    wrapper = KeepMask(loop(dtype="mixed_float16"), dtype=None)
    assert wrapper.compute_dtype == "float16"
    assert KeepMask.from_config(wrapper.get_config()).compute_dtype == "float16"
    with pytest.raises(ValueError, match=r"`dtype` must be that of `layer`.*float64"):
        KeepMask(loop(), dtype="float64")
