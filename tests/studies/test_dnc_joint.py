"""All bAbI tasks for one network of the DNC benchmark."""

import json

import keras
import numpy as np
import pytest

from keras_attention.datasets import algorithms, babi
from studies.dnc import fresh, joint, joint_tables, problems, tasks, training

SIZES = {"train": 60, "test": 20}


def load(number, part):
    """Simulated questions; of task 3, half are said to be so."""
    examples = babi.simulate(number, SIZES[part], seed=len(part))
    return examples, 30 if (number, part) == (3, "train") else len(examples)


@pytest.fixture(scope="module")
def problem():
    made = joint.JointStories((40, 128, 1440), load)
    # Searching for interchangeable words takes seconds.
    made._groups = {1: (("john", "mary"),)}
    return made


class Says:
    """In a model's place: gives the logits that a function makes of its inputs."""

    def __init__(self, answer):
        self.answer = answer

    def predict(self, x, batch_size, verbose):
        return self.answer(x)


def test_every_task_has_a_test_of_its_own(problem):
    assert list(problem.tests) == [f"task {number}" for number in range(1, 21)]
    for number in (1, 8):
        data = problem.draw(problem.tests[f"task {number}"], 0, [0], "test")
        assert set(data["task"]) == {number}
        assert len(np.unique(data["question"][data["answer_mask"]])) == 20


@pytest.mark.parametrize("lesson", [0, 1, 2])
def test_stories_of_a_lesson_end_with_a_whole_answer_in_time(problem, lesson):
    steps = problem.lessons[lesson]["steps"]
    data = problem.draw(problem.lessons[lesson], 200, [5, lesson], "train")
    assert len(data["inputs"]) == 200
    assert 0 < data["lengths"].max() <= steps
    for row, length in enumerate(data["lengths"]):
        assert data["answer_mask"][row, length - 1]
        assert not data["inputs"][row, length:].any()
        # The whole story has each of these questions with as many answer words.
        number = data["task"][row]
        questions = np.unique(data["question"][row])[1:]
        whole = problem._train[number]["question"]
        for question in questions:
            words = np.sum(data["question"][row] == question)
            assert words == np.sum(whole == question)
        # The next question would end too late.
        [story] = np.flatnonzero((whole == questions[0]).any(1))
        left = np.unique(whole[story][whole[story] > questions[-1]])
        if len(left):
            assert np.flatnonzero(whole[story] == left[0]).max() >= steps


def test_short_lessons_leave_out_tasks_and_the_last_has_all(problem):
    tasks = [set(problem.tasks_of(lesson["steps"])) for lesson in problem.lessons]
    assert 1 in tasks[0]
    assert not {3, 16, 19} & tasks[0]
    assert tasks[0] < tasks[1] <= tasks[2] == set(range(1, 21))


def test_held_stories_are_real_and_not_trained_on(problem):
    data = problem.draw(problem.lessons[-1], 0, [0], "validation")
    assert set(data["task"]) == set(problem._held)
    for number, held in problem._held.items():
        seen = problem._train[number]["question"]
        assert not set(np.unique(held["question"])) & set(np.unique(seen)) - {-1}
        own = data["task"] == number
        assert set(np.unique(data["question"][own])) == set(np.unique(held["question"]))
    assert problem._held[3]["question"].max() < 30
    # At most one story a task.
    few = problem.draw(problem.lessons[-1], 1, [0], "validation")
    assert np.bincount(few["task"]).max() == 1


def test_words_are_exchanged_as_the_used_stories_allow(problem):
    examples = {n: load(n, "train")[0] for n in (1, 3)}
    for number, known in examples.items():
        held = np.unique(problem._held[number]["question"])
        used = [e for n, e in enumerate(known) if n not in held]
        assert len(used) < len(known)
        assert problem._examples[number] == used


def test_tasks_with_errors_are_drawn_more_often(problem):
    last = problem.lessons[-1]
    problem.scored({f"task {n}": 1.0 for n in babi.TASKS if n not in (7, 12)})
    tasks = problem.draw(last, 1000, [1], "train")["task"]
    shares = np.bincount(tasks, minlength=21) / 1000
    assert shares[7] + shares[12] > 0.7
    assert shares.sum() - shares[7] - shares[12] > 0.1
    # The longer stories are drawn less often.
    lengths = problem.tasks_of(last["steps"])
    ratio = np.sqrt(lengths[7][2] / lengths[12][2])
    assert shares[12] / shares[7] == pytest.approx(ratio, rel=0.2)
    again = joint.JointStories((1440,), load)
    again.restore(json.loads(json.dumps(problem.state())))
    drawn = [p.draw(last, 30, [1, 2], "train") for p in (problem, again)]
    for name, array in drawn[0].items():
        np.testing.assert_array_equal(array, drawn[1][name])
    problem.scored({f"task {n}": 0.0 for n in babi.TASKS})


def test_words_are_exchanged_in_the_story_and_the_answer(problem):
    words = problem._words
    data = problem.draw({"steps": 1440}, 400, [3], "train")
    plain, changed = problem._train[1], 0
    john, mary = words.encode(["john", "mary"])
    for row in np.flatnonzero(data["task"] == 1):
        asked = data["question"][row].max()
        [story] = np.flatnonzero((plain["question"] == asked).any(1))
        length = data["lengths"][row]
        was, now = plain["inputs"][story, :length], data["inputs"][row, :length]
        other = np.where(was == john, mary, np.where(was == mary, john, was))
        assert (now == was).all() or (now == other).all()
        changed += (now != was).any()
    assert changed


def test_scores_are_of_each_task_and_first_their_mean(problem):
    data = problem.draw(problem.lessons[-1], 2, [0], "validation")
    wrong = int(data["task"][0])  # every answer of one story of this task
    first = data["inputs"][0]

    def answer(x):
        logits = np.zeros((*x["inputs"].shape, problem.outputs), "float32")
        for row, story in enumerate(x["inputs"]):
            size = min(len(story), len(first))
            same = [i for i, one in enumerate(data["inputs"])
                    if (one[:size] == story[:size]).all()]  # fmt: skip
            targets = data["targets"][same[0], :size]
            if same[0] == 0:
                targets = targets + 1
            logits[row, np.arange(size), targets] = 1
        return logits

    scores = problem.score(Says(answer), data)
    questions = np.unique(data["question"][data["task"] == wrong])[1:]
    missed = np.unique(data["question"][0])[1:]
    expected = 1 - len(missed) / len(questions)
    assert scores[f"task {wrong}"] == pytest.approx(expected)
    others = [v for k, v in scores.items() if k not in ("answers", f"task {wrong}")]
    assert len(others) == 19
    assert set(others) == {1}
    assert next(iter(scores)) == "answers"
    assert scores["answers"] == pytest.approx((19 + expected) / 20)


def test_batches_are_padded_to_the_given_lengths(problem):
    batches = fresh.Fresh(problem, 8, 4, joint.STEPS, seed=0)
    batches.lesson = 1
    lengths = {batches[index][0]["inputs"].shape for index in range(8)}
    assert {steps for _, steps in lengths} <= {40, 64, 96, 128}
    assert isinstance(problem, problems.Adapts)
    assert isinstance(problem, problems.Remembers)


def test_the_page_has_errors_of_each_task():
    def result(right):
        tests = {f"task {n}": {"answers": right} for n in babi.TASKS}
        return {"tests": tests}

    runs = [{"seed": seed, "result": result(0.9 + seed / 20)} for seed in (0, 1)]
    runs[1]["result"]["tests"]["task 20"] = {"answers": 0.45}
    text = joint_tables.table(runs, "its training")
    assert text.startswith("its training\n\n| task | seed 0 | seed 1 | DNC |")
    assert "| 20 | 10.0 | 55.0 | 0.0 | 0.1 | 0.1 |" in text
    assert "| mean | 10.0 | 7.5 | 16.7 | 9.5 | 6.3 |" in text
    assert joint_tables.mean_error(runs[1]["result"]["tests"]) == pytest.approx(7.5)


def test_a_lesson_starts_at_its_share_of_the_time_and_parts_are_scored(monkeypatch):
    now = 0.0
    monkeypatch.setattr(training.time, "process_time", lambda: now)
    problem = problems.Bits(algorithms.copy, [{"length": 1}, {"length": (1, 2)}])
    monkeypatch.setattr(problem, "draw", lambda lesson, count, *_: count)
    scores = {"answers": 0.5, "task 1": 0.5}
    counts = []
    monkeypatch.setattr(problem, "score", lambda _, x: counts.append(x) or scores)
    settings = {**tasks.TRAINING, "bar": 1.0, "starts": [0, 0.5], "validation": 3}
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    lessons = training.Lessons(
        fresh.Fresh(problem, 1, 4, 7, 0), {**settings, "parts": 4}, 0, 10
    )
    lessons.set_model(model)
    for minutes, lesson, parts in ((2, 0, 0), (4, 0, 1), (6, 1, 2), (10.1, 1, 4)):
        now = 60.0 * minutes
        lessons.on_epoch_end(0, {"loss": 1.0})
        assert lessons.batches.lesson == lesson
        assert (lessons.parts[-1]["part"] if lessons.parts else 0) == parts
    assert [entry["part"] for entry in lessons.parts] == [1, 2, 4]
    assert counts == [3, 3, 0, 3, 0, 3, 0]  # 0 for all stories
    assert lessons.parts[0]["task 1"] == 0.5
    assert lessons.state()["parts"] == lessons.parts
