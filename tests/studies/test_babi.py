"""The benchmark of bAbI: its file of results, its tables, and one small run."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from calling import needs_data, needs_training

from keras_attention.datasets import DataNotFoundError, babi
from studies import command_line
from studies.babi import command, published, report, training
from studies.babi.distractors import Distractors
from studies.babi.recipes import RECIPES
from studies.command_line import UsageError
from studies.store import Store

RECIPE = RECIPES["paper-pe-ls-rn"]
HERE = {"recipe": "paper-pe-ls-rn", "size": "1k", "data": "real", "backend": "jax"}


def a_run(task=1, seed=0, error=10.0, train=1.0, loss=1.0, recipe=RECIPE):
    return {
        **{"recipe": recipe.name, "size": "1k", "data": "real"},
        **{"task": task, "seed": seed},
        **{"errors": {str(task): error}, "train_error": train, "train_loss": loss},
        **{"fit_seconds": 2.0, "backend": "jax", "keras": "3"},
        "settings": recipe.settings(),
    }


def test_published_columns_have_the_means_that_the_papers_state():
    paper = published.columns("1k")
    for column, mean in {
        **{"BoW": 25.1, "PE": 20.3, "PE_LS": 16.3, "PE_LS_RN": 13.9},
        **{"joint_1hop_PE_LS": 25.8, "joint_PE_LS_RN": 12.4, "LSTM": 51.3},
        **{"MemNN_strong": 6.7, "UT_joint": 7.78},
    }.items():
        assert len(paper[column]) == 20
        assert np.mean(paper[column]) == pytest.approx(mean, abs=0.06), column
    assert np.mean(published.columns("10k")["DNC1_best"]) == pytest.approx(4.3, abs=0.1)
    for recipe in RECIPES.values():
        assert recipe.column in paper
        assert recipe.column_10k in ("", *published.columns("10k"))


def test_a_store_is_read_again(tmp_path):
    path = tmp_path / "new" / "runs.jsonl"
    store = Store(path, command.NEEDED)
    runs = [a_run(task=1), a_run(task=2, seed=3)]
    for run in runs:
        store.add(run)
    again = Store(path, command.NEEDED)
    assert again.dropped is None
    assert again.runs == json.loads(json.dumps(runs)) == store.runs
    assert [run["task"] for run in again.find(seed=3)] == [2]
    assert again.find(task=2, seed=0) == []


def test_a_half_written_line_is_dropped_and_nothing_else(tmp_path):
    path = tmp_path / "runs.jsonl"
    store = Store(path, command.NEEDED)
    store.add(a_run(seed=0))
    store.add(a_run(seed=1))
    path.write_text(path.read_text()[:-9])
    again = Store(path, command.NEEDED)
    assert again.dropped.startswith('{"recipe"')
    assert [run["seed"] for run in again.runs] == [0]
    again.add(a_run(seed=1))
    last = Store(path, command.NEEDED)
    assert [run["seed"] for run in last.runs] == [0, 1]
    assert last.dropped is None


def test_a_line_that_lacks_only_its_end_is_kept(tmp_path):
    path = tmp_path / "runs.jsonl"
    Store(path, command.NEEDED).add(a_run(seed=4))
    path.write_text(path.read_text()[:-1])
    again = Store(path, command.NEEDED)
    assert again.dropped is None
    again.add(a_run(seed=5))
    assert [run["seed"] for run in Store(path, command.NEEDED).runs] == [4, 5]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hello\n", r"runs.jsonl, line 1 is no run of this benchmark"),
        ("hello", r"runs.jsonl, line 1 is no run of this benchmark"),
        ('{"my": "only copy"}', r"line 1 is a run without \['recipe', 'size', "),
        ("5\n", r"line 1 is no run of this benchmark. Received: '5'"),
        (
            '{"recipe": "paper-pe-ls-rn"}\n',
            r"line 1 is a run without \['size', 'data', ",
        ),
    ],
)
def test_another_file_is_left_alone(tmp_path, content, message):
    path = tmp_path / "runs.jsonl"
    path.write_text(content)
    with pytest.raises(UsageError, match=message):
        Store(path, command.NEEDED)
    assert path.read_text() == content
    with pytest.raises(UsageError, match=r"--out .* cannot be used"):
        Store(tmp_path, command.NEEDED)


def test_the_runs_that_are_missing(tmp_path):
    store = Store(tmp_path / "runs.jsonl", command.NEEDED)
    store.add(a_run(task=1, seed=0))
    store.add(a_run(task=2, seed=1))
    jobs = command.missing(store, RECIPE, HERE, [1, 2], [0, 1])
    assert [(job.task, job.seed) for job in jobs] == [(1, 1), (2, 0)]
    assert (
        len(command.missing(store, RECIPE, HERE | {"size": "10k"}, [1, 2], [0, 1])) == 4
    )
    other = replace(RECIPE, epochs=7, rate=0.5)
    with pytest.raises(UsageError, match=r"other settings \(epochs, rate\). Name ano"):
        command.missing(store, other, HERE, [1], [0])


def test_a_setting_that_one_of_two_has_is_another_setting(tmp_path):
    store = Store(tmp_path / "runs.jsonl", ("seed", "settings"))
    store.add({"settings": {"sizes": (2, 3), "rate": 0.5}, "seed": 7})
    assert store.path.read_text("utf-8").startswith('{"seed": 7, ')
    assert store.done("x", {"rate": 0.5, "sizes": (2, 3)}, seed=7) == store.runs[0]
    assert store.done("x", {}, seed=8) is None
    with pytest.raises(UsageError, match=r"has runs of x with other settings \(rate\)"):
        store.done("x", {"sizes": (2, 3)}, seed=7)
    with pytest.raises(UsageError, match=r"other settings \(more, sizes\)"):
        store.done("x", {"rate": 0.5, "sizes": (2,), "more": None}, seed=7)


def test_the_best_run_is_chosen_by_training_error_alone():
    runs = [
        a_run(seed=0, error=9.0, train=0.5),
        a_run(seed=1, error=20.0, train=0.1, loss=5.0),
        a_run(seed=2, error=4.0, train=0.1, loss=6.0),
        a_run(task=3, seed=0, error=50.0),
    ]
    assert report.best(runs[:3])["seed"] == 1
    assert report.errors_of_best(runs) == {1: 20.0, 3: 50.0}
    assert report.errors(runs)[1] == [9.0, 20.0, 4.0]


def test_the_table_and_what_json_holds():
    runs = [
        *(a_run(1, 0, 2.0, 0.0), a_run(1, 1, 4.0, 1.0)),
        *(a_run(3, 0, 6.0, 1.0), a_run(3, 1, 10.0, 0.0)),
    ]
    lines = report.table(runs, RECIPE, "1k").splitlines()
    # best by training error, mean and deviation, Sukhbaatar et al. 2015
    assert lines[1].split()[-5:] == ["2.0", "3.0", "±", "1.4", "0.0"]
    assert lines[2].split()[-5:] == ["10.0", "8.0", "±", "2.8", "40.3"]
    assert lines[3].split() == ["mean", "6.0", "5.5", "±", "2.1", "20.1"]
    # the means of the two seeds are 4 and 7; each has one failed task
    assert lines[4].split()[-5:] == ["1.0", "1.0", "±", "0.0", "1.0"]
    unknown = report.table(runs, RECIPE, "10k")  # a column that 10k has not
    assert "no published column" in unknown
    assert "nan" not in unknown
    found = report.summary(runs, RECIPE, "1k")
    assert (found["best_mean"], found["best_failed"], found["mean"]) == (6.0, 1, 5.5)
    assert found["sd"] == pytest.approx(2.12)
    assert found["settings"] == RECIPE.settings()
    assert len(json.dumps(found)) > 100
    assert [(run["task"], run["seed"]) for run in found["runs"]] == [
        *((1, 0), (1, 1), (3, 0), (3, 1))
    ]


def test_a_task_trained_on_less_stands_apart():
    def run(task, seed, error, questions):
        made = a_run(task, seed, error, recipe=RECIPES["single-renamed"])
        return made | {"questions": {str(task): questions}, "size": "10k"}

    runs = [
        *(run(2, 0, 1.0, 10_000), run(2, 1, 3.0, 10_000)),
        *(run(3, 0, 40.0, 1_925), run(3, 1, 60.0, 1_925)),
        *(run(4, 0, 6.0, 10_000), run(4, 1, 8.0, 10_000)),
    ]
    recipe = RECIPES["single-renamed"]
    lines = report.table(runs, recipe, "10k").splitlines()
    assert [line.split()[0] for line in lines] == [
        *("test", "2", "4", "mean", "failed", "3", "fit")
    ]
    # MemN2N_RNstar_single: 0.3 and 0.0 on tasks 2 and 4, 2.1 on task 3
    assert lines[3].split() == [
        *("mean", "of", "these", "2", "3.5", "4.5", "±", "1.4", "0.1")
    ]
    assert lines[5].endswith("2.1   trained on 1,925 questions")
    found = report.summary(runs, recipe, "10k")
    assert found["trained_on_less"] == {3: 1925}
    assert (found["best_mean"], found["mean"], found["best_failed"]) == (3.5, 4.5, 1)
    only = report.summary(runs[2:4], recipe, "10k")
    assert (only["best_mean"], only["mean"], only["sd"]) == (None, None, None)
    assert "mean" not in report.table(runs[2:4], recipe, "10k").splitlines()[1]


def test_what_is_left_of_a_missing_file(monkeypatch):
    """A missing file of 10k is pieced together from those that hold parts of it."""
    parts = {
        ("train", "1k"): babi.simulate(3, 20, seed=0),
        ("valid", "10k"): babi.simulate(3, 20, seed=0)[10:] + babi.simulate(3, 5, 1),
    }

    def load(task, split, size):
        if (split, size) == ("train", "10k"):
            raise DataNotFoundError("no file")
        return parts[split, size]

    monkeypatch.setattr(babi, "load", load)
    found = training._questions(3, "10k", "real")
    assert found == parts["train", "1k"] + parts["valid", "10k"][10:]

    def nothing(task, split, size):
        raise DataNotFoundError("no file")

    monkeypatch.setattr(babi, "load", nothing)
    for size in ("1k", "10k"):
        with pytest.raises(DataNotFoundError):
            training._questions(3, size, "real")


def test_validation_questions_are_of_held_out_stories():
    """No held-out question has a story of which training has another question."""
    tasks = (1, 3, 17, 19)
    examples = [one for task in tasks for one in babi.simulate(task, 100, seed=task)]
    stories = training.number_stories(examples)
    counts = {task: len({*stories[100 * i :][:100]}) for i, task in enumerate(tasks)}
    assert counts == {1: 20, 3: 20, 17: 13, 19: 100}
    for share in (0.0, 0.1, 0.25):
        held, used = training.split_by_story(stories, share, seed=4)
        assert sorted([*held, *used]) == [*range(400)]
        assert 400 * share <= len(held) < 400 * share + 8
        assert not {*stories[held]} & {*stories[used]}
    other, _ = training.split_by_story(stories, 0.1, seed=5)
    assert {*other} != {*training.split_by_story(stories, 0.1, seed=4)[0]}


def test_the_vocabulary_is_that_of_training(monkeypatch):
    """Words of the test questions are unknown, and unknown answers are wrong."""

    def load(task, split, size):
        if split == "train":
            return babi.simulate(1, 40)
        story = "1 Zoe went to the kitchen.\n"
        asked = "2 Where is Zoe?\tkitchen\t1\n3 Where is Zoe?\tcellar\t1\n"
        return babi.parse(story + asked, 1)

    monkeypatch.setattr(babi, "load", load)
    trainer = training.Trainer.__new__(training.Trainer)
    trainer.load(RECIPE, 1, "1k", "real")
    assert trainer.vocabulary == babi.Vocabulary.from_examples(babi.simulate(1, 40))
    assert trainer.test.inputs["story"][0, 0, 0] == 1
    kitchen = trainer.vocabulary.encode(["kitchen"])[0]
    assert trainer.test.answers.tolist() == [kitchen, 0]

    class Model:
        def predict(self, inputs, **options):
            return np.eye(len(trainer.vocabulary))[[kitchen, 0]]

    trainer.model = Model()
    wrong = trainer._wrong(trainer.test.inputs, trainer.test.answers)
    assert wrong.tolist() == [False, True]


def test_stories_are_padded_with_sentences_about_others():
    told = """1 Mary moved to the garden.
2 John got the apple.
3 After that he went to the kitchen.
4 Daniel went to the office.
5 Daniel gave the football to Fred.
6 Where is the apple?\tkitchen\t2 3
"""
    other = "1 Bill took the milk.\n2 Fred left the apple.\n3 Sandra moved to the park."
    other += "\n4 Then she went to the office.\n5 John and Bill went to the park.\n"
    other += "6 The kitchen is north of the park.\n7 Where is Bill?\tpark\t5\n"
    examples = babi.parse(told, 1) + babi.parse(other, 1)
    vocabulary = babi.Vocabulary.from_examples(examples)
    vectors = babi.vectorize(examples, vocabulary, memory_size=40)
    stories, questions = vectors.inputs["story"], vectors.inputs["question"]
    distractors = Distractors(stories, vocabulary)
    assert distractors.applicable(questions).all()
    generator = np.random.default_rng(0)
    seen, before = set(), set()
    for count in [30] * 20 + [1000]:
        new = distractors.add(stories[0], questions[0], count, generator)
        lines = [" ".join(vocabulary.decode(row)).strip() for row in new]
        assert lines.count("") == max(40 - 5 - count, 0)
        mine = [line for line in lines if "john" in line or " he " in line]
        assert mine == ["john got the apple", "after that he went to the kitchen"]
        at = lines.index(mine[1])
        assert lines[at - 1] == mine[0]  # nothing between a pronoun and its name
        before.add(at)
        seen |= {*lines}
    assert len(before) > 5
    assert {"bill took the milk", "sandra moved to the park"} < seen
    assert not {line for line in seen if " she " in line or "north" in line}


@pytest.mark.slow
@needs_training
def test_a_run_depends_on_its_seed_alone(monkeypatch):
    """The second run with the same compiled network equals one with a fresh network."""

    def load(task, split, size):
        return babi.simulate(1, 100, seed=0 if split == "train" else 1)

    monkeypatch.setattr(babi, "load", load)
    recipe = replace(RECIPE, epochs=2, linear_epochs=1, rate=0.02)
    trainer = training.Trainer(recipe, 1, "1k")
    other, one, again = trainer.run(5), trainer.run(1), trainer.run(1)
    fresh = training.Trainer(recipe, 1, "1k").run(1)
    for run in (one, again, fresh, other):
        del run["fit_seconds"]
    assert one == again
    assert one["train_loss"] == pytest.approx(fresh["train_loss"], rel=1e-3)
    assert one["train_loss"] != pytest.approx(other["train_loss"], rel=1e-3)
    assert set(one["errors"]) == {1}
    assert 0 < one["errors"][1] < 100


@pytest.mark.release
@needs_training
def test_a_run_keeps_the_network_with_the_lowest_training_error(monkeypatch):
    def load(task, split, size):
        return babi.simulate(1, 200, seed=0 if split == "train" else 1)

    monkeypatch.setattr(babi, "load", load)
    # The second network has one hop and cannot learn at its width of 1.
    narrow = {"hops": 1, "embedding_dim": 1}
    adam = {"optimizer": "Adam", "rate": 0.02, "epochs": 8, "linear_epochs": 2}
    recipe = replace(RECIPE, **adam, others=(narrow,))
    trainer = training.Trainer(recipe, 1, "1k")
    run = trainer.run(3)
    assert [one["epochs"] for one in run["tried"]] == [8, 8]
    assert [one["enough"] for one in run["tried"]] == [False, False]
    assert run["tried"][0]["train_error"] < run["tried"][1]["train_error"]
    assert run["network"] == 0
    assert run["train_error"] == run["tried"][0]["train_error"]
    assert trainer.model.embedding_dim == 20
    # In the opposite order, the kept network is the second one, from the same weights.
    wide = {"hops": 3, "embedding_dim": 20}
    turned = replace(recipe, arguments={**recipe.arguments, **narrow}, others=(wide,))
    other = training.Trainer(turned, 1, "1k").run(3)
    assert other["network"] == 1
    assert other["train_loss"] == pytest.approx(run["train_loss"], rel=1e-3)
    assert other["errors"] == run["errors"]


@needs_training
def test_training_ends_when_a_network_is_good_enough(monkeypatch):
    def load(task, split, size):
        return babi.simulate(1, 100, seed=0 if split == "train" else 1)

    monkeypatch.setattr(babi, "load", load)
    recipe = replace(RECIPE, epochs=9, linear_epochs=2, others=({"hops": 1},))
    run = training.Trainer(replace(recipe, enough=1e6), 1, "1k").run(0)
    # Three epochs in a row, after two with a linear start; no other network is needed.
    assert run["tried"] == [
        {**run["tried"][0], "epochs": 5, "enough": True},
    ]
    assert "enough" not in RECIPE.settings()


@needs_training
def test_a_joint_network_learns_its_first_tasks_alone(monkeypatch):
    def load(task, split, size):
        return babi.simulate(task, 60, seed=0 if split == "train" else 1)

    parts = []

    class Batches(training.Batches):
        def __init__(self, trainer, used, seed):
            super().__init__(trainer, used, seed)
            rate = float(trainer.model.optimizer.learning_rate)
            parts.append(({*trainer.train_tasks[used].tolist()}, rate))

    monkeypatch.setattr(babi, "load", load)
    monkeypatch.setattr(babi, "TASKS", {1: "one", 6: "six", 15: "fifteen"})
    monkeypatch.setattr(training, "Batches", Batches)
    first = {"first": (6, 15), "first_epochs": 2, "first_halve_every": 9}
    recipe = replace(
        RECIPES["paper-joint"], epochs=1, linear_epochs=1, rate=0.25, **first
    )
    recipe = replace(recipe, first_rate=0.5)
    told = []
    run = training.Trainer(recipe, None, "1k").run(0, lambda *one: told.append(one[0]))
    assert parts == [({6, 15}, 0.5), ({1, 6, 15}, 0.25)]
    assert told == [0, 1, 0]
    assert len(told) == recipe.all_epochs
    assert [*run["errors"]] == [1, 6, 15]
    assert run["settings"]["first"] == (6, 15)
    assert "first" not in RECIPES["paper-joint"].settings()


@needs_data
def test_simulated_questions_are_for_training_only():
    trainer = training.Trainer.__new__(training.Trainer)
    trainer.load(RECIPE, 6, "1k", "simulated")
    other = training.Trainer.__new__(training.Trainer)
    other.load(RECIPE, 6, "1k", "real")
    assert trainer.vocabulary == other.vocabulary
    np.testing.assert_array_equal(trainer.test.answers, other.test.answers)
    assert len(trainer.train.answers) == len(other.train.answers) == 1000
    assert (trainer.train.answers != other.train.answers).any()


KILLED = """
import os
import sys

from studies.babi import workers


def busy():
    print(os.getpid(), flush=True)
    while True:
        pass


if __name__ == "__main__":
    with workers.pool_of(1) as (pool, _):
        pool.submit(busy).result()
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a signal of POSIX")
@pytest.mark.backends("jax", reason="no backend has a part in it; jax is quick")
def test_a_process_ends_when_the_one_that_began_it_is_killed(tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    command = [sys.executable, str(tmp_path / "killed.py")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=command_line.environment()
    ) as parent:
        worker = int(parent.stdout.readline())
        parent.kill()
        # All processes share one pipe: it ends when the last of them has.
        try:
            assert parent.communicate(timeout=60)[0] == ""
        except subprocess.TimeoutExpired:
            os.kill(worker, signal.SIGKILL)
            raise


def run_command(*arguments):
    return command_line.main(["babi", *(str(argument) for argument in arguments)])


@pytest.mark.release
@needs_training
@needs_data
def test_a_stopped_benchmark_goes_on(tmp_path, capsys):
    out, summary = tmp_path / "runs.jsonl", tmp_path / "all.json"
    common = ["--recipe", "paper-pe-ls-rn", "--tasks", 1, "--epochs", 1, "--out", out]
    assert run_command(*common, "--seeds", 0) == 0
    assert "task 1, seed 0: test error" in capsys.readouterr().out
    assert run_command(*common, "--restarts", 2, "--json", summary) == 0
    said = capsys.readouterr().out
    assert "seed 0:" not in said
    assert "task 1, seed 1: test error" in said
    assert "test error in % (2 runs)" in said
    found = json.loads(summary.read_text())
    assert [run["seed"] for run in found["runs"]] == [0, 1]
    assert found["settings"]["epochs"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", 21], "--tasks must be from 1 to 20. Received: [21]"),
        (["--restarts", 0], "--restarts must be at least 1. Received: 0"),
        (["--jobs", 0], "--jobs must be from 1 to"),
        (["--epochs", 0], "--epochs must be at least 1. Received: 0"),
        (["--recipe", "paper-joint", "--tasks", 1], "Received: --recipe paper-joint"),
    ],
)
def test_what_cannot_be_done(capsys, arguments, message):
    assert run_command("--recipe", "paper-pe-ls-rn", *arguments) == 2
    assert message in capsys.readouterr().err


def test_batches_hold_each_question_once_in_a_bucket_that_fits(monkeypatch):
    monkeypatch.setattr(babi, "load", lambda task, split, size: babi.simulate(2, 250))
    recipe = replace(RECIPE, buckets=(5, 10, 1000), memory_size=20, batch_size=16)
    trainer = training.Trainer.__new__(training.Trainer)
    trainer.load(recipe, 2, "1k", "real")
    used = np.arange(10, 240)
    batches = training.Batches(trainer, used, seed=3)
    stories = trainer.train.inputs["story"]
    lengths = stories.any(-1).sum(-1)
    orders = []
    for _ in range(2):
        seen, slots = [], []
        for index in range(len(batches)):
            rows, _ = batches._batches[index]
            inputs, answers = batches[index]
            seen += rows.tolist()
            slots.append(inputs["story"].shape[1])
            assert lengths[rows].max() <= slots[-1]
            np.testing.assert_array_equal(inputs["story"], stories[rows, : slots[-1]])
            np.testing.assert_array_equal(answers, trainer.train.answers[rows])
            assert len(rows) == 16 or slots[-1] == 20
        assert sorted(seen) == used.tolist()
        assert set(slots) == {5, 10, 20}
        orders.append(seen)
        batches.on_epoch_end()
    assert orders[0] != orders[1]
