"""`CausalLM`: its cache against the whole sequence at once, and how it goes on."""

import gc

import keras
import numpy as np
import pytest
from calling import BACKEND, few_compiled, needs_training
from gradients import to_numpy
from keras import ops
from writing import assert_ends, counted, log_chances, sharper

from keras_attention import record_attention, samplers
from keras_attention.layers import RotaryEmbedding
from keras_attention.models import CausalLM

V, T = 13, 9
PROMPTS = [[5, 6, 7], [8], [9, 3, 4, 5, 6, 7, 8, 9, 10, 11]]

MODERN = {
    "normalization": "rms",
    "gated": True,
    "activation": "silu",
    "attention": {"num_key_value_heads": 2, "sliding_window": 5},
}
KINDS = {
    "learned": {},
    "sinusoidal": {"position": "sinusoidal", "tie_embeddings": False},
    "rotary": {"position": "rotary", "block": MODERN},
    "alibi": {"position": "alibi", "block": {"norm_first": False}},
    "relative": {
        "position": "relative",
        "block": {"attention": {"num_key_value_heads": 1}},
    },
    "none": {"position": None, "block": {"attention": {"sliding_window": 4}}},
}


def make(kind="learned", seed=0, **more):
    keras.utils.set_random_seed(seed)
    arguments = {
        "num_layers": 2,
        "dim": 8,
        "num_heads": 4,
        "intermediate_dim": 12,
        "max_length": 29,
    }
    model = CausalLM(V, **{**arguments, **KINDS[kind], **more})
    return sharper(model, 2)


def logits_of(model, tokens):
    """Of the whole sequences at once, (B, T, V)."""
    return to_numpy(model({"tokens": ops.convert_to_tensor(tokens)}))


def whole(prompt, written):
    return np.array([[*prompt, *written]], "int32")


@pytest.mark.parametrize("kind", KINDS)
def test_the_cache_gives_what_the_whole_sequence_gives(kind):
    """Prompts of unequal length: each row is as it is alone and at once."""
    model = make(kind)
    width, total = 11, 11 + T
    rng = np.random.default_rng(0)
    tokens = np.zeros((len(PROMPTS), width), "int32")
    prompt = np.zeros((len(PROMPTS), total), "int32")
    rows = []
    for n, row in enumerate(PROMPTS):
        more = rng.integers(1, V, T)
        tokens[n, : len(row)] = row
        prompt[n] = np.pad([*row, *more], (width - len(row), 0))
        rows.append(whole(row, more))
    lengths = np.array([len(row) for row in PROMPTS], "int32")
    inputs = {"tokens": tokens, "length": lengths}
    inputs = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    cache, static = model.begin(inputs, total)
    prompt = ops.convert_to_tensor(prompt)
    steps = []
    for index in range(width, total):
        logits, hidden, cache = model.next(prompt, cache, index, static)
        assert tuple(hidden.shape) == (len(PROMPTS), 8)
        steps.append(to_numpy(logits))
    steps = np.stack(steps, 1)  # (B, T, V)
    for n, row in enumerate(rows):
        expected = logits_of(model, row)[0, lengths[n] - 1 : -1]
        scale = 1 + np.abs(expected).max()
        np.testing.assert_allclose(steps[n], expected, atol=1e-5 * scale)


@pytest.mark.slow
@pytest.mark.backends("all")
@few_compiled("kind", ["learned", "rotary"])
def test_greedy_is_the_argmax_of_the_whole_sequence(kind):
    model = make(kind)
    found = model.generate(PROMPTS, T)
    assert found.shape == (3, T)
    assert found.dtype == np.int32
    for prompt, written in zip(PROMPTS, found):
        logits = logits_of(model, whole(prompt, written))
        best = logits[0, len(prompt) - 1 : -1].argmax(-1)
        np.testing.assert_array_equal(best, written)


@pytest.mark.slow
def test_a_prompt_goes_on_alone_as_in_a_batch():
    model = make("relative")
    together = model.generate(PROMPTS, T)
    padded = np.zeros((3, 25), "int32")  # of another bucket
    for line, row in zip(padded, PROMPTS):
        line[: len(row)] = row
    np.testing.assert_array_equal(model.generate({"tokens": padded}, T), together)
    np.testing.assert_array_equal(model.generate(PROMPTS[1:2], T), together[1:2])


def test_what_stands_behind_changes_no_logits():
    model = make()
    tokens = np.random.default_rng(0).integers(1, V, (2, 7)).astype("int32")
    other = np.where(np.arange(7) < 4, tokens, 0)
    first, second = (logits_of(model, x) for x in (tokens, other))
    np.testing.assert_allclose(first[:, :4], second[:, :4], atol=1e-5)
    assert np.abs(first[:, 4:] - second[:, 4:]).max() > 1e-3


@pytest.mark.slow
def test_several_sequences_for_each_prompt():
    model = make()
    greedy = model.generate(PROMPTS, T)
    several = model.generate(PROMPTS, T, num_sequences=3)
    np.testing.assert_array_equal(several, np.repeat(greedy[:, None], 3, axis=1))
    warm = samplers.RandomSampler(temperature=20.0)
    drawn = model.generate(PROMPTS, T, warm, seed=1, num_sequences=3)
    assert drawn.shape == (3, 3, T)
    assert len({row.tobytes() for row in drawn[0]}) > 1
    again = model.generate(PROMPTS, T, warm, seed=1, num_sequences=3)
    np.testing.assert_array_equal(again, drawn)
    sampler = samplers.BeamSampler(4, return_all_beams=True)
    beams, scores = model.generate(PROMPTS, T, sampler, num_sequences=2)
    assert (beams.shape, scores.shape) == ((3, 2, 4, T), (3, 2, 4))
    for prompt, rows, score in zip(PROMPTS, beams[:, 0], scores[:, 0]):
        tokens = np.concatenate([whole(prompt, row) for row in rows])
        logits = logits_of(model, tokens)[:, len(prompt) - 1 : -1]
        chances = log_chances(logits, rows)
        np.testing.assert_allclose(score, chances, rtol=1e-4, atol=1e-4)


def test_other_samplers_drive_it():
    found = make().generate(PROMPTS, T, "top_p", seed=3)
    assert found.shape == (3, T)
    assert ((found >= 0) & (found < V)).all()


@pytest.mark.slow
def test_what_stands_behind_a_stop_token_is_zero():
    model = make()
    free = model.generate(PROMPTS, T)
    stop = int(free[0, 2])
    prompts = [*PROMPTS[:2], [stop, *PROMPTS[2][1:]]]  # one in a prompt ends nothing
    free, written = (model.generate(prompts, T, stop_token_ids=s) for s in (None, stop))
    assert_ends(written, free, stop)


@pytest.mark.slow
@pytest.mark.backends("all")
def test_a_bucket_is_compiled_once_and_weights_that_changed_count():
    model = make()
    begun = counted(model)
    before = model.generate(PROMPTS, T)
    first = len(begun)
    model.generate([[4], [5, 6], [7]], T + 3)  # the same buckets
    if BACKEND in ("jax", "tensorflow"):
        assert len(begun) == first
    for weight in model.weights:
        weight.assign(-1 * ops.convert_to_tensor(weight))
    after = model.generate(PROMPTS, T)
    assert not np.array_equal(before, after)
    logits = logits_of(model, whole(PROMPTS[0], after[0]))
    np.testing.assert_array_equal(logits[0, 2:-1].argmax(-1), after[0])
    object.__delattr__(model, "begin")
    gc.collect()


@pytest.mark.slow
def test_a_file_goes_on_the_same(tmp_path):
    model = make(position=RotaryEmbedding(50.0), block=MODERN)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is CausalLM
    np.testing.assert_array_equal(
        again.generate(PROMPTS, T), model.generate(PROMPTS, T)
    )


def test_what_its_heads_see_can_be_recorded():
    model = make()
    with record_attention() as maps:
        logits_of(model, np.array(PROMPTS[2:], "int32"))
    assert len(maps) == 2
    for weights in maps.values():
        assert weights.shape == (1, 4, 10, 10)
        assert (np.triu(weights, 1) == 0).all()


@pytest.mark.release
@needs_training
def test_it_learns_to_count():
    rng = np.random.default_rng(0)
    first, step = rng.integers(0, V - 1, (2, 600, 1))
    tokens = (1 + (first + step % 3 * np.arange(9)) % (V - 1)).astype("int32")
    keras.utils.set_random_seed(0)
    model = CausalLM(
        V, num_layers=2, dim=24, num_heads=2, intermediate_dim=48, dropout=0.0
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.Adam(0.01), loss)
    inputs = {"tokens": tokens[:500, :-1]}
    model.fit(inputs, tokens[:500, 1:], batch_size=50, epochs=12, verbose=0)
    written = model.generate(tokens[500:, :3], 6)
    assert (written == tokens[500:, 3:]).all(
        1
    ).mean() >= 0.9  # by chance 1 in 5,000,000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_length": 0}, "`max_length` must be at least 1.*max_length=0"),
        ({"num_sequences": 0}, "`num_sequences` must be at least 1"),
        ({"stop_token_ids": [3, 13]}, r"`stop_token_ids` must be of the.*\[3, 13\]"),
        ({"sampler": "gready"}, "`sampler` must be one of.*'gready'"),
        ({"inputs": [[3, 13]]}, "`tokens` must hold ids.*below 13.*3 to 13"),
        ({"inputs": [[3], [-1]]}, "`tokens` must hold ids.*-1 to 3"),
        ({"inputs": [[3], []]}, "`tokens` must be integers of.*float64"),
        ({"inputs": [[3], [0]]}, r"at least one token a row.*\[1, 0\] tokens"),
        ({"inputs": [[0, 3]]}, "padding, 0, behind them alone"),
        ({"inputs": [[3.0]]}, "`tokens` must be integers.*float64"),
        ({"inputs": np.zeros((2, 0), "int32")}, r"`tokens` must be integers.*\(2, 0\)"),
        ({"inputs": {"token": [[3]]}}, r"`inputs` must hold 'tokens'.*\['token'\]"),
        ({"max_length": 20}, "a prompt of 10 tokens, max_length=20, 29 positions"),
    ],
)
def test_generate_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        make().generate(**{"inputs": PROMPTS, **arguments})


def test_what_reaches_the_last_position_is_no_error():
    model = make()
    found = model.generate(PROMPTS[2:], 19)
    logits = logits_of(model, whole(PROMPTS[2], found[0]))  # all 29 positions
    np.testing.assert_array_equal(logits[0, 9:-1].argmax(-1), found[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary_size": 0}, "`vocabulary_size` must be at least 1"),
        ({"num_layers": 0}, "`num_layers` must be at least 1"),
        ({"num_heads": 3}, "`num_heads` must divide.*num_heads=3"),
        ({"dropout": 1.5}, "`dropout` must be at least 0 and below 1.*dropout=1.5"),
        ({"position": "sine"}, "`position` must be one of.*'sine'"),
        ({"block": {"gates": True}}, "gates"),
        ({"widht": 3}, "`CausalLM` has no such argument. Received: widht=3"),
    ],
)
def test_constructor_errors(arguments, message):
    sizes = {"vocabulary_size": V, "num_layers": 1, "dim": 8, "num_heads": 2}
    with pytest.raises((ValueError, TypeError), match=message):
        CausalLM(**{**sizes, **arguments})


def test_more_tokens_than_positions():
    with pytest.raises(ValueError, match=r"end within `max_length`.*max_length=29"):
        logits_of(make(), np.ones((1, 30), "int32"))
