"""What the DNC benchmark draws, trains, scores, keeps and reports."""

import json
import os
import signal

import keras
import numpy as np
import pytest
from calling import needs_training

from keras_attention.datasets import algorithms, babi, blocks
from studies import command_line
from studies.blocks import wording
from studies.command_line import UsageError
from studies.dnc import (
    checkpoints,
    command,
    curricula,
    networks,
    problems,
    report,
    sequences,
    tasks,
    training,
    walks,
    worlds,
)

TINY = {"units": 5, "memory_slots": 3, "word_width": 2, "read_heads": 1}


class Says:
    """In a model's place: gives the logits that a function makes of its inputs."""

    def __init__(self, answer):
        self.answer = answer

    def predict(self, x, batch_size, verbose):
        assert len(x["inputs"]) % batch_size == 0
        assert x["inputs"].shape[1] % problems.STEPS == 0
        return self.answer(x)


def padded(array, x):
    """The targets as logits, 1 or -1, in the form that a model was asked for."""
    logits = problems.resized(2 * array - 1, x["inputs"].shape[1])
    return logits[np.arange(len(x["inputs"])) % len(array)]


def copies(**lesson):
    return problems.Bits(algorithms.copy, [lesson])


def test_bits_and_whole_sequences_are_counted_where_they_are_asked_for():
    problem = copies(length=(1, 4), bits=3)
    data = problem.draw(problem.lessons[0], 5, [7], "test")
    row, step = np.argwhere(data["answer_mask"])[0]
    wrong = data["targets"].copy()
    wrong[row, step, 1] = 1 - wrong[row, step, 1]
    wrong[~data["answer_mask"]] = 1  # says what it likes where it is not asked
    scores = problem.score(Says(lambda x: padded(wrong, x)), data, batch_size=2)
    bits = 3 * data["answer_mask"].sum()
    assert scores == pytest.approx({"bits": 1 - 1 / bits, "sequences": 4 / 5})


def test_no_sequence_is_of_two_parts_or_drawn_twice():
    problem = copies(length=5)
    seeds = [([s, n], "train") for s in (0, 1) for n in (0, 1)]
    seeds += [([s], part) for s in (0, 1) for part in ("validation", "test")]
    drawn = [problem.draw(problem.lessons[0], 3, *seed)["inputs"] for seed in seeds]
    for i, one in enumerate(drawn):
        assert all((one != other).any() for other in drawn[:i])


def whole_rows(inputs, mask, targets, steps=27):
    """Each sequence with its mask and its targets, as bytes, padded with zeros."""
    rows = np.concatenate([inputs, mask[..., None], targets], -1)
    rows = np.pad(rows, ((0, 0), (0, steps - rows.shape[1]), (0, 0)))
    return [row.astype("float32").tobytes() for row in rows]


def test_batches_are_padded_to_few_lengths_and_hold_all_that_was_drawn():
    problem = copies(length=(1, 13))
    batches = training.Fresh(problem, 16, batch_size=4, rounding=9, seed=3)
    steps, rows = set(), []
    for i in range(8):
        x, y = batches[i]
        steps.add(x["inputs"].shape[1])
        longest = x["answer_mask"].any(0).nonzero()[0].max() + 1
        assert x["inputs"].shape[1] == -(-longest // 9) * 9
        assert y.shape == (4, x["inputs"].shape[1], 8)
        rows += whole_rows(x["inputs"], x["answer_mask"], y)
    assert steps <= {9, 18, 27}
    data = problem.draw(problem.lessons[0], 32, [3, 0], "train")
    drawn = whole_rows(data["inputs"], data["answer_mask"], data["targets"])
    assert sorted(rows) == sorted(drawn)
    first = batches[0][0]["inputs"].copy()
    again = batches[8][0]["inputs"]
    assert first.shape != again.shape or (first != again).any()


def test_an_lstm_has_the_weights_of_the_dnc_and_hardly_more():
    problem = copies(length=3)
    dnc = networks.network(problem, "dnc", TINY, 0)
    lstm = networks.network(problem, "lstm", TINY, 0)
    units = next(x.units for x in lstm.layers if isinstance(x, keras.layers.LSTM))
    assert lstm.count_params() >= dnc.count_params()
    fewer = 4 * (units - 1) * (9 + units) + units * 8
    assert fewer < dnc.count_params()


def test_an_lstm_of_tokens_counts_its_embedding(monkeypatch):
    problem = stories(monkeypatch)
    arguments = {**TINY, "embedding_dim": 3}
    dnc = networks.network(problem, "dnc", arguments, 0)
    lstm = networks.network(problem, "lstm", arguments, 0)
    assert 0 <= lstm.count_params() - dnc.count_params() < 0.3 * dnc.count_params()


@pytest.mark.parametrize("model", ["dnc", "lstm"])
def test_the_first_rows_have_a_gain_and_nothing_else_does(model, tmp_path):
    problem = copies(length=3)
    plain = networks.network(problem, model, TINY, 0)
    rows = problem.width - 1
    settings = {**TINY, "kernel_gain": {"rows": rows, "gain": 3}}
    scaled = networks.network(problem, model, settings, 0)
    pairs = list(zip(plain.get_weights(), scaled.get_weights(), strict=True))
    [(old, new)] = [(a, b) for a, b in pairs if not np.array_equal(a, b)]
    np.testing.assert_allclose(new[:rows], 3 * old[:rows], rtol=1e-6)
    np.testing.assert_array_equal(new[rows:], old[rows:])
    scaled.save(tmp_path / "scaled.keras")
    keras.models.load_model(tmp_path / "scaled.keras")


def stories(monkeypatch, task=1, renamed=False, first=None):
    def load(number, part, size):
        assert number in (task, first)
        assert size == "10k"
        return babi.simulate(number, {"train": 200, "test": 53}[part], seed=len(part))

    monkeypatch.setattr(babi, "load", load)
    return worlds.Stories(task, renamed, first)


def test_a_question_of_babi_is_right_in_all_its_words(monkeypatch):
    problem = stories(monkeypatch, task=8)  # lists: answers of several words
    data = problem.draw({}, 0, [0], "test")
    assert len(np.unique(data["question"])) == 54  # and -1
    codes = np.eye(problem.outputs, dtype="float32")
    right = codes[data["targets"]]
    assert problem.score(Says(lambda x: padded(right, x)), data, 8) == {"answers": 1}
    number = next(n for n in range(53) if (data["question"] == n).sum() > 1)
    at = tuple(np.argwhere(data["question"] == number)[0])
    right[at] = np.roll(right[at], 1)
    found = problem.score(Says(lambda x: padded(right, x)), data, 8)
    assert found["answers"] == pytest.approx(52 / 53)


def test_stories_of_validation_are_not_trained_on(monkeypatch):
    problem = stories(monkeypatch)
    last = problem.lessons[-1]
    held = problem.draw(last, 0, [0], "validation")
    seen = problem.draw(last, 500, [0], "train")
    assert len(held["inputs"]) == 4
    numbers = [set(np.unique(d["question"])) - {-1} for d in (held, seen)]
    assert not numbers[0] & numbers[1]
    assert len(numbers[1]) > 150


def test_a_lesson_of_babi_ends_with_the_answers_to_its_questions(monkeypatch):
    problem = stories(monkeypatch, task=8)
    assert [lesson["questions"] for lesson in problem.lessons] == [1, 2, 5]
    whole = problem.draw(problem.lessons[-1], 0, [0], "validation")
    cut = worlds.up_to(whole, 2)
    for row, length in enumerate(cut["lengths"]):
        questions = dict.fromkeys(whole["question"][row]) | {-1: None}
        first_two = [q for q in questions if q >= 0][:2]
        asked = np.isin(whole["question"][row], first_two)
        assert length == 1 + np.flatnonzero(asked)[-1] < whole["lengths"][row]
        for name in ("inputs", "answer_mask", "targets", "question"):
            kept, nothing = whole[name][row, :length], -1 * (name == "question")
            np.testing.assert_array_equal(cut[name][row, :length], kept)
            assert (cut[name][row, length:] == nothing).all()
    again = worlds.up_to(whole, 5)
    for name, array in whole.items():
        np.testing.assert_array_equal(again[name], array)


def test_a_lesson_of_babi_that_hardly_shortens_its_stories_is_none(monkeypatch):
    problem = stories(monkeypatch, task=15)  # all facts stand before all questions
    assert [lesson["questions"] for lesson in problem.lessons] == [4]


def test_the_lessons_of_another_task_come_first(monkeypatch):
    plain, other = (stories(monkeypatch, 6, r, first=1) for r in (False, True))
    # Of task 1 the answers are places; of task 6 they are "yes" and "no".
    words = sequences.sequence_vocabulary(
        example
        for number in (1, 6)
        for part in ("train", "test")
        for example in babi.load(number, part, "10k")
    )
    assert plain.vocabulary == other.vocabulary == len(words)
    says = set(words.encode(["yes", "no"]))
    for lesson in plain.lessons:
        for part in ("train", "validation"):
            drawn, moved = (p.draw(lesson, 40, [0], part) for p in (plain, other))
            answers = set(drawn["targets"][drawn["answer_mask"]].tolist())
            assert not answers & says if lesson["task"] == 1 else answers == says
            # In both tasks words are exchanged, to train on and nowhere else.
            assert (drawn["inputs"] != moved["inputs"]).any() == (part == "train")
    test = plain.draw(plain.tests["test"], 0, [0], "test")
    assert set(test["targets"][test["answer_mask"]].tolist()) == says
    first, own = (stories(monkeypatch, task).lessons for task in (1, 6))
    assert plain.lessons == [*first, *own]
    assert plain.bars == [worlds.FIRST_BAR] * len(first)
    alone = stories(monkeypatch, 6, first=6)
    assert (alone.lessons, alone.bars) == (own, [])


def test_words_are_exchanged_throughout_a_story_to_train_on(monkeypatch):
    plain, other = (stories(monkeypatch, renamed=r) for r in (False, True))
    last = plain.lessons[-1]
    one, two = (p.draw(last, 60, [0], "train") for p in (plain, other))
    moved = 0
    for name in ("answer_mask", "question", "lengths"):
        np.testing.assert_array_equal(one[name], two[name])
    for row in range(60):
        pairs = set()
        for name in ("inputs", "targets"):
            pairs |= set(zip(one[name][row].tolist(), two[name][row].tolist()))
        # Each word became one word, and no two became the same.
        for side in (0, 1):
            assert len({pair[side] for pair in pairs}) == len(pairs)
        assert (0, 0) in pairs
        moved += any(a != b for a, b in pairs)
    assert moved > 50
    for part in ("validation", "test"):
        held = [p.draw(last, 0, [0], part)["inputs"] for p in (plain, other)]
        np.testing.assert_array_equal(*held)


def test_the_true_path_is_shortest_and_chance_is_told():
    lessons = curricula.SHORTEST_PATH_SMALL[:2]
    problem = walks.walks("shortest_path", lessons, (2,))()
    data = problem.draw(problem.lessons[1], 32, [0], "test")

    def knows(x):
        """Reads the triple that follows in a shortest path, wherever it has come to."""
        return problems.resized(truth, x["inputs"].shape[1])[
            np.arange(len(x["inputs"])) % 32
        ]

    truth = 10 * data["targets"]
    scores = problem.score(Says(knows), data, 32)
    assert scores["shortest"] == scores["valid"] == 1
    assert 0 < scores["shortest by chance"] < 1


def test_a_walk_counts_with_all_its_triples():
    problem = walks.walks("traversal", curricula.TRAVERSAL, (1, 14))()
    assert list(problem.tests) == ["lesson 1", "lesson 14"]
    data = problem.draw(problem.lessons[1], 16, [0], "test")
    logits = data["targets"].copy()
    row, step = np.argwhere(data["answer_mask"])[0]
    logits[row, step, :10] = logits[row, step, :10][::-1]  # another digit
    scores = problem.score(Says(lambda x: padded(logits, x)), data, 16)
    triples = data["answer_mask"].sum()
    assert scores == pytest.approx({"walks": 15 / 16, "triples": 1 - 1 / triples})


def test_softmaxes_are_summed_over_their_groups():
    random = np.random.default_rng(0)
    logits = random.normal(size=(2, 3, 12)).astype("float32")
    classes = random.integers(4, size=(2, 3, 3))
    targets = np.eye(4, dtype="float32")[classes].reshape(2, 3, 12)
    loss = walks.Softmaxes(4)
    mine = keras.ops.convert_to_numpy(loss.call(targets, logits))
    z = logits.reshape(2, 3, 3, 4).astype("float64")
    logs = z - np.log(np.exp(z).sum(-1, keepdims=True))
    theirs = -np.take_along_axis(logs, classes[..., None], -1).sum((2, 3))
    np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    assert walks.Softmaxes.from_config(loss.get_config()).size == 4


def test_puzzles_in_other_words_are_none_of_the_test():
    random, moved = np.random.default_rng(0), 0
    kind = {"goals": 1, "blocks": 3, "constraints": 1, "depth": 1}
    for puzzle in blocks.draw_puzzles(100, **kind, seed=1):
        told = worlds._retold(puzzle, random)
        assert not blocks.is_of_the_test(told)
        moved += told.board != puzzle.board
    plain = [wording.renamed(p, random) for p in blocks.draw_puzzles(100, **kind)]
    assert any(map(blocks.is_of_the_test, plain))  # so there was something to refuse
    assert moved > 50


def test_puzzles_come_again_but_none_of_the_test():
    problem = worlds.puzzles(
        [{"goals": 1, "blocks": 3, "constraints": 1, "depth": 1}]
    )()
    lesson = problem.lessons[0]
    for i in range(3):
        data = problem.draw(lesson, 8, [0, i], "train")
        assert data["inputs"].shape[0] == 8
    assert len(problem._seen[0]) == 24
    data = problem.draw(lesson, 4, [0], "test")

    def right(x):
        return padded(data["targets"], x)

    scores = problem.score(Says(right), data, 4)
    assert scores == {"solved": 1, "fewest moves": 1}


def made_up(monkeypatch):
    """Puts a made-up result in the place of a trained one; returns what was done."""
    done = []

    def run_of(problem, model, settings, seed, larger=None, **_):
        done.append((model, seed, settings["network"].get("links", True), larger))
        test = {"sequences tested": 9, "bits": 0.875, "sequences": 0.5}
        return {
            **{"seconds": 3.0, "cpu_seconds": 2.0, "steps": 1234, "lesson": 3},
            **{"of_lessons": 3, "solved": True, "history": [], "weights": 45678},
            "tests": dict.fromkeys(problem.tests, test),
        }

    monkeypatch.setattr(command, "run_of", run_of)
    return done


def run_command(*arguments):
    return command_line.main(["dnc", *(str(argument) for argument in arguments)])


def test_a_stopped_benchmark_goes_on_and_its_page_has_every_run(
    tmp_path, monkeypatch, capsys
):
    done = made_up(monkeypatch)
    out, page, results = (tmp_path / name for name in ("r.jsonl", "r.md", "r.json"))
    common = ["--out", out, "--json", results, "--page", page]
    assert run_command("copy", "--seeds", 0, 0, 1, *common) == 0
    assert run_command("copy", "--seeds", 0, 1, 2, *common) == 0
    assert run_command("copy", "--links", "none", *common) == 0
    assert run_command("copy-sparse", *common) == 0
    assert run_command("copy", "--model", "lstm", *common) == 0
    assert done == [
        *[("dnc", seed, True, (128,)) for seed in range(3)],
        ("dnc", 0, False, (128,)),
        ("dnc", 0, 8, (4096,)),
        ("lstm", 0, True, ()),
    ]
    assert (
        "copy, DNC, no links, seed 0: up to 20: bits 87.50" in capsys.readouterr().out
    )
    again = tmp_path / "again.md"
    assert run_command("--out", out, "--page", again) == 0
    text = page.read_text("utf-8")
    assert again.read_text("utf-8") == text
    backend = f"KERAS_BACKEND={keras.config.backend()}"
    start = f"{backend} python examples/studies/dnc copy"
    assert f"{start} --seeds 0 1 2\n{start} --links none --seeds 0\n" in text
    assert f"{start} --model lstm --seeds 0\n" in text
    assert "| DNC, 8 links, seed 0 | 50.00 | 50.00 | 3 of 3, passed |" in text
    assert len(json.loads(results.read_text("utf-8"))["runs"]) == 6
    assert run_command("copy", "--minutes", 3, *common) == 2
    assert "other settings (minutes)" in capsys.readouterr().err


def test_a_stopped_run_says_so_and_keeps_its_checkpoint(tmp_path, monkeypatch, capsys):
    def run_of(*_, checkpoint, **__):
        assert checkpoint.folder == tmp_path
        assert checkpoint.run["settings"]["minutes"] == tasks.TASKS["copy"].minutes
        raise checkpoints.Interrupted(15)

    monkeypatch.setattr(command, "run_of", run_of)
    out = tmp_path / "r.jsonl"
    assert run_command("copy", "--checkpoints", tmp_path, "--out", out) == 143
    assert "stopped by signal 15; --resume goes on." in capsys.readouterr().out
    assert out.read_text("utf-8") == ""
    assert run_command("copy", "--checkpoints", tmp_path, "--unfinished") == 2
    assert "has no checkpoint of" in capsys.readouterr().err


def small_copies(monkeypatch):
    """Makes "copy" a task of one short lesson for a tiny network."""
    task = tasks.TASKS["copy"]
    small = {"steps": 16, "batch_size": 2, "validation": 4, "tested": 4}
    monkeypatch.setitem(
        tasks.TASKS,
        "copy",
        task._replace(
            problem=lambda: problems.Bits(algorithms.copy, [{"length": 1, "bits": 1}]),
            network=TINY,
            training={**task.training, **small, "last_bar": 0.0, "in_a_row": 1},
            larger=(),
        ),
    )


@pytest.mark.slow
@needs_training
def test_an_unfinished_run_is_reported_but_not_stored(tmp_path, monkeypatch):
    small_copies(monkeypatch)
    out, page = tmp_path / "r.jsonl", tmp_path / "r.md"
    where = ["--checkpoints", tmp_path, "--out", out, "--page", page]
    with monkeypatch.context() as context:  # a signal within the first epoch
        stop = lambda _: os.kill(os.getpid(), signal.SIGTERM) or True  # noqa: E731
        context.setattr(command.Checkpoint, "is_due", stop)
        assert run_command("copy", *where) == 143
    assert run_command("copy", "--unfinished", *where) == 0
    assert "unfinished (" in page.read_text("utf-8")
    assert out.read_text("utf-8") == ""
    # A run that has ended is in its checkpoint, too, and is not stored by this option.
    assert run_command("copy", "--resume", *where) == 0
    stored = out.read_text("utf-8")
    assert len(stored.splitlines()) == 1
    out.write_text("", "utf-8")
    assert run_command("copy", "--unfinished", *where) == 0
    assert "passed |" in page.read_text("utf-8")
    assert out.read_text("utf-8") == ""


def test_babi_and_walks_have_tables_of_their_own(tmp_path, monkeypatch):
    made_up(monkeypatch)
    stories(monkeypatch)
    out, page = tmp_path / "r.jsonl", tmp_path / "r.md"
    result = command.run_of

    def run_of(problem, *args, **kwargs):
        row = result(problem, *args, **kwargs)
        right = {"answers": 0.97, "walks": 0.25}
        row["tests"] = dict.fromkeys(row["tests"], right)
        return row

    monkeypatch.setattr(command, "run_of", run_of)
    assert run_command("traversal", "babi", "--tasks", 1, "--out", out) == 0
    assert run_command("traversal", "--model", "lstm", "--out", out) == 0
    assert run_command("--out", out, "--page", page) == 0
    text = page.read_text("utf-8")
    assert "| 1 | babi | 3.0 | 9.0 | 0.0 | 3 of 3, passed |" in text
    assert "| walks right | DNC, seed 0 | LSTM, seed 0 |" in text
    assert "| lesson 14 | 25.00 | 25.00 |" in text
    assert "dnc babi --tasks 1 --seeds 0\n" in text


def test_numbers_of_slots_have_a_row_each(tmp_path, monkeypatch):
    made_up(monkeypatch)
    out, page = tmp_path / "r.jsonl", tmp_path / "r.md"
    result = command.run_of

    def run_of(*args, **kwargs):
        row = result(*args, **kwargs)
        for after, bits in (("", 1.0), (", fixed ε", 0.5)):
            row["tests"][f"40, 4096 slots{after}"] = {"bits": bits, "sequences": 0.25}
        return row

    monkeypatch.setattr(command, "run_of", run_of)
    assert run_command("copy-slots", "--out", out, "--page", page) == 0
    text = page.read_text("utf-8")
    assert "| 64 | 50.00 | 50.00 |\n" in text
    assert "| 4,096 |  | 25.00 |\n" in text
    assert "| 4,096, fixed ε |  | 25.00 |\n" in text


def test_what_cannot_be_asked(capsys):
    assert run_command("babi", "--tasks", 21) == 2
    assert "--tasks must be from 1 to 20. Received: [21]" in capsys.readouterr().err
    assert run_command("copy", "--minutes", 0) == 2
    assert "--minutes must be above 0. Received: 0.0" in capsys.readouterr().err
    assert run_command("copy", "--batch-size", 0) == 2
    assert "--batch-size must be at least 1. Received: 0" in capsys.readouterr().err
    assert run_command("copy", "--resume") == 2
    assert "--resume needs --checkpoints" in capsys.readouterr().err
    assert run_command("copy", "--unfinished") == 2
    assert "--unfinished needs --checkpoints" in capsys.readouterr().err
    args = command.argparse.Namespace(
        **{"names": ["copy"], "model": "lstm", "links": 3, "seeds": [0], "tasks": []},
        minutes=None,
        batch_size=None,
    )
    with pytest.raises(UsageError, match="--links is of a DNC"):
        list(command.jobs_of(args))


def test_an_epoch_keeps_its_sequences_with_another_batch_size():
    args = command.argparse.Namespace(
        **{"names": ["copy"], "model": None, "links": None, "seeds": [0], "tasks": []},
        minutes=None,
        batch_size=64,
    )
    (job,) = command.jobs_of(args)
    before = tasks.TASKS["copy"].training
    after = job.settings["training"]
    assert after["batch_size"] == 64 != before["batch_size"]
    for settings in (before, after):
        assert settings["steps"] * settings["batch_size"] == 3200
    run = {**job.wanted, "settings": job.settings}
    assert "dnc copy --batch-size 64 --seeds 0" in report.commands([run])


def test_every_model_has_a_name_and_settings_are_json():
    assert set(report.NAMES) == set(networks.MODELS)
    for task in tasks.TASKS.values():
        json.dumps([task.network, task.training])
        assert {"tested", "validation", "bar", "last_bar"} < set(task.training)
