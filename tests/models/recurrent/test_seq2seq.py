"""`Seq2Seq`: its decoding against its own teacher forcing, and its use."""

import keras
import numpy as np
import pytest
from calling import BACKEND, few_compiled, needs_training, refused
from keras import ops
from writing import (
    SOURCES,
    START,
    STOP,
    TARGETS,
    B,
    S,
    assert_ends,
    assert_greedy_is_argmax,
    assert_learns_to_reverse,
    assert_one_beam_is_greedy,
    assert_scores_are_chances,
    attention_weights,
    counted,
    sharper,
    sources,
)

from keras_attention import samplers
from keras_attention.layers import BahdanauAttention, HardAttention
from keras_attention.models import Seq2Seq

T = 9

KINDS = {
    "bahdanau": {},
    "luong": {"attention": "luong", "cell": "lstm"},
    "layer": {"attention": "a layer", "bidirectional": False},
    "none": {"attention": None},
    "none_lstm": {"attention": None, "cell": "lstm"},
}


def make(kind="bahdanau", seed=0):
    keras.utils.set_random_seed(seed)
    arguments = dict(KINDS[kind])
    if arguments.get("attention") == "a layer":
        arguments["attention"] = BahdanauAttention(5, coverage=True)
    model = Seq2Seq(SOURCES, TARGETS, embedding_dim=4, units=6, **arguments)
    return sharper(model, 2.5)


@pytest.mark.backends("all")
@few_compiled("kind", KINDS)
def test_greedy_is_the_argmax_of_teacher_forcing(kind):
    model, source = make(kind), sources()
    assert_greedy_is_argmax(model, T, source=source)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bahdanau", "luong", "none"])
def test_beam_search(kind):
    model, source = make(kind), sources()
    assert_one_beam_is_greedy(model, T, source=source)
    assert_scores_are_chances(model, T, source=source)


def test_coverage_penalty_reads_the_alignment():
    model, source = make(), sources()
    cache, static = model.begin({"source": ops.convert_to_tensor(source)})
    prompt = ops.convert_to_tensor(np.full((B, 2), START, "int32"))
    first = np.asarray(ops.convert_to_numpy(cache["alignment_sum"]))
    np.testing.assert_array_equal(first, source == 0)
    _, _, cache = model.next(prompt, cache, 1, static)
    found = np.asarray(ops.convert_to_numpy(cache["alignment_sum"]))
    np.testing.assert_allclose((found - first).sum(1), 1, rtol=1e-5)
    sampler = samplers.BeamSampler(3, length_penalty=0.6, coverage_penalty=0.2)
    assert model.generate(source, T, sampler, stop_token_ids=STOP).shape == (B, T)


def test_padding_of_the_source_changes_nothing():
    model, source = make(), sources()
    wider = np.pad(source, ((0, 0), (0, 20)))
    inputs = {"target": np.full((B, T), START, "int32")}
    one = model.predict({**inputs, "source": source}, verbose=0)
    other = model.predict({**inputs, "source": wider}, verbose=0)
    np.testing.assert_allclose(one, other, atol=1e-5)
    np.testing.assert_array_equal(model.generate(source, T), model.generate(wider, T))


def test_what_stands_behind_a_stop_token_is_zero():
    model, source = make("luong"), sources()
    free = model.generate(source, 16, stop_token_ids=None)
    stop = int(free[0, 2])
    written = model.generate(source, 16, stop_token_ids=[stop])
    assert_ends(written, free, stop)


@pytest.mark.slow
def test_a_seed_repeats_what_chance_wrote():
    model, source = make(), sources()
    for name in ("random", "top_k", "top_p"):
        one = model.generate(source, T, name, seed=5)
        np.testing.assert_array_equal(one, model.generate(source, T, name, seed=5))
        others = [model.generate(source, T, name, seed=n) for n in range(6, 10)]
        assert any(not np.array_equal(one, other) for other in others)


@pytest.mark.backends("all")
def test_weights_that_changed_count_and_a_bucket_is_compiled_once():
    model, source = make(), sources()
    begun = counted(model)
    before = model.generate(source, T, stop_token_ids=None)
    first = len(begun)
    model.generate(source[:, :5], T - 2, stop_token_ids=None)  # the same bucket
    if BACKEND in ("jax", "tensorflow"):
        assert len(begun) == first
    for weight in model.weights:
        weight.assign(-1 * ops.convert_to_tensor(weight))
    after, _ = assert_greedy_is_argmax(model, T, source=source)
    assert not np.array_equal(before, after)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["layer", "luong"])
def test_a_file_writes_the_same(kind, tmp_path):
    model, source = make(kind), sources()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is Seq2Seq
    assert type(again.attention) is type(model.attention)
    for sampler in ("greedy", "beam"):
        np.testing.assert_array_equal(
            again.generate(source, T, sampler), model.generate(source, T, sampler)
        )


def test_where_it_looked_can_be_recorded():
    model, source = make(), sources()
    target = np.full((B, T), START, "int32")
    weights = attention_weights(model, source=source, target=target)
    assert weights.shape == (B, T, S)
    assert (weights[1, :, 4:] == 0).all()


@pytest.mark.release
@needs_training
def test_it_learns_to_turn_a_sequence_round():
    keras.utils.set_random_seed(0)
    model = Seq2Seq(SOURCES, TARGETS, embedding_dim=16, units=32)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    assert_learns_to_reverse(model, loss, 0.01, epochs=8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_length": 0}, "`max_length` must be at least 1.*max_length=0"),
        (
            {"start_token_id": TARGETS},
            "`start_token_id` must be of the.*vocabulary of 13",
        ),
        ({"stop_token_ids": [3, -1]}, r"`stop_token_ids` must be of the.*\[3, -1\]"),
        ({"sampler": "gready"}, "`sampler` must be one of.*'gready'"),
        ({"sampler": samplers.BeamSampler(14)}, "beam"),
        ({"inputs": np.zeros((2, 0), "int32")}, r"`source` must be integers.*\(2, 0\)"),
        ({"inputs": np.ones((2, 3), "float32")}, "`source` must be integers.*float32"),
        ({"inputs": {"sauce": sources()}}, "`inputs` must hold 'source'.*'sauce'"),
    ],
)
def test_generate_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        make().generate(**{"inputs": sources(), **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, "`units` must be at least 1"),
        ({"cell": "rnn"}, r"`cell` must be one of \['gru', 'lstm'\].*'rnn'"),
        ({"attention": "loung"}, "`attention` must be 'bahdanau', 'luong', None"),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1"),
        ({"widht": 3}, "`Seq2Seq` has no such argument. Received: widht=3"),
    ],
)
def test_constructor_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        Seq2Seq(SOURCES, TARGETS, **arguments)


def test_an_attention_that_could_not_learn_is_refused():
    attention = HardAttention(units=5, estimator="reinforce")
    with pytest.raises(ValueError, match=r"CarryChoices.*Received: attention"):
        Seq2Seq(11, 7, 3, 5, attention=attention)


def test_sources_of_unequal_length_may_be_lists():
    model = make()
    ragged = model.generate([[4, 5], [6]], T, start_token_id=START, stop_token_ids=STOP)
    padded = np.array([[4, 5], [6, 0]])
    options = {"start_token_id": START, "stop_token_ids": STOP}
    np.testing.assert_array_equal(ragged, model.generate(padded, T, **options))
    for wrong in ([[4, 5], []], [[4.5]], [], [[[4]]], [4, 5]):
        refused(lambda w=wrong: model.generate(w, T), "`source` must be integers")
