"""Trains a network lesson by lesson on newly generated sequences."""

from __future__ import annotations

import copy
import time
from typing import Any

import keras

from keras_attention.benchmarks.dnc.checkpoints import Checkpoint, Saves
from keras_attention.benchmarks.dnc.fresh import POOL, Fresh
from keras_attention.benchmarks.dnc.networks import network
from keras_attention.benchmarks.dnc.problems import Problem, Remembers

LEAST_RATE = 0.05  # the rate decays to this share of a lesson's learning rate


class Lessons(keras.callbacks.Callback):
    """Scores each epoch, starts the next lesson and ends the training.

    Args:
        batches: the training batches.
        settings: `bar`, the default score that ends a lesson; `last_bar`, the score
            that ends the last lesson; `in_a_row`, the number of successive epochs that
            must reach `last_bar`; `validation`, the number of scored sequences; `rate`,
            the learning rate; `last_rate`, the learning rate of the last of several
            lessons; `annealed`, the share of the time after which the rate decays
            linearly to a twentieth; `late`, the share of the time after which no new
            lesson starts.
        seed: the seed of the run.
        minutes: the CPU time after which training ends, even if no lesson is passed.
    """

    def __init__(
        self, batches: Fresh, settings: dict[str, Any], seed: int, minutes: float
    ) -> None:
        super().__init__()
        self.batches, self.settings, self.seed = batches, settings, seed
        self.cpu_seconds = 60 * minutes
        self.history: list[dict[str, float]] = []
        self.steps, self.reached, self.solved = 0, 0, False
        # The mean loss of the epoch before the run was resumed, and the steps since.
        self.loss_before, self.since = 0.0, 0
        self.start, self.cpu_start = time.perf_counter(), time.process_time()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.steps, self.since = self.steps + 1, self.since + 1
        if time.process_time() - self.cpu_start > self.cpu_seconds:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        settings, problem = self.settings, self.batches.problem
        lesson = self.batches.lesson
        loss = self._loss(float(logs["loss"]))
        self.batches.epoch, self.batches.skipped = self.batches.epoch + 1, 0
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
                "loss": round(loss, 5),
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
        self.since = 0
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

    def _loss(self, loss: float) -> float:
        """Returns the mean loss of the whole epoch so far, also of a resumed one."""
        before, since = self.batches.skipped, self.since
        if not before:
            return loss
        return (before * self.loss_before + since * loss) / (before + since)

    def state(self, loss: float | None = None) -> dict[str, Any]:
        """Returns the state of the run, for its checkpoint.

        Args:
            loss: the mean loss of the epoch since it was started or resumed; None
                between two epochs.
        """
        batches = self.batches
        state = {
            "ended": False,
            "cpu_seconds": time.process_time() - self.cpu_start,
            "seconds": time.perf_counter() - self.start,
            "steps": self.steps,
            "epoch": batches.epoch,
            "skipped": 0 if loss is None else batches.skipped + self.since,
            "loss_before": 0.0 if loss is None else self._loss(loss),
            "lesson": batches.lesson,
            "reached": self.reached,
            "solved": self.solved,
            "history": self.history,
        }
        if isinstance(batches.problem, Remembers):
            state["problem"] = batches.problem.state()
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Restores the state. The CPU time of all parts of the run counts together."""
        batches = self.batches
        self.cpu_start = time.process_time() - state["cpu_seconds"]
        self.start = time.perf_counter() - state["seconds"]
        batches.epoch, batches.skipped = state["epoch"], state["skipped"]
        batches.lesson = state["lesson"]
        for name in ("steps", "loss_before", "reached", "solved", "history"):
            setattr(self, name, state[name])
        if isinstance(batches.problem, Remembers):
            batches.problem.restore(state["problem"])

    def _used(self) -> float:
        """Returns the share of the CPU time that is used up."""
        return (time.process_time() - self.cpu_start) / self.cpu_seconds

    def _scores(self, lesson: Any) -> dict[str, float]:
        # The sequences are the same in every epoch, and differ from training and test.
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
    checkpoint: Checkpoint | None = None,
) -> dict[str, Any]:
    """Trains `model` until it passes the last lesson or runs out of time.

    Args:
        problem: the training problem.
        model: maps inputs and the answer mask to logits.
        settings: the training settings of `tasks.py`.
        seed: the seed of all random numbers.
        minutes: the maximum CPU time, including compilation and validation.
        progress: a function that is called with each entry of the history, or None.
        checkpoint: where the run is stored and resumed from, or None.

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
    used = [lessons, told]
    state = None
    if checkpoint is not None:
        state = checkpoint.load(model)
        used.append(Saves(checkpoint, POOL, lessons.state))
    if state is not None:
        lessons.restore(state)
    how = {"verbose": 0, "shuffle": False, "callbacks": used}
    ended = state is not None and state["ended"]
    if not ended and batches.skipped:  # the rest of an interrupted epoch
        model.fit(batches, epochs=1, **how)
        ended = model.stop_training
    if not ended:
        model.fit(batches, epochs=10**6, **how)
    if checkpoint is not None:
        checkpoint.save(model, {**lessons.state(), "ended": True})
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
    checkpoint: Checkpoint | None = None,
) -> dict[str, Any]:
    """Creates and trains a network. Tests it on new sequences.

    Args:
        problem: the task.
        model: one of `networks.MODELS`.
        settings: `network`, `training` and `minutes`.
        seed: the seed of the weights and all random numbers.
        larger: a larger number of memory slots for a second test, or None.
        progress: see `train`.
        checkpoint: see `train`.

    Returns:
        The output of `train`; `weights`, the number of weights; `tests`, the scores of
        each test; and, if the memory grows, `grown`, the output of `grown`.
    """
    made = network(problem, model, settings["network"], seed)
    training = settings["training"]
    minutes = settings["minutes"]
    result = train(problem, made, training, seed, minutes, progress, checkpoint)
    result["weights"] = made.count_params()
    result["tests"] = tested(problem, made, seed, training["tested"], 64)
    if larger is not None:
        result["tests"] |= tested_larger(problem, made, larger, seed, training, "")
    if larger is not None and "grown" in training:
        left = minutes - result["cpu_seconds"] / 60
        made, result["grown"] = grown(
            problem, made, training, seed, left, progress, checkpoint
        )
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
    """Returns the test scores with another number of memory slots, without training."""
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
    checkpoint: Checkpoint | None = None,
) -> tuple[Any, list[dict[str, Any]]]:
    """Continues the last lesson with increasing numbers of memory slots.

    Args:
        problem: the training problem.
        model: a trained `DNCNetwork`.
        training: the training settings of the model, and three more: `grown`, the
            numbers of slots; `grown_rate`, the learning rate; and `grown_steps`, the
            steps per epoch.
        seed: the seed of all random numbers.
        minutes: the remaining CPU time.
        progress: see `train`.
        checkpoint: see `train`.

    Returns:
        The network with the last number of slots, and the output of `train` for each
        number. Growing stops early when the time is over or when the network does not
        pass the lesson.
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
        # Another seed gives new sequences.
        phase = checkpoint and checkpoint.phase(f"{slots} slots")
        result = train(last, model, settings, seed + slots, minutes, progress, phase)
        minutes -= result["cpu_seconds"] / 60
        results.append({"slots": slots, **result})
        if minutes <= 0 or not result["solved"]:
            break
    return model, results


def tested(
    problem: Problem, model: keras.Model, seed: int, count: int, batch_size: int
) -> dict[str, dict[str, float]]:
    """Returns the scores of each test, by the test's name."""
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
    """Selects at most `most` evenly spaced entries, including the last one."""
    every = -(-len(history) // most)
    return history[::-1][:: max(every, 1)][::-1]
