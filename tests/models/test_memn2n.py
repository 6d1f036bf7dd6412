"""MemN2N against the paper's equations, written plainly in NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.models import MemN2N

V, D, M, L, B = 17, 7, 5, 3, 2


def array(variable):
    return np.asarray(ops.convert_to_numpy(variable), "float64")


def encode(table, tokens):
    """Σⱼ lⱼ ∘ A xⱼ, word by word."""
    d = table.shape[1]
    k = np.arange(1, d + 1) / d
    out = np.zeros((*tokens.shape[:-1], d))
    for where in np.ndindex(tokens.shape[:-1]):
        words = [w for w in tokens[where] if w]
        for j, word in enumerate(words, 1):
            part = j / len(words)
            out[where] += ((1 - part) - k * (1 - 2 * part)) * table[word]
    return out


def ages(story):
    filled = (story != 0).any(-1)
    return np.flip(np.cumsum(np.flip(filled, 1), 1), 1) * filled, filled


def softmax(scores, filled):
    e = np.where(filled, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    return e / e.sum(-1, keepdims=True)


def read(state, keys, values, filled):
    """O = Σᵢ softmax(uᵀm)ᵢ cᵢ."""
    p = softmax(np.einsum("bd,bmd->bm", state, keys), filled)
    return np.einsum("bm,bmd->bd", p, values)


@pytest.fixture
def inputs():
    rng = np.random.default_rng(0)
    story = rng.integers(1, V, (B, M, L)).astype("int32")
    story[0, 1, 2:] = story[1, 3:] = 0
    return {"story": story, "question": rng.integers(1, V, (B, L)).astype("int32")}


def table(model, name):
    layer = model.get_layer(name)
    return array(layer.weights[0])


def enlarge(model):
    """Weights of 0.1 leave the softmax nearly uniform; larger ones test it."""
    for weight in model.trainable_weights:
        weight.assign(5 * weight)


def test_adjacent_tying(inputs):
    keras.utils.set_random_seed(1)
    model = MemN2N(V, D, hops=3, memory_size=M)
    enlarge(model)
    age, filled = ages(inputs["story"])
    words = [table(model, f"encoder_{k}") for k in range(4)]
    times = [table(model, f"encoder_{k}_time") for k in range(4)]
    memories = [encode(a, inputs["story"]) + t[age] for a, t in zip(words, times)]
    state = encode(words[0], inputs["question"])  # B = A1
    for k in range(3):
        state = state + read(state, memories[k], memories[k + 1], filled)
    expected = state @ words[3].T  # Wᵀ = C3
    np.testing.assert_allclose(array(model(inputs)), expected, rtol=1e-4, atol=1e-4)
    assert len(model.trainable_weights) == 8


def test_layer_wise_tying(inputs):
    keras.utils.set_random_seed(1)
    model = MemN2N(V, D, hops=2, memory_size=M, tying="layer_wise", activation="relu")
    enlarge(model)
    age, filled = ages(inputs["story"])
    m, c = (
        encode(table(model, n), inputs["story"]) + table(model, f"{n}_time")[age]
        for n in ("input", "output")
    )
    state = encode(table(model, "question_encoder"), inputs["question"])
    hop = table(model, "hop")
    for _ in range(2):
        state = np.maximum(state @ hop + read(state, m, c, filled), 0)
    expected = state @ table(model, "answer")
    np.testing.assert_allclose(array(model(inputs)), expected, rtol=1e-4, atol=1e-4)


def test_a_longer_story_than_the_memory_shares_the_greatest_age(inputs):
    model = MemN2N(V, D, memory_size=3)
    enlarge(model)
    story = inputs["story"][:1]  # five sentences, aged 5 4 3 2 1

    def swapped(i, j):
        order = np.arange(M)
        order[[i, j]] = j, i
        return array(model({"story": story[:, order], "question": question}))

    question = inputs["question"][:1]
    expected = swapped(0, 0)
    np.testing.assert_allclose(swapped(0, 2), expected, rtol=1e-4, atol=1e-4)
    assert not np.allclose(swapped(3, 4), expected, rtol=1e-2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tying": "none"}, r"`tying` must be one of \['adjacent', 'layer_wise'\]"),
        ({"encoding": "words"}, "`encoding` must be 'bag' or 'position'"),
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
