"""MemN2N against the paper's equations, written plainly in NumPy."""

import itertools

import keras
import numpy as np
import pytest
import references
from gradients import to_numpy
from keras import ops

from keras_attention.models import MemN2N

V, D, M, L, B = 17, 7, 5, 3, 2


def encode(table, tokens, encoding="position", age=None):
    """`references.sentences`, where an age is one more word behind the last."""
    if age is not None:
        times = np.where(tokens.any(-1), V - 1 + age, 0)
        tokens = np.concatenate([tokens, times[..., None]], -1)
    return references.sentences(tokens, table, encoding)


def ages(story):
    filled = (story != 0).any(-1)
    return np.flip(np.cumsum(np.flip(filled, 1), 1), 1) * filled, filled


def read(state, keys, values, filled, slots):
    """O = Σᵢ softmax(uᵀm)ᵢ cᵢ over so many slots, which are 0 where nothing is."""
    out = np.zeros(state.shape)
    for b, there in enumerate(filled):
        m, c = np.zeros((2, max(slots, there.sum()), state.shape[1]))
        m[: there.sum()], c[: there.sum()] = keys[b, there], values[b, there]
        out[b] = references.softmax(m @ state[b]) @ c
    return out


@pytest.fixture
def inputs():
    rng = np.random.default_rng(0)
    story = rng.integers(1, V, (B, M, L)).astype("int32")
    story[0, 1, 2:] = story[1, 3:] = 0
    return {"story": story, "question": rng.integers(1, V, (B, L)).astype("int32")}


def table(model, name):
    layer = model.get_layer(name)
    return to_numpy(layer.weights[0])


def enlarge(model):
    """Weights of 0.1 leave the softmax nearly uniform; larger ones test it."""
    for weight in model.trainable_weights:
        weight.assign(5 * weight)


def null_slots(slots, null):
    """The slots of a memory that has null ones, or only as many as are filled."""
    return slots if null else 0


# The inputs' second story leaves two of five slots empty, and four of seven.
@pytest.mark.parametrize(("slots", "null"), [(M, True), (M, False), (7, True)])
def test_adjacent_tying(inputs, slots, null):
    keras.utils.set_random_seed(1)
    more = {} if null else {"null_memories": False}  # they are there by default
    model = MemN2N(V, D, hops=3, memory_size=slots, **more)
    assert model.null_memories is null
    enlarge(model)
    age, filled = ages(inputs["story"])
    words = [table(model, f"encoder_{k}") for k in range(4)]
    times = [table(model, f"encoder_{k}_time") for k in range(4)]
    memories = [encode(a, inputs["story"]) + t[age] for a, t in zip(words, times)]
    state = encode(words[0], inputs["question"])  # B = A1
    for k in range(3):
        found = read(
            state, memories[k], memories[k + 1], filled, null_slots(slots, null)
        )
        state = state + found
    expected = state @ words[3].T  # Wᵀ = C3
    np.testing.assert_allclose(to_numpy(model(inputs)), expected, rtol=1e-4, atol=1e-4)
    assert len(model.trainable_weights) == 8


@pytest.mark.parametrize("null", [True, False])
def test_layer_wise_tying(inputs, null):
    keras.utils.set_random_seed(1)
    model = MemN2N(
        V,
        D,
        hops=2,
        memory_size=M,
        tying="layer_wise",
        activation="relu",
        null_memories=null,
    )
    enlarge(model)
    age, filled = ages(inputs["story"])
    m, c = (
        encode(table(model, n), inputs["story"]) + table(model, f"{n}_time")[age]
        for n in ("input", "output")
    )
    state = encode(table(model, "question_encoder"), inputs["question"])
    hop = table(model, "hop")
    for _ in range(2):
        found = read(state, m, c, filled, null_slots(M, null))
        state = np.maximum(state @ hop + found, 0)
    expected = state @ table(model, "answer")
    np.testing.assert_allclose(to_numpy(model(inputs)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("encoding", ["bag", "position", "centered_position"])
@pytest.mark.parametrize("tying", ["adjacent", "layer_wise"])
def test_time_is_a_word(inputs, tying, encoding):
    """Of five sentences, and of three with holes between their words."""
    keras.utils.set_random_seed(1)
    model = MemN2N(
        V, D, hops=2, memory_size=7, tying=tying, encoding=encoding, time="word"
    )
    enlarge(model)
    story = inputs["story"]
    age, filled = ages(story)

    def memory(name):
        words = table(model, name)
        assert words.shape == (V + 7, D)  # as many times as there are slots
        return encode(words, story, encoding, age)

    if tying == "adjacent":
        names = [f"encoder_{k}" for k in range(3)]
        memories = [memory(name) for name in names]
        state = encode(table(model, names[0]), inputs["question"], encoding)
        for m, c in itertools.pairwise(memories):
            state = state + read(state, m, c, filled, 7)
        expected = state @ table(model, names[2])[:V].T  # a time is no answer
        assert len(model.trainable_weights) == 3
    else:
        m, c = memory("input"), memory("output")
        state = encode(table(model, "question_encoder"), inputs["question"], encoding)
        for _ in range(2):
            state = state @ table(model, "hop") + read(state, m, c, filled, 7)
        expected = state @ table(model, "answer")
    logits = to_numpy(model(inputs))
    assert logits.shape == (B, V)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("time", ["table", "word"])
@pytest.mark.parametrize("null", [True, False])
def test_padding_changes_nothing(inputs, time, null):
    """Neither behind a sentence or a story nor in front of them."""
    model = MemN2N(
        V, D, memory_size=M, time=time, encoding="centered_position", null_memories=null
    )
    enlarge(model)
    expected = to_numpy(model(inputs))
    for story in (
        ((0, 0), (0, 2), (0, 1)),
        ((0, 0), (2, 0), (1, 0)),
        ((0, 0), (3, 4), (2, 1)),
    ):
        padded = {**inputs, "story": np.pad(inputs["story"], story)}
        np.testing.assert_allclose(to_numpy(model(padded)), expected, 1e-4, 1e-5)


def test_more_slots_give_more_room_for_nothing(inputs):
    """Times are words that are not read here, so that slots differ in nothing else."""
    small, large = (MemN2N(V, D, memory_size=m, time="word") for m in (M, 53))
    for a, b in zip(small.trainable_weights, large.trainable_weights):
        words = to_numpy(b)
        words[: V + M] = 5 * to_numpy(a)
        a.assign(words[: V + M])
        b.assign(words)
    one, other = to_numpy(small(inputs)), to_numpy(large(inputs))
    assert np.abs(one - other).max() > 0.01
    bare = MemN2N(V, D, memory_size=53, time="word", null_memories=False)
    bare.set_weights(large.get_weights())
    full = {name: x[:1] for name, x in inputs.items()}  # all five slots are filled
    np.testing.assert_allclose(to_numpy(bare(full)), one[:1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "null"),
    [
        ({}, True),
        ({"null_memories": False}, False),
        ({"null_memories": True, "time": "word"}, True),
        ({"normalizer": "softmax1"}, False),
        ({"normalizer": "hardmax", "null_memories": False}, False),
    ],
)
def test_config_holds_time_and_null_memories(arguments, null):
    model = MemN2N(V, D, memory_size=M, **arguments)
    config = model.get_config()
    assert config["null_memories"] is null
    assert config["time"] == arguments.get("time", "table")
    again = MemN2N.from_config(config)
    assert again.get_config() == config
    assert model.get_layer("hop").slots == (M if null else None)


def test_a_longer_story_than_the_memory_shares_the_greatest_age(inputs):
    model = MemN2N(V, D, memory_size=3)
    enlarge(model)
    story = inputs["story"][:1]  # five sentences, aged 5 4 3 2 1

    def swapped(i, j):
        order = np.arange(M)
        order[[i, j]] = j, i
        return to_numpy(model({"story": story[:, order], "question": question}))

    question = inputs["question"][:1]
    expected = swapped(0, 0)
    np.testing.assert_allclose(swapped(0, 2), expected, rtol=1e-4, atol=1e-4)
    assert not np.allclose(swapped(3, 4), expected, rtol=1e-2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tying": "none"}, r"`tying` must be one of \['adjacent', 'layer_wise'\]"),
        ({"encoding": "words"}, r"`encoding` must be one of \['bag', 'position', 'c"),
        (
            {"time": "words"},
            r"`time` must be one of \['table', 'word'\]\. Received: time='words'",
        ),
        (
            {"normalizer": "softmax1", "null_memories": True},
            "`null_memories` needs normalizer='softmax'. Received: normalizer='softm",
        ),
        ({"normalizer": "max"}, r"`normalizer` must be one of \['entmax15'"),
        ({"vocabulary_size": 0}, "`vocabulary_size` must be at least 1"),
        ({"embedding_dim": 0}, "`embedding_dim` must be at least 1"),
        ({"hop": 7}, "`MemN2N` has no such argument. Received: hop=7"),
        ({"vocabulary_size": "20"}, "`vocabulary_size` must be a whole number.*'20'"),
        ({"hops": 0}, "`hops` must be at least 1. Received: hops=0"),
        ({"memory_size": -2}, "`memory_size` must be at least 1. Received: memory_s"),
        ({"time_noise": -1}, "`noise` must not be negative"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        MemN2N(**{"vocabulary_size": V, "embedding_dim": D, **arguments})


@pytest.mark.backends("all")
@pytest.mark.parametrize("time", ["table", "word"])
def test_a_word_outside_the_vocabulary_is_not_read_as_an_age(time):
    model = MemN2N(V, D, memory_size=7, time=time)
    story, question = map(ops.convert_to_tensor, ([[[1, V + 2]]], [[1]]))
    with pytest.raises(ValueError, match="`story` must hold ids of at least 0"):
        model({"story": story, "question": question})
