"""Trains a network on sequences that are drawn anew for each step, lesson by lesson."""

from __future__ import annotations

import copy
import time
from typing import Any

import keras
import numpy as np

from keras_attention.benchmarks.batches import differ_first
from keras_attention.benchmarks.dnc.networks import network
from keras_attention.benchmarks.dnc.problems import Problem, resized

NETWORK_INPUTS = ("inputs", "answer_mask", "targets")
LEAST_RATE = 0.05  # of the rate of a lesson, where it falls with the time
POOL = 8  # batches that are drawn at once and sorted by length


class Fresh(keras.utils.PyDataset):
    """Batches of a lesson, none of which comes twice.

    Sequences are drawn for several batches at once, sorted by length, and padded to a
    multiple of some steps, for a backend may compile for each number of steps.

    Args:
        problem: what draws them.
        steps: batches an epoch.
        batch_size: B.
        rounding: the number of steps that all are a multiple of.
        seed: of all that is drawn.
        earlier: the share of the batches that are of an earlier lesson, any of them.

    Attributes:
        lesson: which one is drawn from; it may be changed between two epochs.
    """

    def __init__(
        self,
        problem: Problem,
        steps: int,
        batch_size: int,
        rounding: int,
        seed: int,
        earlier: float = 0.0,
    ) -> None:
        super().__init__()
        self.problem, self.steps, self.batch_size = problem, steps, batch_size
        self.rounding, self.seed, self.earlier = rounding, seed, earlier
        self.lesson, self.num_sampled = 0, 0
        self.batches: list[dict[str, np.ndarray]] = []

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, index: int) -> Any:
        if index % POOL == 0:
            self._draw()
        batch = self.batches[index % POOL]
        return {name: batch[name] for name in ("inputs", "answer_mask")}, batch[
            "targets"
        ]

    def _draw(self) -> None:
        problem, size = self.problem, self.batch_size
        seed = [self.seed, self.num_sampled]
        random = np.random.default_rng(seed)
        lesson = self.lesson
        if lesson and random.random() < self.earlier:
            lesson = int(random.integers(lesson))
        data = problem.draw(problem.lessons[lesson], POOL * size, seed, "train")
        self.num_sampled += 1
        order = np.argsort(data["lengths"], kind="stable")
        self.batches = []
        for rows in np.split(order, POOL):
            longest = int(data["lengths"][rows].max())
            steps = -(-longest // self.rounding) * self.rounding
            self.batches.append(
                {name: resized(data[name][rows], steps) for name in NETWORK_INPUTS}
            )
        random.shuffle(self.batches)
        differ_first(self.batches, lambda batch: batch["targets"].shape[1])


class Lessons(keras.callbacks.Callback):
    """Scores after each epoch, goes on to the next lesson, and ends the training.

    Args:
        batches: what is trained on.
        settings: `bar`, the score that ends a lesson, if the problem has no other for
            it; `last_bar`, the one that ends the last lesson; `in_a_row`, how often it
            must be reached there; `validation`, how many sequences are scored; `rate`,
            and `last_rate` of the last lesson of several; `annealed`, the share of the
            time behind which the rate falls, in a straight line, to a twentieth at its
            end; `late`, the share of the time after which no lesson is begun.
        seed: of the run.
        minutes: of CPU time, after which training ends, whatever the score.
    """

    def __init__(
        self, batches: Fresh, settings: dict[str, Any], seed: int, minutes: float
    ) -> None:
        super().__init__()
        self.batches, self.settings, self.seed = batches, settings, seed
        self.cpu_seconds = 60 * minutes
        self.history: list[dict[str, float]] = []
        self.steps, self.reached, self.solved = 0, 0, False
        self.start, self.cpu_start = time.perf_counter(), time.process_time()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.steps += 1
        if time.process_time() - self.cpu_start > self.cpu_seconds:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        settings, problem = self.settings, self.batches.problem
        lesson = self.batches.lesson
        last = lesson == len(problem.lessons) - 1
        scores = self._scores(problem.lessons[lesson])
        passed = next(iter(scores.values())) >= self._bar(lesson)
        if passed and last and problem.beyond is not None:
            beyond = next(iter(self._scores(problem.beyond).values()))
            scores["beyond"] = beyond
            passed = beyond >= settings["last_bar"]
        self.history.append(
            {
                "cpu_seconds": round(time.process_time() - self.cpu_start, 1),
                "steps": self.steps,
                "lesson": lesson + 1,
                "loss": round(float(logs["loss"]), 5),
                **{name: round(score, 4) for name, score in scores.items()},
            }
        )
        self.reached = self.reached + 1 if passed else 0
        if last and self.reached == settings["in_a_row"]:
            self.solved = self.model.stop_training = True
        elif passed and not last and self._used() < settings["late"]:
            self._go_on()

    def _bar(self, lesson: int) -> float:
        problem = self.batches.problem
        if lesson < len(problem.bars):
            return problem.bars[lesson]
        last = lesson == len(problem.lessons) - 1
        return float(self.settings["last_bar" if last else "bar"])

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.model.optimizer.learning_rate = self._rate()

    def _go_on(self) -> None:
        self.batches.lesson, self.reached = self.batches.lesson + 1, 0

    def _rate(self) -> float:
        last = self.batches.lesson == len(self.batches.problem.lessons) - 1
        one_lesson = len(self.batches.problem.lessons) == 1
        rate = self.settings["last_rate" if last and not one_lesson else "rate"]
        falls = self.settings["annealed"]
        if falls < 1:
            rate *= min(max((1 - self._used()) / (1 - falls), LEAST_RATE), 1)
        return float(rate)

    def _used(self) -> float:
        """The share of the time that is over."""
        return (time.process_time() - self.cpu_start) / self.cpu_seconds

    def _scores(self, lesson: Any) -> dict[str, float]:
        # The same sequences each time, and none that is trained on or tested with.
        problem, count = self.batches.problem, self.settings["validation"]
        data = problem.draw(lesson, count, [self.seed], "validation")
        return problem.score(self.model, data)


def train(
    problem: Problem,
    model: keras.Model,
    settings: dict[str, Any],
    seed: int,
    minutes: float,
    progress: Any = None,
) -> dict[str, Any]:
    """Trains `model` until it passes the last lesson, or its time is over.

    Args:
        problem: what to train on.
        model: from inputs and the mask of steps to answer at to logits.
        settings: of the training, as in `tasks.py`.
        seed: of what is drawn.
        minutes: of CPU time, compilation and validation included, at most.
        progress: called with each entry of the history.

    Returns:
        `seconds`, `cpu_seconds`, `steps`, `lesson` (from 1), `of_lessons`, `solved` and
        `history`.
    """
    rate = keras.optimizers.Adam(settings["rate"], global_clipnorm=settings["clipnorm"])
    model.compile(rate, problem.loss)
    batches = Fresh(
        problem,
        settings["steps"],
        settings["batch_size"],
        settings["rounding"],
        seed,
        settings["earlier"],
    )
    lessons = Lessons(batches, settings, seed, minutes)
    told = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: progress and progress(lessons.history[-1])
    )
    model.fit(
        batches, epochs=10**6, verbose=0, shuffle=False, callbacks=[lessons, told]
    )
    return {
        "seconds": round(time.perf_counter() - lessons.start, 1),
        "cpu_seconds": round(time.process_time() - lessons.cpu_start, 1),
        "steps": lessons.steps,
        "lesson": batches.lesson + 1,
        "of_lessons": len(problem.lessons),
        "solved": lessons.solved,
        "history": thinned(lessons.history),
    }


def run_of(
    problem: Problem,
    model: str,
    settings: dict[str, Any],
    seed: int,
    larger: int | None = None,
    progress: Any = None,
) -> dict[str, Any]:
    """Makes a network, trains it, and tests it on sequences it has not seen.

    Args:
        problem: the task.
        model: one of `networks.MODELS`.
        settings: `network`, `training` and `minutes`.
        seed: of the weights and of all that is drawn.
        larger: a number of memory slots to be tested with as well, or None.
        progress: see `train`.

    Returns:
        What `train` returns, `weights` (how many), and `tests`: the scores of each; if
        the memory grows, `grown`: what each further training returned.
    """
    made = network(problem, model, settings["network"], seed)
    training = settings["training"]
    result = train(problem, made, training, seed, settings["minutes"], progress)
    result["weights"] = made.count_params()
    result["tests"] = tested(problem, made, seed, training["tested"], 64)
    if larger is not None:
        result["tests"] |= tested_larger(problem, made, larger, seed, training, "")
    if larger is not None and "grown" in training:
        left = settings["minutes"] - result["cpu_seconds"] / 60
        made, result["grown"] = grown(problem, made, training, seed, left, progress)
        result["tests"] |= tested_larger(
            problem, made, larger, seed, training, " after growing"
        )
    return result


def tested_larger(
    problem: Problem,
    model: Any,
    slots: int,
    seed: int,
    training: dict[str, Any],
    after: str,
) -> dict[str, dict[str, float]]:
    """The scores with another number of memory slots, without further training."""
    count = training["tested"] // 4
    scores = tested(problem, model.resized(slots), seed, count, batch_size=8)
    return {f"{name}, {slots} slots{after}": score for name, score in scores.items()}


def grown(
    problem: Problem,
    model: Any,
    training: dict[str, Any],
    seed: int,
    minutes: float,
    progress: Any = None,
) -> tuple[Any, list[dict[str, Any]]]:
    """Trains on in the last lesson with more memory slots, a number after the other.

    Args:
        problem: what it was trained on.
        model: a trained `DNCNetwork`.
        training: of it, with `grown`, the numbers of slots, and the rate and steps of
            an epoch, `grown_rate` and `grown_steps`.
        seed: of what was drawn.
        minutes: of CPU time left.
        progress: see `train`.

    Returns:
        The network with the last number of slots, and what `train` returned of each.
        It ends early where the time does, or a number of slots was not mastered.
    """
    last = copy.copy(problem)
    last.lessons, last.bars = problem.lessons[-1:], ()
    settings = {
        **training,
        "rate": training["grown_rate"],
        "steps": training["grown_steps"],
    }
    results: list[dict[str, Any]] = []
    for slots in training["grown"] if minutes > 0 else ():
        model = model.resized(slots)
        # Other sequences than those before: a seed of its own.
        result = train(last, model, settings, seed + slots, minutes, progress)
        minutes -= result["cpu_seconds"] / 60
        results.append({"slots": slots, **result})
        if minutes <= 0 or not result["solved"]:
            break
    return model, results


def tested(
    problem: Problem, model: keras.Model, seed: int, count: int, batch_size: int
) -> dict[str, dict[str, float]]:
    """The scores of each test, by its name."""
    found = {}
    for name, lesson in problem.tests.items():
        data = problem.draw(lesson, count, [seed], "test")
        scores = problem.score(model, data, batch_size)
        found[name] = {
            "sequences tested": len(data["lengths"]),
            **{which: round(score, 5) for which, score in scores.items()},
        }
    return found


def thinned(history: list[Any], most: int = 40) -> list[Any]:
    """At most so many entries, evenly spread, with the last one."""
    every = -(-len(history) // most)
    return history[::-1][:: max(every, 1)][::-1]
