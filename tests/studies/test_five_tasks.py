"""The command `five-tasks`: its stories, networks, runs and page."""

import json

import keras
import numpy as np
import pytest
from calling import needs_training

from studies import command_line
from studies.five_tasks import command, models, report, training
from studies.five_tasks.tasks import DISTANCE, TASKS, as_questions, as_sequences


def answered(name, facts, question):
    """The answers of one story, found without the generator's own numbers."""
    facts = [tuple(map(int, fact)) for fact in facts]
    if name == "recall":
        return [dict(facts)[int(question[0])]]
    if name == "two hops":
        ring = dict(facts)
        return [ring[ring[int(question[0])]]]
    if name == "sort":
        return sorted(number for (number,) in facts)
    if name == "copy":
        return [symbol for (symbol,) in facts]
    start, end = map(int, question)
    paths = [[start]]
    while True:  # breadth first, both ways along each edge
        path = paths.pop(0)
        if path[-1] == end:
            assert len(path) == DISTANCE + 1
            return path[1:-1]
        for a, b in facts + [(b, a) for a, b in facts]:
            if a == path[-1] and b not in path:
                paths.append([*path, b])


@pytest.mark.parametrize("name", TASKS)
def test_answers_are_right_and_the_supporting_facts_prove_them(name):
    task = TASKS[name]
    stories = task.stories(40, [3, 1])
    assert all(array.dtype == "int32" and len(array) == 40 for array in stories)
    for facts, question, answers, supports in zip(*stories):
        assert answered(name, facts, question) == answers.tolist()
        for answer, its in zip(answers, supports):
            known = facts[its[its >= 0]]
            assert answer in known[-1]
            linked = set(map(int, question)) or {int(answer)}
            for fact in known:  # each fact shares a word with what is known before
                assert linked & set(map(int, fact))
                linked |= set(map(int, fact))
    used = np.concatenate([array.ravel() for array in stories[:3]])
    assert used.min() >= 1
    assert used.max() <= task.names
    again, other = task.stories(40, [3, 1]), task.stories(40, [3, 2])
    np.testing.assert_array_equal(stories.facts, again.facts)
    assert not np.array_equal(stories.facts, other.facts)


def most_frequent(words, question):
    """The most frequent word of each story that is not in the question, (N, 1)."""
    found = []
    for row, asked in zip(words, question):
        names, counts = np.unique(row[~np.isin(row, asked)], return_counts=True)
        found.append([names[counts.argmax()]])
    return np.array(found)


def test_a_guess_is_right_as_often_as_the_page_says():
    for name, task in TASKS.items():
        stories = task.stories(8000, [5])
        words = stories.facts.reshape(len(stories.facts), -1)
        if name == "recall":
            guess = most_frequent(stories.facts[..., 1], stories.question)
        elif name in ("copy", "path"):
            guess = most_frequent(words, stories.question)
        elif name == "sort":
            means = np.arange(1, 11) * (task.names + 1) / 11
            nearest = np.abs(words[:, :, None] - means).argmin(1)
            guess = np.take_along_axis(words, nearest, 1)
        else:
            guess = words[:, :1]
        found = (guess == stories.answers).mean()
        assert abs(found - task.guess) < 0.01, name


def test_a_story_as_a_sequence_and_as_questions():
    task = TASKS["path"]
    stories = task.stories(2, [0])
    x = as_sequences(task, stories)
    assert x["story"].shape == (2, 9 * 2 + 2)
    np.testing.assert_array_equal(x["story"][1, :2], stories.facts[1, 0])
    np.testing.assert_array_equal(x["story"][:, -2:], stories.question)
    np.testing.assert_array_equal(x["places"], [[21, 22, 23]] * 2)
    q = as_questions(task, stories)
    assert q["story"].shape == (6, 9, 2)
    np.testing.assert_array_equal(q["story"][5], stories.facts[1])
    np.testing.assert_array_equal(q["question"][4], [*stories.question[1], 22])
    np.testing.assert_array_equal(q["supporting_facts"][4], stories.supports[1, 1])


@needs_training
@pytest.mark.parametrize("name", models.FAMILIES)
def test_each_model_has_as_many_weights_as_the_others_and_trains_all(name):
    family, task = models.FAMILIES[name], TASKS["path"]
    size, weights = models.sized(family, task)
    assert abs(weights / models.WEIGHTS - 1) <= models.TOLERANCE
    keras.utils.set_random_seed(0)
    model = family.build(task, size)
    assert model.count_params() == weights
    before = model.get_weights()
    training.compiled(model, family, 0.01, training.TRAINING)
    for n in range(3):
        stories = task.stories(32, [training.TRAIN, n])
        model.train_on_batch(*training.batch_of(family, task, stories))
    for weight, old, new in zip(model.weights, before, model.get_weights()):
        # Up to 5 rows of 25 embed words that a story cannot have here: padding and, in
        # a memory of facts, the words for the places. Some units of a ReLU are off.
        assert np.mean(old != new) >= 0.8, weight.path
    right = training.tested(model, family, task, 8, training.TEST)
    assert right.shape == (8, task.answers)
    assert right.dtype == bool


def test_a_model_that_cannot_have_so_many_weights():
    family = models.FAMILIES["rnn"]._replace(sizes=(4, 8))
    with pytest.raises(models.DoesNotFitError, match=r"RNN has .* not 50,000"):
        models.sized(family, TASKS["copy"])


@pytest.mark.release
@needs_training
def test_the_command_tries_rates_and_goes_on(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "WEIGHTS", 6000)
    monkeypatch.setattr(command, "RATES", (0.001, 0.01))
    monkeypatch.setitem(command.TRAINING, "tested", 16)
    monkeypatch.setitem(command.TRAINING, "validated", 8)
    parts, tested = [], training.tested
    monkeypatch.setattr(
        *(training, "tested"),
        lambda *args: parts.append(args[3:]) or tested(*args),
    )
    out, page, results = (tmp_path / name for name in ("r.jsonl", "p.md", "r.json"))
    start = ["five_tasks", "--minutes", "0.0001", "--seeds", "0", "--out", str(out)]
    start += ["--page", str(page), "--json", str(results)]
    assert command_line.main([*start, "--models", "memn2n", "--tasks", "recall"]) == 0
    lines = out.read_text("utf-8").splitlines()
    assert len(lines) == 3
    stories = [n for n, _ in parts], [part for _, part in parts]
    assert stories == ([8, 8, 16], [training.VALIDATION] * 2 + [training.TEST])
    told = capsys.readouterr().out
    assert told.count("seed 100") == 2
    assert told.count("seed 0") == 1
    more = ["--tasks", "recall", "copy", "--models"]
    assert command_line.main([*start, *more, "memn2n"]) == 0
    runs = json.loads(results.read_text("utf-8"))["runs"]
    assert len(runs) == 4
    for run in runs:
        assert 0 <= run["result"]["stories"] <= run["result"]["answers"] <= 1
        assert run["result"]["steps"] >= 1
    assert "| MemN2N | " in page.read_text("utf-8")
    # Another rate: the results and the page have the runs of this command alone.
    assert (
        command_line.main([*start, *more[:2], "--models", "memn2n", "--rate", "1"]) == 0
    )
    (run,) = json.loads(results.read_text("utf-8"))["runs"]
    assert run["rate"] == 1
    text = page.read_text("utf-8")
    assert "## rates" not in text
    assert (
        f"KERAS_BACKEND={keras.config.backend()} python examples/studies/"
        "five_tasks --models memn2n --tasks recall --seeds 0 --minutes 0.0001 --rate 1 "
        "--out "
    ) in text
    text = out.read_text("utf-8")
    assert text.splitlines()[:3] == lines
    assert len(text.splitlines()) == 5


def one(model, task, seed, rate=0.001, **result):
    settings = {**training.TRAINING, "minutes": 1.5, "weights": 50_000}
    return {
        "task": task,
        "model": model,
        "seed": seed,
        "rate": rate,
        "backend": "jax",
        "keras": "3",
        "settings": settings,
        "result": result,
    }


def test_the_page_tells_what_a_model_learned():
    def result(answers):
        return {"answers": answers, "stories": 0, "weights": 50_001, "steps": 7}

    runs = [one("dnc", "copy", s, **result(a)) for s, a in ((0, 0.99), (1, 0.97))]
    runs += [one("dnc", "recall", s, **result(0.5)) for s in (0, 1)]
    runs += [one("dnc", "sort", s, **result(0.15)) for s in (0, 1)]
    runs += [one("rnn", "copy", 0, skipped="RNN has 3 weights, not 50,000")]
    tables = report.tables({"five-tasks": report.whole(runs)})
    text = "\n".join(tables.values())
    assert "| DNC | 50.0 ± 0.0 |  | 15.0 ± 0.0 | 98.0 ± 1.4 |  |" in text
    assert "| DNC | 0.001 | 7 |" in text
    assert "| the value that occurs most often | 19.1 % |" in text
    assert "- RNN, copy: RNN has 3 weights, not 50,000" in text
    assert "| RNN |  |  |  | skipped |  |" in text


def test_the_page_tells_the_tried_rates_and_a_command():
    wrong = {"answers": 0.0, "stories": 0, "weights": 50_001, "steps": 7}
    tried = training.TRIED_SEED
    runs = [one("dnc", "recall", tried, rate, **wrong) for rate in (0.1, 0.2)]
    runs[1]["result"]["answers"] = 0.25
    tables = report.tables({"five-tasks": report.whole(runs)})
    assert tables["rates"].endswith("| DNC | 0.0 | 25.0 |")
    runs += [
        one(model, task, seed, 0.2, **wrong)
        for model in models.FAMILIES
        for task in TASKS
        for seed in training.SEEDS
    ]
    tables = report.tables({"five-tasks": report.whole(runs)})
    assert "studies/five_tasks --out" in tables["command"]  # all options by default
    one_seed = [run for run in runs if run["seed"] == 1 and run["task"] == "two hops"]
    tables = report.tables({"five-tasks": report.whole(one_seed)})
    command = "/five_tasks --tasks 'two hops' --seeds 1 --rate 0.2 --out"
    assert command in tables["command"]
    assert "±" not in tables["answers"]


def test_the_best_rate():
    runs = [
        one("dnc", "recall", 100, 0.1, answers=0.5, loss=float("nan")),
        one("dnc", "recall", 100, 0.2, answers=0.5, loss=0.4),
        one("dnc", "recall", 100, 0.3, answers=0.4, loss=0.1),
    ]
    assert command.best(runs)["rate"] == 0.2
    assert command.best([one("dnc", "recall", 100, skipped="no")])["rate"] == 0.001
    assert (
        command.best([{**run, "rate": 0.9} for run in runs[1:2]] + runs)["rate"] == 0.9
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--minutes", "0"], "--minutes must be above 0. Received: 0.0"),
        (["--rate", "-1"], "--rate must be above 0. Received: -1.0"),
        (["--seeds", "100"], "--seeds must not contain 100"),
    ],
)
def test_what_the_command_refuses(more, message, capsys):
    assert command_line.main(["five_tasks", *more]) == 2
    assert message in capsys.readouterr().err
