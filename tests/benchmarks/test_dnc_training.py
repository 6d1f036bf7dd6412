"""How the networks of the DNC benchmark are trained, lesson by lesson."""

import json

import keras
import numpy as np
import pytest

from keras_attention.benchmarks.dnc import networks, problems, tasks, training
from keras_attention.datasets import algorithms

# Keras' torch backend hands arrays to NumPy in a way that newer NumPy deprecates.
pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"
)
TRAINS = keras.config.backend() in ("jax", "tensorflow", "torch")
needs_training = pytest.mark.skipif(not TRAINS, reason="does not train")
TINY = {"units": 5, "memory_slots": 3, "word_width": 2, "read_heads": 1}


def copies(**lesson):
    return problems.Bits(algorithms.copy, [lesson])


SETTINGS = {
    **tasks.TRAINING,
    **{"steps": 8, "batch_size": 4, "rounding": 7, "validation": 8, "tested": 8},
}


@needs_training
def test_a_network_is_trained_lesson_by_lesson_and_tested():
    problem = problems.Bits(
        algorithms.copy,
        [{"length": 1, "bits": 1}, {"length": (1, 2), "bits": 1}],
        beyond={"length": 3, "bits": 1},
    )
    settings = {
        "network": TINY,
        "training": {**SETTINGS, "bar": 0.0, "last_bar": 0.0, "in_a_row": 2},
        "minutes": 5,
    }
    row = training.run_of(problem, "dnc", settings, 0, larger=6)
    assert (row["lesson"], row["of_lessons"], row["solved"]) == (2, 2, True)
    assert row["steps"] == 24
    assert [entry["lesson"] for entry in row["history"]] == [1, 2, 2]
    assert ["beyond" in entry for entry in row["history"]] == [False, True, True]
    assert list(row["tests"]) == ["test", "test, 6 slots"]
    assert row["tests"]["test"]["sequences tested"] == 8
    assert row["cpu_seconds"] > 0
    json.dumps(row)
    settings["training"]["last_bar"] = 1.1
    settings["minutes"] = 1e-6
    row = training.run_of(problem, "lstm", settings, 0)
    assert (row["steps"], row["solved"]) == (1, False)


@needs_training
def test_a_memory_grows_and_is_trained_on_in_the_last_lesson():
    lessons = [{"length": 1, "bits": 1}, {"length": (1, 2), "bits": 1}]
    problem = problems.Bits(algorithms.copy, lessons)
    growing = {"grown": [4, 5], "grown_rate": 0.125, "grown_steps": 3}
    settings = {
        "network": TINY,
        "training": {**SETTINGS, "bar": 0, "last_bar": 0, "in_a_row": 1, **growing},
        "minutes": 5,
    }
    row = training.run_of(problem, "dnc", settings, 0, larger=6)
    assert row["lesson"] == 2
    assert problem.lessons == lessons
    assert [(g["slots"], g["steps"], g["lesson"]) for g in row["grown"]] == [
        (4, 3, 1),
        (5, 3, 1),
    ]
    assert list(row["tests"]) == [
        "test",
        "test, 6 slots",
        "test, 6 slots after growing",
    ]
    # It is another network after it; what was trained before is as it was.
    made = networks.network(problem, "dnc", TINY, 0)
    before = made.get_weights()
    model, found = training.grown(problem, made, settings["training"], 0, 5)
    assert model.cell.memory_slots == 5
    assert found[-1]["solved"]
    for one, other in zip(made.get_weights(), before):
        np.testing.assert_array_equal(one, other)
    moved = [np.abs(a - b).max() for a, b in zip(model.get_weights(), before)]
    assert min(moved) > 0
    # It does not go on from a number of slots that it has not mastered.
    bar = {**settings["training"], "last_bar": 1.1}
    _, found = training.grown(problem, made, bar, 0, 1e-6)
    assert [(g["slots"], g["solved"]) for g in found] == [(4, False)]
    assert training.grown(problem, made, bar, 0, 0.0) == (made, [])


@needs_training
def test_the_last_lesson_of_several_has_a_rate_of_its_own():
    for lessons, expected in (([{"length": 1}], 0.5), ([{"length": 1}] * 2, 0.25)):
        problem = problems.Bits(algorithms.copy, lessons)
        model = networks.network(problem, "lstm", TINY, 0)
        settings = {**SETTINGS, "rate": 0.5, "last_rate": 0.25, "steps": 2}
        settings |= {"bar": 0.0, "last_bar": 0.0, "in_a_row": 1}
        training.train(problem, model, settings, 0, 5)
        assert float(model.optimizer.learning_rate) == expected


def test_a_history_is_thinned_and_keeps_its_end():
    assert training.thinned(list(range(5))) == [0, 1, 2, 3, 4]
    # Of 40 at most, every third is kept, counted from the last.
    assert training.thinned(list(range(100)), most=40) == list(range(0, 100, 3))
    assert training.thinned(list(range(101)), most=40) == list(range(1, 101, 3))


@needs_training
def test_the_rate_falls_with_the_time_that_is_left(monkeypatch):
    model = networks.network(copies(length=1), "lstm", TINY, 0)
    model.compile("sgd")
    batches = training.Fresh(copies(length=1), 1, 4, 7, 0)
    settings = {**SETTINGS, "rate": 0.5, "annealed": 0.6}
    lessons = training.Lessons(batches, settings, 0, 10)
    lessons.set_model(model)
    rates = []
    for minutes in (0, 6, 8, 9, 11):
        now = lessons.cpu_start + 60 * minutes
        monkeypatch.setattr(training.time, "process_time", lambda now=now: now)
        lessons.on_epoch_begin(0)
        rates.append(float(model.optimizer.learning_rate))
    assert rates == pytest.approx([0.5, 0.5, 0.25, 0.125, 0.025])


@needs_training
def test_the_first_lessons_may_have_bars_of_their_own(monkeypatch):
    problem = problems.Bits(algorithms.copy, [{"length": n} for n in (1, 2, 3, 4)])
    problem.bars = [0.7, 0.5]
    scored = []
    monkeypatch.setattr(problem, "score", lambda *_: {"bits": scored[-1]})
    model = networks.network(problem, "lstm", TINY, 0)
    model.compile("sgd")
    batches = training.Fresh(problem, 1, 4, 7, 0)
    settings = {**SETTINGS, "bar": 0.6, "last_bar": 0.8, "in_a_row": 1}
    lessons = training.Lessons(batches, settings, 0, 10)
    lessons.set_model(model)
    for score, lesson in ((0.65, 0), (0.7, 1), (0.55, 2), (0.55, 2), (0.6, 3)):
        scored.append(score)
        lessons.on_epoch_end(0, {"loss": 1.0})
        assert batches.lesson == lesson
    for score, solved in ((0.75, False), (0.8, True)):
        scored.append(score)
        lessons.on_epoch_end(0, {"loss": 1.0})
        assert lessons.solved == solved


@needs_training
def test_no_lesson_is_begun_in_the_last_quarter_of_its_time(monkeypatch):
    problem = problems.Bits(algorithms.copy, [{"length": 1}, {"length": 2}])
    model = networks.network(problem, "lstm", TINY, 0)
    model.compile("sgd")
    batches = training.Fresh(problem, 1, 4, 7, 0)
    lessons = training.Lessons(batches, {**SETTINGS, "bar": 0.0}, 0, 10)
    lessons.set_model(model)
    for minutes, lesson in ((7.6, 0), (7.4, 1)):
        now = lessons.cpu_start + 60 * minutes
        monkeypatch.setattr(training.time, "process_time", lambda now=now: now)
        lessons.on_epoch_end(0, {"loss": 1.0})
        assert batches.lesson == lesson


def test_a_share_of_the_batches_is_of_earlier_lessons():
    lessons = [{"length": 1}, {"length": 2}, {"length": 3}]
    problem = problems.Bits(algorithms.copy, lessons)
    for lesson, earlier, expected in (
        (2, 0.0, {3}),
        (0, 1.0, {1}),
        (1, 1.0, {1}),
        (2, 0.5, {1, 2, 3}),
    ):
        batches = training.Fresh(problem, 1, 1, 7, 0, earlier)
        batches.lesson, lengths = lesson, []
        for _ in range(60):
            x, _ = batches[0]
            lengths.append(int(x["answer_mask"].sum()))
        assert set(lengths) == expected
        if len(expected) == 3:
            assert 18 < lengths.count(3) < 42
