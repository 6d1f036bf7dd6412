"""The parts of a memory network against their equations in NumPy."""

import keras
import numpy as np
import pytest
import references
from calling import TRAINS, needs_training
from gradients import gradient, to_numpy
from keras import ops

from keras_attention import layers

B, M, L, D, V = 2, 5, 7, 3, 13
ENCODINGS = ["bag", "position", "centered_position"]


# SentenceEncoder


def story(seed=0):
    """Sentences with padding behind, before and between words, and one of nothing."""
    tokens = np.random.default_rng(seed).integers(1, V, (B, M, L))
    tokens[0, 0, 4:] = 0
    tokens[0, 1, :3] = 0
    tokens[0, 2, [1, 4]] = 0
    tokens[1, 3] = 0
    return tokens


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("encoding", "length", "size"),
    [
        ("bag", None, V),
        ("position", None, V),
        ("position", 11, V),
        ("position", None, 257),  # beyond the size at which counts of words pay
        ("centered_position", None, V),
        ("centered_position", 11, V),
        ("centered_position", None, 257),
    ],
)
def test_sentence_equals_its_equation(encoding, length, size, training):
    encoder = layers.SentenceEncoder(size, D, encoding, length)
    tokens = story()  # int64, as NumPy makes them
    found = encoder(tokens, training=training)
    table = to_numpy(encoder.embedding.embeddings)
    assert table.shape == (size, D)
    expected = references.sentences(tokens, table, encoding, length)
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-4, atol=1e-6)
    assert np.all(to_numpy(found)[1, 3] == 0)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("length", [None, 11])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_padding_counts_for_nothing_wherever(encoding, length, training):
    encoder = layers.SentenceEncoder(V, D, encoding, sentence_length=length)
    places = ([3, 4, 5, 0, 0], [0, 3, 0, 4, 5], [0, 0, 3, 4, 5])
    rows = to_numpy(encoder(np.array(places), training=training))
    np.testing.assert_allclose(rows[1:], rows[:1].repeat(2, 0), rtol=1e-6, atol=1e-7)
    shorter = to_numpy(encoder(np.array([[3, 4, 5]]), training=training))
    np.testing.assert_allclose(shorter, rows[:1], rtol=1e-6, atol=1e-7)
    before = encoder.embedding.get_weights()[0]
    before[0] = 1e4  # the embedding of padding
    encoder.embedding.set_weights([before])
    again = to_numpy(encoder(np.array(places), training=training))
    np.testing.assert_array_equal(again, rows)


@needs_training
@pytest.mark.parametrize("size", [V, 257])
@pytest.mark.parametrize("encoding", ["position", "centered_position"])
def test_training_moves_the_words_that_were_read(encoding, size):
    """On counts of words and on looked-up embeddings, one step of Σ (m − 1)²."""
    tokens = story()[:1, :, :5] % 6  # words 0 … 5 only
    encoder = layers.SentenceEncoder(size, D, encoding)
    model = keras.Sequential([keras.Input((M, 5), dtype="int32"), encoder])
    table = to_numpy(encoder.embedding.embeddings)
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.fit(tokens, np.ones((1, M, D)), verbose=0)

    def loss(a):
        m = references.sentences(tokens, np.concatenate([a, table[6:]]), encoding)
        return np.mean((m - 1) ** 2)

    moved = to_numpy(encoder.embedding.embeddings) - table
    expected = -references.differences(loss, table[:6])
    np.testing.assert_allclose(moved[:6], expected, rtol=1e-3, atol=1e-6)
    assert np.all(moved[0] == 0)
    assert np.all(moved[6:] == 0)


def test_reverse_scores_every_word():
    encoder = layers.SentenceEncoder(V, D)
    encoder.build((B, M, L))
    u = references.normal(B, D).astype("float32")
    table = to_numpy(encoder.embedding.embeddings)
    found = to_numpy(encoder(u, reverse=True))
    np.testing.assert_allclose(found, u @ table.T, rtol=1e-4, atol=1e-6)
    half = layers.SentenceEncoder(V, D, dtype="mixed_bfloat16")
    assert keras.backend.standardize_dtype(half(story()).dtype) == "bfloat16"
    logits = half(u, reverse=True)
    assert keras.backend.standardize_dtype(logits.dtype) == "bfloat16"


def test_sentences_have_a_mask():
    tokens = story()
    encoder, hop = layers.SentenceEncoder(V, D), layers.MemoryHop()
    mask = encoder.compute_mask(ops.convert_to_tensor(tokens))
    np.testing.assert_array_equal(to_numpy(mask, "bool"), tokens.any(-1))
    assert encoder.compute_mask(ops.convert_to_tensor(tokens[0])) is None
    u = references.normal(B, D).astype("float32")
    _, weights = hop(u, encoder(tokens), return_attention_scores=True)
    np.testing.assert_array_equal(to_numpy(weights) > 0, tokens.any(-1))


# MemoryAge


def test_age():
    age = layers.MemoryAge(memory_size=3)
    expected = [[3, 3, 3, 2, 1], [3, 3, 2, 0, 1]]  # 5 and 4 sentences
    np.testing.assert_array_equal(to_numpy(age(story()), "int64"), expected)
    noisy = layers.MemoryAge(memory_size=50, noise=1.0, seed=1)
    expected = [[5, 4, 3, 2, 1], [4, 3, 2, 0, 1]]
    np.testing.assert_array_equal(to_numpy(noisy(story()), "int64"), expected)
    assert keras.backend.standardize_dtype(noisy(story()).dtype) == "int32"


def test_age_with_noise():
    tokens = np.tile(story()[1:], (53, 1, 1))  # 4 sentences
    runs = []
    for _ in range(2):
        age = layers.MemoryAge(50, noise=0.5, seed=1)
        runs.append([to_numpy(age(tokens, training=True)) for _ in range(2)])
    np.testing.assert_array_equal(runs[0], runs[1])
    first, second = runs[0]
    assert np.any(first != second)
    assert np.all(first[:, 3] == 0)
    facts = first[:, [0, 1, 2, 4]]
    assert np.all(np.diff(facts) < 0)
    assert np.all(facts >= [4, 3, 2, 1])
    assert facts.max() == 6  # two empty memories at most
    capped = layers.MemoryAge(4, noise=0.5, seed=1)(tokens, training=True)
    np.testing.assert_array_equal(to_numpy(capped), np.minimum(first, 4))


# MemoryHop


def relu(x):
    return np.maximum(x, 0)


def hop_inputs():
    return references.normals((B, D), (B, M, D), (B, M, D), dtype="float32")


def hop_once(u, c, m, mask, kernel=None, f=lambda x: x, normalizer="softmax"):
    scores = np.einsum("bd,bmd->bm", u, m)
    p = references.NORMALIZERS[normalizer](scores, mask)
    o = np.einsum("bm,bmd->bd", p, c)
    return f((u if kernel is None else u @ kernel) + o), p


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("transform", "activation", "normalizer", "linear"),
    [
        (False, None, "softmax", False),
        (True, "relu", "sparsemax", False),
        (True, None, "softmax1", True),
    ],
)
def test_hop_equals_its_equations(transform, activation, normalizer, linear, masked):
    u, c, m = hop_inputs()
    mask = references.holed(B, M) if masked else None
    hop = layers.MemoryHop(transform, activation, normalizer, linear_start=linear)
    state, p = hop(u, c, m, value_mask=mask, return_attention_scores=True)
    kernel = hop.state_dense.get_weights()[0] if transform else None
    f = relu if activation else lambda x: x
    first = "linear" if linear else normalizer
    expected = hop_once(u, c, m, mask, kernel, f, first)
    np.testing.assert_allclose(to_numpy(state), expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(to_numpy(p), expected[1], rtol=1e-4, atol=1e-5)
    assert not linear or not masked or np.all(to_numpy(p)[~mask] == 0)
    if linear:
        assert not hop.linear.trainable
        hop.linear.assign(False)
        state, p = hop(u, c, m, value_mask=mask, return_attention_scores=True)
        expected = hop_once(u, c, m, mask, kernel, f, normalizer)
        np.testing.assert_allclose(to_numpy(state), expected[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(to_numpy(p), expected[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("slots", [1, M, 11])
def test_hop_over_null_memories(slots, masked):
    u, c, m = hop_inputs()
    mask = references.holed(B, M) if masked else None
    filled = mask if masked else np.ones((B, M), bool)
    hop = layers.MemoryHop(slots=slots)
    state, p = hop(u, c, m, value_mask=mask, return_attention_scores=True)
    # As many memories of zeros as there are slots that nothing is written to.
    extra = np.arange(slots) < slots - filled.sum(-1, keepdims=True)
    zeros = np.zeros((B, slots, D))
    expected, weights = hop_once(
        u, *(np.concatenate([x, zeros], 1) for x in (c, m)), np.c_[filled, extra]
    )
    np.testing.assert_allclose(to_numpy(state), expected, rtol=1e-4, atol=1e-5)
    weights = weights[:, :M]
    np.testing.assert_allclose(to_numpy(p), weights, rtol=1e-4, atol=1e-6)
    linear = layers.MemoryHop(slots=slots, linear_start=True)
    p = linear(u, c, m, value_mask=mask, return_attention_scores=True)[1]
    scores = np.einsum("bd,bmd->bm", u, m) * filled
    np.testing.assert_allclose(to_numpy(p), scores, rtol=1e-4, atol=1e-5)
    linear.linear.assign(False)
    p = linear(u, c, m, value_mask=mask, return_attention_scores=True)[1]
    np.testing.assert_allclose(to_numpy(p), weights, rtol=1e-4, atol=1e-6)


def test_null_memories_are_counted_state_by_state():
    """A mask of states alone says nothing of memories; other masks hide some."""
    u, c, m = hop_inputs()
    states = np.stack([u, 2 * u, -u], axis=1)  # (B, 3, D)
    asked = np.array([[True, False, True], [True, True, True]])
    hop = layers.MemoryHop(slots=4)
    p = hop(states, c, m, query_mask=asked, return_attention_scores=True)[1]
    scores = np.einsum("btd,bmd->btm", states, m)
    expected = references.null_softmax(scores, asked[:, :, None], 4)
    np.testing.assert_allclose(to_numpy(p), expected, rtol=1e-4, atol=1e-6)
    p = hop(states, c, m, use_causal_mask=True, return_attention_scores=True)[1]
    expected = references.null_softmax(scores, np.tri(3, M) > 0, 4)
    np.testing.assert_allclose(to_numpy(p), expected, rtol=1e-4, atol=1e-6)


def test_hop_with_many_states_and_by_default_one_memory():
    u, c, _ = hop_inputs()
    states = np.stack([u, 2 * u, -u], axis=1)  # (B, 3, D)
    seen = np.random.default_rng(0).random((B, 3, M)) < 0.6
    hop = layers.MemoryHop()
    found = hop(states, c, attention_mask=seen, return_attention_scores=True)
    assert found[0].shape == (B, 3, D)
    assert found[1].shape == (B, 3, M)
    for t in range(3):
        expected = hop_once(states[:, t], c, c, seen[:, t])
        for x, wanted in zip(found, expected):
            np.testing.assert_allclose(to_numpy(x)[:, t], wanted, rtol=1e-4, atol=1e-5)
    causal = hop(states, c, use_causal_mask=True, return_attention_scores=True)[1]
    np.testing.assert_array_equal(
        to_numpy(causal) > 0, np.broadcast_to(np.tri(3, M) > 0, (B, 3, M))
    )
    single = hop(u, c, attention_mask=seen[:, 0], query_mask=np.array([True, False]))
    expected = hop_once(u, c, c, seen[:, 0] & [[True], [False]])[0]
    np.testing.assert_allclose(to_numpy(single), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("linear", "slots"), [(False, None), (True, None), (False, 7)])
@pytest.mark.parametrize("dtype", references.DTYPES)
def test_hop_over_nothing(dtype, linear, slots):
    u, c, m = hop_inputs()
    mask = references.holed(B, M)
    hop = layers.MemoryHop(slots=slots, linear_start=linear, dtype=dtype)
    state, p = hop(u, c, m, value_mask=mask, return_attention_scores=True)
    np.testing.assert_array_equal(to_numpy(state)[1], references.rounded(u, dtype)[1])
    assert np.all(to_numpy(p)[~mask] == 0)
    c_changed, m_changed = c.copy(), m.copy()
    for x in (c_changed, m_changed):
        x[0, 3], x[1] = 1e4, 1e4
    changed = hop(u, c_changed, m_changed, value_mask=mask)
    np.testing.assert_array_equal(to_numpy(changed), to_numpy(state))
    if not TRAINS:
        return
    slopes = gradient(
        lambda *x: ops.sum(hop(*x, value_mask=mask)), u, c, m, dtype=dtype
    )
    assert all(np.all(np.isfinite(slope)) for slope in slopes)
    assert np.all(slopes[0][1] == 1)  # u′ = u + 0
    for slope in slopes[1:]:
        assert np.all(slope[~mask] == 0)
        assert slope[0, 0].any()


@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.MemoryHop(
            True, "tanh", "softmax1", None, True, "he_normal", name="hop"
        ),
        lambda: layers.MemoryHop(name="hop"),
        lambda: layers.MemoryHop(slots=7, name="hop"),
        lambda: layers.SentenceEncoder(V, D, "centered_position", name="words"),
        lambda: layers.SentenceEncoder(V, D, "bag", 11, "he_normal", name="words"),
        lambda: layers.MemoryAge(50, 0.1, 3, name="age"),
    ],
)
def test_config_round_trip(make):
    layer = make()
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert layer.get_config() == make().get_config()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: layers.SentenceEncoder(V, D, "sum"),
            r"`encoding` must be one of \['bag', 'position', 'centered_position', "
            r"'learned'\]\. "
            "Received: encoding='sum'",
        ),
        (
            lambda: layers.SentenceEncoder(0, D),
            "`vocabulary_size` must be at least 1. Received: vocabulary_size=0",
        ),
        (
            lambda: layers.SentenceEncoder(V, -1),
            "`embedding_dim` must be at least 1. Received: embedding_dim=-1",
        ),
        (
            lambda: layers.SentenceEncoder(V, D, sentence_length=0),
            "`sentence_length` must be at least 1. Received: sentence_length=0",
        ),
        (
            lambda: layers.MemoryAge(0),
            "`memory_size` must be at least 1. Received: memory_size=0",
        ),
        (
            lambda: layers.MemoryHop()(
                np.ones((B, D)), np.ones((B, M, 2)), np.ones((B, M, D))
            ),
            r"`value` must be as wide as `query`.*value\.shape=\(2, 5, 2\)",
        ),
        (
            lambda: layers.MemoryHop(slots=0),
            "`slots` must be at least 1. Received: slots=0",
        ),
        (
            lambda: layers.MemoryHop(slots=2.5),
            "`slots` must be a whole number. Received: slots=2.5",
        ),
        (
            lambda: layers.MemoryHop(normalizer="softmax1", slots=7),
            "`slots` needs normalizer='softmax'.*Received: normalizer='softmax1'",
        ),
        (
            lambda: layers.MemoryAge(50, noise=-0.1),
            r"`noise` must not be negative\. Received: noise=-0\.1",
        ),
        (
            lambda: layers.MemoryHop()(np.ones((B, D)), np.ones((B, D))),
            r"`value` must have shape \(batch, length, width\).*value\.shape=\(2, 3\)",
        ),
        (
            lambda: layers.MemoryHop()(np.ones((1, D)), np.ones((B, M, D))),
            r"`query` and `value` must have the same batch size.*query.shape=\(1, 1, 3",
        ),
        (
            lambda: layers.MemoryHop()(np.ones((B, 2)), np.ones((B, M, D))),
            r"`query` and `key` must have the same width",
        ),
        (
            lambda: layers.MemoryHop()(
                np.ones((B, D)), np.ones((B, M, D)), value_mask=np.ones((B, L), bool)
            ),
            r"`value_mask` must have shape \(2, 5\), or 1.*shape=\(2, 7\)",
        ),
        (
            lambda: layers.MemoryHop()(
                np.ones((B, D)), np.ones((B, M, D)), query_mask=np.ones((B, 1), bool)
            ),
            r"`query_mask` must have rank 1, shape \(2\)",
        ),
    ],
)
def test_what_does_not_fit(make, message):
    with pytest.raises(ValueError, match=message):
        make()
