"""How the networks of the DNC benchmark are trained, lesson by lesson."""

import json
import os
import signal

import keras
import numpy as np
import pytest
from calling import needs_training

from keras_attention.datasets import algorithms
from studies.command_line import UsageError
from studies.dnc import checkpoints, networks, problems, tasks, traces, training, worlds

TINY = {"units": 5, "memory_slots": 3, "word_width": 2, "read_heads": 1}


def copies(**lesson):
    return problems.Bits(algorithms.copy, [lesson])


SETTINGS = {
    **tasks.TRAINING,
    **{"steps": 8, "batch_size": 4, "rounding": 7, "validation": 8, "tested": 8},
}


@pytest.mark.slow
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
    row = training.run_of(problem, "dnc", settings, 0, larger=(6,))
    assert (row["lesson"], row["of_lessons"], row["solved"]) == (2, 2, True)
    assert row["steps"] == 24
    assert [entry["lesson"] for entry in row["history"]] == [1, 2, 2]
    assert ["beyond" in entry for entry in row["history"]] == [False, True, True]
    names = ["test", "test, 6 slots", "test, 6 slots, fixed ε"]
    assert list(row["tests"]) == names
    assert row["tests"]["test"]["sequences tested"] == 8
    assert row["cpu_seconds"] > 0
    json.dumps(row)
    settings["training"]["last_bar"] = 1.1
    settings["minutes"] = 1e-6
    row = training.run_of(problem, "lstm", settings, 0)
    assert (row["steps"], row["solved"]) == (1, False)


@needs_training
def test_copies_are_traced():
    problem = copies(length=2, bits=1)
    model = networks.network(problem, "dnc", TINY, 0)
    found = traces.traced(model, 2, 0)
    assert list(found)[:3] == [
        "sequences",
        "write gate while reading",
        "write gate while answering",
    ]
    assert 0 <= found.pop("free slots") <= TINY["memory_slots"]
    assert all(0 <= share <= 1 for share in found.values())


def test_what_is_overwritten_before_it_was_read():
    """Two vectors, the end mark and two answers in three slots."""

    def heads(*slots):
        return np.stack([np.zeros(3) if s is None else np.eye(3)[s] for s in slots])

    none = heads(None, None, None, None, None)
    cases = {
        "kept": (heads(0, 1, 2, None, None), none, False),
        "over the first": (heads(0, 0, None, None, None), none, True),
        "over the second, by the end mark": (heads(0, 1, 1, None, None), none, True),
        "after it was read": (
            heads(0, 1, None, None, 0),
            heads(None, None, None, 0, 1),
            False,
        ),
        "only read while there was more to come": (
            heads(0, 1, 0, None, None),
            heads(None, 0, 0, None, None),
            True,
        ),
    }
    for name, (writes, reads, lost) in cases.items():
        found = traces.overwritten(writes[None], reads[None], length=2)
        assert found.tolist() == [lost], name


@pytest.mark.slow
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
    row = training.run_of(problem, "dnc", settings, 0, larger=(6,))
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


def test_restoring_a_run_does_not_use_its_time(monkeypatch):
    now = 50.0
    monkeypatch.setattr(training.time, "process_time", lambda: now)
    lesson = {"goals": 1, "blocks": 3, "constraints": 1, "depth": 1}
    problem = worlds.Puzzles([lesson])

    def restore(state):
        nonlocal now
        now += 300  # the old puzzles are generated again

    monkeypatch.setattr(problem, "restore", restore)
    batches = training.Fresh(problem, 8, 4, 7, 0)
    lessons = training.Lessons(batches, SETTINGS, 0, 10)
    state = {**lessons.state(), "cpu_seconds": 120.0}
    lessons.restore(state)
    assert lessons.state()["cpu_seconds"] == 120


def test_a_run_does_not_go_on_on_another_kind_of_device():
    problem = problems.Bits(algorithms.copy, [{"length": 1}])
    lessons = training.Lessons(training.Fresh(problem, 8, 4, 7, 0), SETTINGS, 0, 10)
    state = {**lessons.state(), "device": "another"}
    with pytest.raises(UsageError, match="began on a device of the kind 'another'"):
        lessons.restore(state)
    lessons.restore({**state, "ended": True})  # only to be tested
    assert lessons.device == "another"


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
            batches.epoch += 1
            lengths.append(int(x["answer_mask"].sum()))
        assert set(lengths) == expected
        if len(expected) == 3:
            assert 18 < lengths.count(3) < 42


class Killed(checkpoints.Checkpoint):
    """Receives a signal when it is asked for the given time whether it is due."""

    def kill_at(self, times):
        self.signals, self.left = checkpoints.Signals(), times
        return self

    def is_due(self):
        self.left -= 1
        if not self.left:
            self.signals.received = signal.SIGTERM
        return super().is_due()


@needs_training
def test_a_killed_run_goes_on_as_if_it_had_not_been(tmp_path):
    # Three epochs of three groups of batches, one in the first lesson.
    settings = {**SETTINGS, "steps": 20, "batch_size": 2, "bar": 0, "last_bar": 0}
    run = {"task": "copy", "settings": settings}
    problem = problems.Bits(algorithms.copy, [{"length": 1}, {"length": (1, 2)}])

    def trained(seed, checkpoint=None):
        model = networks.network(problem, "lstm", TINY, seed)
        return model, training.train(
            problem, model, settings, 0, 5, checkpoint=checkpoint
        )

    whole, expected = trained(0)
    assert (expected["steps"], expected["solved"]) == (60, True)
    # It is killed within an epoch, and at the end of one.
    for seed, times, steps in ((0, 2, 16), (1, 4, 40)):
        checkpoint = Killed(tmp_path, run, resume=seed > 0).kill_at(times)
        with pytest.raises(checkpoints.Interrupted) as error:
            trained(seed, checkpoint)
        assert error.value.number == signal.SIGTERM
        assert checkpoint._read()[0]["steps"] == steps
    # It can be tested as it is, which changes nothing.
    content = checkpoint.path.read_bytes()
    model = networks.network(problem, "lstm", TINY, 2)
    found = training.train(
        problem, model, settings, 0, 5, checkpoint=checkpoint, unfinished=True
    )
    assert (found["steps"], found["solved"]) == (40, False)
    assert 0 < found["share"] < 1
    assert checkpoint.path.read_bytes() == content
    spent = checkpoint._read()[0]["cpu_seconds"]
    checkpoint = checkpoints.Checkpoint(tmp_path, run, True)
    model, found = trained(2, checkpoint)
    assert found["cpu_seconds"] > spent > 0
    assert found["steps"] == 60
    for one, other in zip(model.variables, whole.variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    for one, other in zip(found["history"], expected["history"], strict=True):
        times = {"cpu_seconds": 0, "loss": 0}
        assert {**one, **times} == {**other, **times}
        assert one["loss"] == pytest.approx(other["loss"], abs=2e-5)
    # A run that has ended is not trained again.
    again, twice = trained(3, checkpoint)
    assert {**twice, "seconds": 0} == {**found, "seconds": 0}
    np.testing.assert_array_equal(again.get_weights()[0], model.get_weights()[0])


@needs_training
def test_random_numbers_go_on_from_a_checkpoint(tmp_path):
    def network(seed):
        keras.utils.set_random_seed(seed)
        dropout = keras.layers.Dropout(0.5)
        model = keras.Sequential([keras.Input((9,)), dropout, keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(), "mse")
        return model

    one, other = network(0), network(1)
    data = np.ones((4, 9), "float32"), np.ones((4, 1), "float32")
    one.train_on_batch(*data)
    a_checkpoint(tmp_path, {}).save(one, {})
    one.train_on_batch(*data)
    a_checkpoint(tmp_path, {}).load(other)
    other.train_on_batch(*data)
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def a_checkpoint(folder, settings, resume=True):
    run = {"task": "copy", "seed": 3, "settings": settings}
    return checkpoints.Checkpoint(folder, run, resume)


@needs_training
def test_damaged_and_foreign_checkpoints_are_refused(tmp_path):
    model = networks.network(copies(length=1), "lstm", TINY, 0)
    model.compile(keras.optimizers.Adam())
    own = a_checkpoint(tmp_path / "new", {"rate": 1, "minutes": 2})
    assert own.load(model) is None
    own.save(model, {"steps": 7})
    assert own.load(model) == {"steps": 7}
    assert [path.name for path in own.folder.iterdir()] == ["copy-3.npz"]
    with pytest.raises(UsageError, match="Add --resume to go on"):
        a_checkpoint(own.folder, {"rate": 1, "minutes": 2}, resume=False).load(model)
    with pytest.raises(UsageError, match=r"other settings \(rate\)"):
        a_checkpoint(own.folder, {"rate": 2, "minutes": 2}).load(model)
    other = networks.network(copies(length=1), "lstm", {**TINY, "units": 6}, 0)
    other.compile(keras.optimizers.Adam())
    with pytest.raises(UsageError, match="not those of this model"):
        own.load(other)
    content = own.path.read_bytes()
    for damaged in (content[:-9], content[:200], b"", content.replace(b"array 1", b"")):
        own.path.write_bytes(damaged)
        with pytest.raises(UsageError, match="is damaged, or is no checkpoint"):
            own.load(model)
    middle = len(content) // 2
    changed = bytes([content[middle] ^ 255])
    own.path.write_bytes(content[:middle] + changed + content[middle + 1 :])
    with pytest.raises(UsageError, match="is damaged"):
        own.load(model)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used"):
        a_checkpoint(tmp_path / "file", {}).check()


def test_a_first_signal_is_remembered_and_a_second_has_its_effect():
    before = [signal.getsignal(number) for number in checkpoints.SIGNALS]
    with checkpoints.Signals() as signals:
        assert signals.received is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received == signal.SIGTERM
        assert [signal.getsignal(n) for n in checkpoints.SIGNALS] == before


def test_puzzles_of_a_resumed_run_are_those_of_the_whole_run():
    lessons = [{"goals": 1, "blocks": 3, "constraints": 1, "depth": 1}] * 2
    whole, resumed = worlds.Puzzles(lessons), worlds.Puzzles(lessons)
    for number in range(2):
        whole.draw(lessons[0], 4, [0, number], "train")
    resumed.restore(json.loads(json.dumps(whole.state())))
    one, other = (p.draw(lessons[0], 4, [0, 2], "train") for p in (whole, resumed))
    assert one["puzzles"] == other["puzzles"]
    assert len(resumed._seen[0]) == 12
