"""Scheduled sampling: between teacher forcing and reading what it wrote itself."""

import keras
import numpy as np
import pytest
import references
from calling import few_compiled
from gradients import gradient, to_numpy
from keras import ops
from writing import sharper

from keras_attention import layers, record_attention

B, T, S, D, V, U, WORDS = 3, 5, 7, 4, 11, 13, 17
START = 2
CELLS = {
    "before": lambda: layers.AttentionRNN(
        keras.layers.GRUCell(U, recurrent_initializer="he_normal"),
        layers.BahdanauAttention(D, coverage=True),
        return_sequences=True,
    ),
    "after": lambda: layers.AttentionRNN(
        keras.layers.LSTMCell(U, recurrent_initializer="he_normal"),
        layers.LuongAttention("general"),
        "after",
        attention_units=D,
        input_feeding=True,
        return_sequences=True,
    ),
    "apart": lambda: layers.AttentionRNN(
        [keras.layers.GRUCell(n, recurrent_initializer="he_normal") for n in (3, U)],
        layers.LuongAttention("general"),
        "after",
        attention_units=D,
        return_sequences=True,
    ),
}


def make(probability, kind="before", **more):
    keras.utils.set_random_seed(0)
    layer = layers.ScheduledSampling(
        CELLS[kind](),
        keras.layers.Embedding(WORDS, D),
        keras.layers.Dense(WORDS),
        probability,
        **more,
    )
    layer(*inputs())
    return sharper(layer, 3.0)


def inputs():
    target = np.random.default_rng(0).integers(3, WORDS, (B, T)).astype("int32")
    target[:, 0] = START
    return target, references.normal(B, S, V).astype("float32")


def hidden():
    mask = np.ones((B, S), bool)
    mask[0, 2] = mask[1, 4:] = False
    return mask


@pytest.mark.backends("all")
@few_compiled("kind", CELLS)
def test_without_a_word_of_its_own_it_is_teacher_forcing(kind):
    layer, call = make(0.0, kind), {"memory_mask": hidden()}
    forced = to_numpy(layer(*inputs(), **call))
    found = to_numpy(layer(*inputs(), **call, training=True))
    np.testing.assert_allclose(found, forced, rtol=1e-5, atol=1e-5)
    target, memory = inputs()
    by_hand = layer.logits(layer.decoder(layer.embedding(target), memory, **call))
    np.testing.assert_array_equal(forced, to_numpy(by_hand))
    # When not training, the probability does not count.
    layer.probability.assign(1.0)
    np.testing.assert_array_equal(to_numpy(layer(*inputs(), **call)), forced)


@pytest.mark.parametrize("kind", CELLS)
def test_with_its_own_words_alone_it_is_greedy_decoding(kind):
    target, memory = inputs()
    layer, call = make(1.0, kind, choice="argmax"), {"memory_mask": hidden()}
    found = to_numpy(layer(target, memory, **call, training=True))
    decoder = layer.decoder
    prepared = decoder.prepare(ops.convert_to_tensor(memory), mask=hidden())
    state, word = decoder.start(prepared, B), np.full(B, START)
    for t in range(T):
        read = layer.embedding(ops.convert_to_tensor(word, "int32"))
        state, seen = decoder.step(read, state, prepared)
        logits = to_numpy(layer.logits(decoder.read_out(seen)))
        np.testing.assert_allclose(found[:, t], logits, rtol=1e-4, atol=1e-4)
        word = logits.argmax(-1)
    assert (np.diff(found.argmax(-1)) != 0).any()
    # What the target holds behind its first word is not read.
    other = np.concatenate([target[:, :1], target[:, :0:-1]], axis=1)
    again = to_numpy(layer(other, memory, **call, training=True))
    np.testing.assert_array_equal(found, again)


def first_words(layer, number, target):
    """Of many rows alike, the logits (N, V) behind the second word that was read."""
    memory = np.tile(inputs()[1][:1], (number, 1, 1))
    target = np.tile(np.array([[START, target]], "int32"), (number, 1))
    return to_numpy(layer(target, memory, training=True))


def test_words_are_drawn_as_often_as_the_model_says():
    number = 3001
    layer = make(0.4, seed=7)
    found = first_words(layer, number, 5)
    behind = to_numpy(  # of each word that may be read, the logits behind it
        layer(
            np.stack([np.full(WORDS, START), np.arange(WORDS)], 1).astype("int32"),
            np.tile(inputs()[1][:1], (WORDS, 1, 1)),
        )
    )
    away = np.abs(found[:, 1, None] - behind[None, :, 1]).max(-1)  # (N, WORDS)
    assert (away.min(1) < 1e-4).all()
    frequency = np.bincount(away.argmin(1), minlength=WORDS) / number
    wanted = 0.4 * references.softmax(behind[0, 0]) + 0.6 * np.eye(WORDS)[5]
    error = np.sqrt(wanted * (1 - wanted) / number)
    assert (np.abs(frequency - wanted) <= 4 * error + 1e-6).all()
    # Other numbers each time; a seed repeats them.
    assert (first_words(layer, number, 5) != found).any()
    np.testing.assert_array_equal(first_words(make(0.4, seed=7), number, 5), found)


def test_dropout_is_drawn_for_each_word_while_training_alone():
    layer, still = make(0.0, dropout=0.5, seed=1), make(0.0, seed=1)
    expected = to_numpy(still(*inputs()))
    np.testing.assert_array_equal(to_numpy(layer(*inputs())), expected)
    one, other = (to_numpy(layer(*inputs(), training=True)) for _ in range(2))
    assert (one != other).any(axis=-1).all()
    target = ops.convert_to_tensor(inputs()[0])
    samples = layer._sample(target, (B, T), ())
    for name, width in (("read", D), ("written", U + V)):
        kept = to_numpy(samples[name])
        assert kept.shape == (B, T, width)
        assert set(kept.ravel()) == {0.0, 2.0}


def test_cells_and_attentions_draw_their_own_dropout():
    keras.utils.set_random_seed(0)
    cell = keras.layers.GRUCell(U, dropout=0.5, recurrent_initializer="he_normal")
    attention = layers.BahdanauAttention(D, dropout=0.5)
    decoder = layers.AttentionRNN(cell, attention, return_sequences=True)
    words = keras.layers.Embedding(WORDS, D)
    layer = layers.ScheduledSampling(decoder, words, keras.layers.Dense(WORDS))
    one, other = (to_numpy(layer(*inputs(), training=True)) for _ in range(2))
    assert (one != other).any(axis=-1).all()
    np.testing.assert_array_equal(*(to_numpy(layer(*inputs())) for _ in range(2)))


@pytest.mark.backends("all")
def test_gradient_flows_through_the_steps_but_not_through_the_choice():
    """Read with ε = 1, the words are those of its arg max, given to it as a target."""
    layer, (target, memory) = make(1.0, choice="argmax"), inputs()
    written = to_numpy(layer(target, memory, training=True)).argmax(-1)
    own = np.concatenate([target[:, :1], written[:, :-1]], 1).astype("int32")

    def free(memory):
        return ops.sum(layer(target, memory, training=True)[:, -1] ** 2)

    def forced(memory):
        return ops.sum(layer(own, memory)[:, -1] ** 2)

    (found,), (wanted,) = gradient(free, memory), gradient(forced, memory)
    assert (np.abs(wanted) > 1e-3).any()
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_a_file_keeps_the_probability_of_now(tmp_path):
    layer = make(0.25)
    words, memory = keras.Input((None,), dtype="int32"), keras.Input((None, V))
    model = keras.Model([words, memory], layer(words, memory))
    layer.probability.assign(0.75)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert float(to_numpy(again.layers[-1].probability.value)) == 0.75
    assert again.layers[-1].sampling_probability == 0.25
    np.testing.assert_allclose(
        again.predict(list(inputs()), verbose=0),
        model.predict(list(inputs()), verbose=0),
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decoder": keras.layers.GRU(3)}, "`decoder` must be an `AttentionRNN`"),
        (
            {
                "decoder": layers.AttentionRNN(
                    keras.layers.GRUCell(3), layers.Attention("general")
                )
            },
            "`decoder` must have return_sequences=True.*return_sequences=False",
        ),
        (
            {"embedding": keras.layers.Embedding(3, 4, mask_zero=True)},
            "`embedding` must not have mask_zero=True",
        ),
        ({"sampling_probability": 1.5}, "`sampling_probability` must be from 0 to 1"),
        ({"choice": "beam"}, r"`choice` must be one of.*choice='beam'"),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    given = {
        "decoder": CELLS["after"](),
        "embedding": keras.layers.Embedding(WORDS, D),
        "logits": keras.layers.Dense(WORDS),
    }
    with pytest.raises(ValueError, match=message):
        layers.ScheduledSampling(**{**given, **arguments})


@pytest.mark.parametrize("kind", CELLS)
def test_its_maps_are_recorded_once(kind):
    layer = make(0.5, kind)
    target, memory = (ops.convert_to_tensor(x) for x in inputs())
    with record_attention() as maps:
        layer(target, memory, training=True)
    (weights,) = maps.values()
    assert tuple(weights.shape) == (B, T, S)
    np.testing.assert_allclose(to_numpy(weights).sum(-1), 1, rtol=1e-5)
