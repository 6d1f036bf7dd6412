"""`WordRNN`: its equations, its state behind prompts, and how it goes on."""

import keras
import numpy as np
import pytest
from calling import needs_training
from gradients import to_numpy
from keras import ops
from writing import sharper

from keras_attention.models import WordRNN

V, T = 13, 6
PROMPTS = [[5, 6, 7], [8], [9, 3, 4, 5, 6, 7, 8]]

KINDS = {
    "simple": {"cell": "simple"},
    "gru": {"cell": "gru", "num_layers": 2, "dropout": 0.5},
    "lstm": {"embedding_dim": 7, "units": 7, "tie_embeddings": True},
}


def make(kind="gru", **more):
    keras.utils.set_random_seed(0)
    arguments = {"embedding_dim": 5, "units": 7, **KINDS[kind], **more}
    model = WordRNN(V, **arguments)
    return sharper(model, 2)


def logits_of(model, tokens):
    return to_numpy(model({"tokens": ops.convert_to_tensor(tokens)}))


def test_equals_its_equations():
    model = make("simple")
    rng = np.random.default_rng(0)
    weights = {w.path.partition("/")[2]: w for w in model.weights}
    for weight in weights.values():
        weight.assign(rng.normal(size=weight.shape))
    table, kernel, recurrent, bias, dense, dense_bias = (
        to_numpy(w).astype("float64") for w in weights.values()
    )
    tokens = rng.integers(1, V, (2, T)).astype("int32")
    h = np.zeros((2, 7))
    expected = []
    for token in tokens.T:
        h = np.tanh(table[token] @ kernel + h @ recurrent + bias)
        expected.append(h @ dense + dense_bias)
    found = logits_of(model, tokens)
    np.testing.assert_allclose(found, np.stack(expected, 1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_behind_prompts_give_what_whole_sequences_give(kind):
    model = make(kind)
    rng = np.random.default_rng(0)
    width = 8
    tokens = np.zeros((len(PROMPTS), width), "int32")
    prompt = np.zeros((len(PROMPTS), width + T), "int32")
    rows = []
    for n, row in enumerate(PROMPTS):
        more = rng.integers(1, V, T)
        tokens[n, : len(row)] = row
        prompt[n] = np.pad([*row, *more], (width - len(row), 0))
        rows.append(np.array([[*row, *more]], "int32"))
    lengths = np.array([len(row) for row in PROMPTS], "int32")
    inputs = {"tokens": tokens, "length": lengths}
    inputs = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    cache, static = model.begin(inputs, width + T)
    steps = []
    for index in range(width, width + T):
        given = ops.convert_to_tensor(prompt)
        logits, hidden, cache = model.next(given, cache, index, static)
        assert tuple(hidden.shape) == (len(PROMPTS), 7)
        steps.append(to_numpy(logits))
    steps = np.stack(steps, 1)  # (B, T, V)
    whole = np.zeros((len(rows), max(row.shape[1] for row in rows)), "int32")
    for n, row in enumerate(rows):
        whole[n, : row.shape[1]] = row
    expected = logits_of(model, whole)
    for n, length in enumerate(lengths):
        own = expected[n, length - 1 : length + T - 1]
        np.testing.assert_allclose(steps[n], own, rtol=1e-4, atol=1e-4)


def test_greedy_is_the_argmax_of_the_whole_sequence():
    model = make()
    found = model.generate(PROMPTS, T)
    assert (found.shape, found.dtype) == ((3, T), np.int32)
    for prompt, written in zip(PROMPTS, found):
        logits = logits_of(model, np.array([[*prompt, *written]], "int32"))
        best = logits[0, len(prompt) - 1 : -1].argmax(-1)
        np.testing.assert_array_equal(best, written)
    alone = model.generate({"tokens": np.array([PROMPTS[0]])}, T)
    np.testing.assert_array_equal(alone[0], found[0])
    several = model.generate(PROMPTS, T, sampler="beam", num_sequences=2)
    assert several.shape == (3, 2, T)


def test_padding_leaves_the_state_as_it_was():
    model = make()
    tokens = np.random.default_rng(0).integers(1, V, (2, 5)).astype("int32")
    plain = logits_of(model, tokens)
    front = logits_of(model, np.pad(tokens, ((0, 0), (3, 0))))
    behind = logits_of(model, np.pad(tokens, ((0, 0), (0, 2))))
    np.testing.assert_allclose(front[:, 3:], plain, atol=1e-5)
    np.testing.assert_allclose(behind[:, :5], plain, atol=1e-5)


def test_what_is_tied_is_one_weight():
    tied, own = make("lstm"), make("lstm", tie_embeddings=False)
    assert own.count_params() == tied.count_params() + 7 * V + V


@pytest.mark.release
@needs_training
def test_it_learns_what_comes_next():
    keras.utils.set_random_seed(0)
    model = WordRNN(8, embedding_dim=8, units=16, cell="gru")
    circle = 1 + (np.arange(12) + np.arange(7)[:, None]) % 7  # 1 … 7, 1 …
    tokens = np.repeat(circle, 8, axis=0).astype("int32")
    tokens[::3, 6:] = 0
    model.compile(
        keras.optimizers.Adam(0.02),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
    )
    model.fit({"tokens": tokens[:, :-1]}, tokens[:, 1:], epochs=40, verbose=0)
    np.testing.assert_array_equal(model.generate([[3, 4]], 5), [[5, 6, 7, 1, 2]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, "`units` must be at least 1"),
        ({"embedding_dim": 1.5}, "`embedding_dim` must be a whole number"),
        ({"cell": "rnn"}, r"`cell` must be one of \['gru', 'lstm', 'simple'\]"),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1"),
        ({"tie_embeddings": True}, "`embedding_dim` must be `units` with `tie_emb"),
        ({"width": 3}, "`WordRNN` has no such argument. Received: width=3"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        WordRNN(**{"vocabulary_size": V, **arguments})


def test_wrong_prompts_are_named():
    model = make()
    with pytest.raises(ValueError, match="`inputs` must hold 'tokens'"):
        model.generate({"words": [[1]]})
    with pytest.raises(ValueError, match=r"below 13.*from 1 to 13"):
        model.generate([[1, V]])
    with pytest.raises(ValueError, match="at least one token a row"):
        model.generate([[1], [0]])
