"""All 20 bAbI tasks for one network, and its scores for each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import babi
from studies.babi.training import training_questions
from studies.dnc.problems import Arrays, Lesson, Seed, predicted, resized, seed_of
from studies.dnc.sequences import sequence_vocabulary, sequences
from studies.dnc.worlds import BLANKS, places, up_to

QUESTIONS = 10000  # of each task; simulated stories fill up task 3
SEARCHED = (
    2000  # used questions of a task in which interchangeable words are looked for
)
# Stories are padded to one of these lengths, since JAX compiles for each length.
STEPS = (40, 64, 96, 128, 192, 256, 384, 640, 1440)
LEAST_ERROR = 0.02  # so that a task without errors is still trained
SHARED = 0.1  # tasks with a smaller share of stories within a lesson are left out


class JointStories:
    """All bAbI tasks with 10,000 training questions each, one story per sequence.

    The archive of this project lacks a training file. Task 3 has the 1,925 questions of
    other files, filled up by `babi.simulate`. A tenth of the stories of each task is
    held out for validation, of task 3 a tenth of those that are not simulated.

    In each training story, interchangeable words are exchanged at random. A lesson has
    the stories up to a number of steps, with all questions that are answered by then.
    Tasks are drawn in proportion to their last validation error, and in inverse
    proportion to the root of their mean length, which limits the cost of long stories.

    Args:
        lengths: the most steps of each lesson.
        load: a function `load(task, part)` that returns the questions of the part
            "train" or "test", and how many of them are real.
    """

    width: int | None = None
    beyond: Lesson | None = None
    bars: Sequence[float] = ()

    def __init__(
        self, lengths: Sequence[int] = (40, 64, 128, 256, STEPS[-1]), load: Any = None
    ) -> None:
        load = load or _questions
        self.lessons: Sequence[Lesson] = [{"steps": steps} for steps in lengths]
        self.tests: Mapping[str, Lesson] = {
            f"task {n}": {"task": n} for n in babi.TASKS
        }
        train = {number: load(number, "train") for number in babi.TASKS}
        test = {number: load(number, "test")[0] for number in babi.TASKS}
        parts = [*(examples for examples, _ in train.values()), *test.values()]
        self._words = sequence_vocabulary([one for part in parts for one in part])
        self.vocabulary: int | None = len(self._words)
        self.outputs = len(self._words)
        self.loss: keras.losses.Loss = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True
        )
        self._examples: dict[int, list[babi.Example]] = {}
        self._test = {n: self._arrays(examples) for n, examples in test.items()}
        self._held: dict[int, Arrays] = {}
        self._train: dict[int, Arrays] = {}
        for number, (examples, real) in train.items():
            data = self._arrays(examples)
            first = np.where(data["question"] < 0, len(examples), data["question"])
            stories = int(np.sum(first.min(1) < real))
            order = np.random.default_rng(0).permutation(stories)
            held, used = np.split(order, [max(stories // 10, 1)])
            used = np.concatenate([used, np.arange(stories, len(first))])
            self._held[number] = {name: array[held] for name, array in data.items()}
            self._train[number] = {name: array[used] for name, array in data.items()}
            asked = np.unique(self._train[number]["question"])
            self._examples[number] = [examples[n] for n in asked[asked >= 0]][:SEARCHED]
        self._within: dict[int, dict[int, tuple[np.ndarray, np.ndarray, float]]] = {}
        self._groups: dict[int, Any] = {}
        self._renamer: babi.Renamer | None = None
        self.errors = dict.fromkeys(babi.TASKS, 1.0)

    def _arrays(self, examples: list[babi.Example]) -> Arrays:
        return sequences(examples, self._words, blanks=BLANKS)

    def tasks_of(self, steps: int) -> dict[int, tuple[np.ndarray, np.ndarray, float]]:
        """Returns the tasks of a lesson.

        Returns:
            For each task, the stories with a question within `steps`, the number of
            questions within `steps` of every story, and the mean length up to them.
        """
        if steps not in self._within:
            found = self._within[steps] = {}
            for number, data in self._train.items():
                questions = _within(data, steps)
                rows = np.flatnonzero(questions)
                if len(rows) >= SHARED * len(questions):
                    length = up_to(data, questions[:, None])["lengths"][rows].mean()
                    found[number] = rows, questions, float(length)
        return self._within[steps]

    def draw(self, lesson: Lesson, count: int, seed: Seed, part: str) -> Any:
        """Generates stories, in training and validation truncated to the lesson.

        Args:
            lesson: "steps" of a lesson, or "task" of a test.
            count: the number of stories; in validation of each task, 0 for all.
            seed: the seed of the random numbers.
            part: "train", "validation" or "test".
        """
        if part == "test":
            return _joined({lesson["task"]: self._test[lesson["task"]]})
        tasks = self.tasks_of(lesson["steps"])
        if part == "validation":
            held = {}
            for number in tasks:
                data = self._held[number]
                questions = _within(data, lesson["steps"])
                rows = np.flatnonzero(questions)[: count or None]
                if not len(rows):
                    continue
                some = {name: array[rows] for name, array in data.items()}
                held[number] = up_to(some, questions[rows, None])
            return _joined(held)
        random = np.random.default_rng(seed_of(part, seed))
        weights = np.array(
            [
                (self.errors[number] + LEAST_ERROR) / np.sqrt(length)
                for number, (*_, length) in tasks.items()
            ]
        )
        counts = random.multinomial(count, weights / weights.sum())
        parts = {}
        for (number, (rows, questions, _)), some in zip(tasks.items(), counts):
            if not some:
                continue
            rows = random.choice(rows, some)
            data = {name: array[rows] for name, array in self._train[number].items()}
            data["inputs"], data["targets"], _ = self._exchanged()(
                np.full(some, number),
                data["inputs"],
                data["targets"],
                data["targets"][:, 0],
                seed=int(random.integers(2**31)),
            )
            parts[number] = up_to(data, questions[rows, None])
        return _joined(parts)

    def _exchanged(self) -> babi.Renamer:
        if self._renamer is None:
            if not self._groups:
                self._groups = {
                    number: babi.interchangeable(examples)
                    for number, examples in self._examples.items()
                }
            self._renamer = babi.Renamer(self._groups, self._words)
        return self._renamer

    def score(
        self, model: keras.Model, data: Any, batch_size: int = 32
    ) -> dict[str, float]:
        """Returns the share of right answers of each task, and first their mean."""
        buckets = np.searchsorted(STEPS, data["lengths"])
        wrong = np.zeros(data["targets"].shape, bool)
        for bucket in np.unique(buckets):
            rows = np.flatnonzero(buckets == bucket)
            steps = min(STEPS[bucket], wrong.shape[1])
            some = {
                name: resized(data[name][rows], STEPS[bucket])
                for name in ("inputs", "answer_mask")
            }
            words = predicted(model, some, batch_size).argmax(-1)[:, :steps]
            wrong[rows, :steps] = words != data["targets"][rows, :steps]
        scores = {}
        for number in np.unique(data["task"]):
            own = data["task"] == number
            question, asked = data["question"][own], data["answer_mask"][own]
            missed = np.unique(question[asked & wrong[own]])
            share = 1 - len(missed) / len(np.unique(question[asked]))
            scores[f"task {number}"] = share
        return {"answers": float(np.mean(list(scores.values()))), **scores}

    def scored(self, scores: Mapping[str, float]) -> None:
        """Stores the errors of a validation. The next draws depend on them."""
        for number in babi.TASKS:
            if f"task {number}" in scores:
                self.errors[number] = 1 - scores[f"task {number}"]

    def state(self) -> Any:
        """Returns the errors and the interchangeable words."""
        return {
            "errors": list(self.errors.items()),
            "groups": list(self._groups.items()),
        }

    def restore(self, state: Any) -> None:
        """Restores the output of `state`."""
        self.errors, self._groups = dict(state["errors"]), dict(state["groups"])
        self._renamer = None


def _questions(task: int, part: str) -> tuple[list[babi.Example], int]:
    """Returns 10,000 questions of a task, and the number of those from the archive."""
    if part == "test":
        examples = babi.load(task, "test", "10k")
        return examples, len(examples)
    examples = training_questions(task, "10k")
    missing = QUESTIONS - len(examples)
    # A seed of its own, so that no other simulated part has these stories.
    more = babi.simulate(task, missing, seed=task) if missing > 0 else []
    return examples + more, len(examples)


def _within(data: Arrays, steps: int) -> np.ndarray:
    """Returns the number of first questions that are answered within `steps`, (N,)."""
    place, asked = places(data), data["answer_mask"]
    late = asked & (np.arange(asked.shape[1]) >= steps)
    most = np.where(asked, place, 0).max(1)
    # The first question with a late answer word, or one more than there are.
    return np.where(late, place, most[:, None] + 1).min(1) - 1


def _joined(parts: dict[int, Arrays]) -> Arrays:
    """Joins the stories of several tasks, with the "task" of each."""
    longest = max(int(data["lengths"].max()) for data in parts.values())
    names = next(iter(parts.values()))
    whole = {
        name: np.concatenate(
            [
                data[name] if name == "lengths" else resized(data[name], longest)
                for data in parts.values()
            ]
        )
        for name in names
    }
    # Questions are numbered within their task.
    whole["question"] = np.where(whole["answer_mask"], whole["question"], -1)
    tasks = [np.full(len(data["lengths"]), number) for number, data in parts.items()]
    return {**whole, "task": np.concatenate(tasks)}
