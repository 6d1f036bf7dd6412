"""Trains a network lesson by lesson on newly generated sequences."""

from __future__ import annotations

import copy
import itertools
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import keras

from keras_attention.benchmarks.dnc.checkpoints import Checkpoint, Saves
from keras_attention.benchmarks.dnc.fresh import POOL, Fresh
from keras_attention.benchmarks.dnc.networks import network
from keras_attention.benchmarks.dnc.problems import Adapts, Problem, Remembers
from keras_attention.benchmarks.dnc.slots import copy_state, with_slots
from keras_attention.benchmarks.dnc.testing import tested, tested_larger
from keras_attention.benchmarks.dnc.traces import traced

FIXED = ", fixed ε"  # of tests without the scaled ε of `DNCNetwork.resized`
LEAST_RATE = 0.05  # the rate decays to this share of a lesson's learning rate


class Lessons(keras.callbacks.Callback):
    """Scores each epoch, starts the next lesson and ends the training.

    Args:
        batches: the training batches.
        settings: `bar`, the default score that ends a lesson; `last_bar`, the score
            that ends the last lesson; `slots`, if given, the number of memory slots in
            each lesson; `in_a_row`, the number of successive epochs that
            must reach `last_bar`; `validation`, the number of scored sequences; `rate`,
            the learning rate; `last_rate`, the learning rate of the last of several
            lessons; `annealed`, the share of the time after which the rate decays
            linearly to a twentieth; `late`, the share of the time after which no new
            lesson starts; `starts`, the shares of the time at which the lessons start
            at the latest, if given; `parts`, the number of equal parts of the time at
            whose ends all validation sequences are scored, if given.
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
        self.parts: list[dict[str, float]] = []
        self.steps, self.reached, self.solved = 0, 0, False
        self.grows = False  # the next lesson needs another number of slots
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
        if isinstance(problem, Adapts):
            problem.scored(scores)
        self._score_part()
        self.reached = self.reached + 1 if passed else 0
        if last and self.reached == settings["in_a_row"]:
            self.solved = self.model.stop_training = True
        elif not last and self._starts_next(passed):
            self._go_on()

    def _starts_next(self, passed: bool) -> bool:
        starts = self.settings.get("starts")
        if starts and self._used() >= starts[self.batches.lesson + 1]:
            return True
        return passed and self._used() < self.settings["late"]

    def _score_part(self) -> None:
        """Scores all validation sequences of the last lesson, if a part has ended."""
        parts = self.settings.get("parts", 0)
        ended = int(min(self._used(), 1) * parts)
        if ended <= (self.parts[-1]["part"] if self.parts else 0):
            return
        problem = self.batches.problem
        data = problem.draw(problem.lessons[-1], 0, [self.seed], "validation")
        entry = {"part": ended, "of_parts": parts, "steps": self.steps}
        cpu_seconds = round(time.process_time() - self.cpu_start, 1)
        scores = problem.score(self.model, data)
        self.parts.append(
            {
                **entry,
                "cpu_seconds": cpu_seconds,
                "lesson": self.batches.lesson + 1,
                **{name: round(score, 5) for name, score in scores.items()},
            }
        )

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
        slots = self.settings.get("slots")
        lesson = self.batches.lesson
        if slots and slots[lesson] != slots[lesson - 1]:
            self.grows = self.model.stop_training = True

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
            "parts": self.parts,
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
        names = "steps", "loss_before", "reached", "solved", "history", "parts"
        for name in names:
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
    unfinished: bool = False,
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
        unfinished: whether to stop at the checkpoint instead of training.

    Returns:
        `seconds`, `cpu_seconds`, `steps`, `lesson` (from 1), `of_lessons`, `solved` and
        `history`; `parts`, the scores at the end of each part of the time, if there are
        any; and `share`, the used share of the time, if the run is unfinished.
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
    done = state is not None and state["ended"]
    ended = done or unfinished
    while not ended:
        sized = with_slots(model, settings, batches.lesson)
        lessons.grows, ended = False, False
        if batches.skipped:  # the rest of an interrupted epoch
            sized.fit(batches, epochs=1, **how)
            ended = sized.stop_training
        if not ended:
            sized.fit(batches, epochs=10**6, **how)
        ended = not lessons.grows
        copy_state(sized, model)
        if checkpoint is not None and lessons.grows:
            checkpoint.save(model, lessons.state())
    share = round(lessons._used(), 4)
    if checkpoint is not None and not unfinished:
        checkpoint.save(model, {**lessons.state(), "ended": True})
    return {
        "seconds": round(time.perf_counter() - lessons.start, 1),
        "cpu_seconds": round(time.process_time() - lessons.cpu_start, 1),
        "steps": lessons.steps,
        "lesson": batches.lesson + 1,
        "of_lessons": len(problem.lessons),
        "solved": lessons.solved,
        "history": thinned(lessons.history),
        **({"parts": lessons.parts} if lessons.parts else {}),
        **({"share": share} if unfinished and not done else {}),
    }


def run_of(
    problem: Problem,
    model: str,
    settings: dict[str, Any],
    seed: int,
    larger: Sequence[int] = (),
    progress: Any = None,
    checkpoint: Checkpoint | None = None,
    saved: pathlib.Path | None = None,
    unfinished: bool = False,
) -> dict[str, Any]:
    """Creates and trains a network. Tests it on new sequences.

    Args:
        problem: the task.
        model: one of `networks.MODELS`.
        settings: `network`, `training` and `minutes`.
        seed: the seed of the weights and all random numbers.
        larger: larger numbers of memory slots for further tests.
        progress: see `train`.
        checkpoint: see `train`.
        saved: a file for the trained network, or None. With memory that grows, it is
            the network before growing.
        unfinished: see `train`.

    Returns:
        The output of `train`; `weights`, the number of weights; `tests`, the scores of
        each test; with the setting "traced", a number of vectors, `traces`, the output
        of `traced` for each number of slots; and, if the memory grows, `grown`, the
        output of `grown`.
    """
    made = network(problem, model, settings["network"], seed)
    training = settings["training"]
    minutes = settings["minutes"]
    result = train(
        problem, made, training, seed, minutes, progress, checkpoint, unfinished
    )
    result["weights"] = made.count_params()
    if saved is not None:
        saved.parent.mkdir(parents=True, exist_ok=True)
        made.save(saved)
    enough = "slots" in training
    result["tests"] = tested(problem, made, seed, training["tested"], 64, enough)
    # A network that grows keeps its ε.
    kinds = {"": True, FIXED: False} if "grown" not in training else {"": False}
    for slots, (after, scaled) in itertools.product(larger, kinds.items()):
        larger_model = made.resized(slots, scaled)
        result["tests"] |= tested_larger(problem, larger_model, seed, training, after)
    if "traced" in training:
        models = [made, *(made.resized(n, True) for n in larger if n < 1000)]
        result["traces"] = [
            {"slots": one.cell.memory_slots, **traced(one, training["traced"], seed)}
            for one in models
        ]
    if larger and "grown" in training and not unfinished:
        left = minutes - result["cpu_seconds"] / 60
        made, result["grown"] = grown(
            problem, made, training, seed, left, progress, checkpoint
        )
        for slots in larger:
            larger_model = made.resized(slots)
            result["tests"] |= tested_larger(
                problem, larger_model, seed, training, " after growing"
            )
    return result


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


def thinned(history: list[Any], most: int = 40) -> list[Any]:
    """Selects at most `most` evenly spaced entries, including the last one."""
    every = -(-len(history) // most)
    return history[::-1][:: max(every, 1)][::-1]
