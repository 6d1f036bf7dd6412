"""The callback that leads a training from lesson to lesson."""

from __future__ import annotations

import time
from typing import Any

import keras

from studies import clocks
from studies.command_line import UsageError
from studies.dnc.fresh import Fresh
from studies.dnc.problems import Adapts, Remembers

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
        minutes: the time after which training ends, even if no lesson is passed. It is
            CPU time, on an accelerator elapsed time; so is all time here.

    Attributes:
        steps: the training steps of the run, those before it was resumed included.
        since: the steps of this epoch since it began or was resumed.
        loss_before: the mean loss of the part of this epoch before it was resumed.
        device: the kind of device of the whole run.
        reached: the number of successive epochs that passed the lesson.
        solved: whether the last lesson was passed.
        stops: whether training stops after this step or epoch.
        grows: whether the next lesson needs another number of memory slots.
        history: the scores of each epoch.
        parts: the scores at the end of each part of the time.
    """

    def __init__(
        self, batches: Fresh, settings: dict[str, Any], seed: int, minutes: float
    ) -> None:
        super().__init__()
        self.batches, self.settings, self.seed = batches, settings, seed
        self.cpu_seconds = 60 * minutes
        self.history: list[dict[str, float]] = []
        self.parts: list[dict[str, float]] = []
        self.steps, self.reached = 0, 0
        self.solved = self.stops = False
        self.grows, self.loss_before, self.since = False, 0.0, 0
        self.device = clocks.own_device()
        self.start, self.cpu_start = time.perf_counter(), clocks.budget_clock()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.steps, self.since = self.steps + 1, self.since + 1
        if clocks.budget_clock() - self.cpu_start > self.cpu_seconds:
            self._stop()

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
                "cpu_seconds": round(clocks.budget_clock() - self.cpu_start, 1),
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
            self.solved = True
            self._stop()
        elif not last and self._starts_next(passed):
            self._go_on()

    def _stop(self) -> None:
        self.stops = self.model.stop_training = True

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
        cpu_seconds = round(clocks.budget_clock() - self.cpu_start, 1)
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
            self.grows = True
            self._stop()

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
            "device": clocks.own_device(),
            "cpu_seconds": clocks.budget_clock() - self.cpu_start,
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
        """Restores the state. The time of all parts of the run counts together.

        The time that the restoring takes does not count.

        Raises:
            UsageError: if the run began on another kind of device, whose time is
                measured by another clock.
        """
        device = state.get("device", "cpu")
        if device != clocks.own_device() and not state["ended"]:
            raise UsageError(
                f"This run began on a device of the kind {device!r}, and cannot go on "
                f"on {clocks.own_device()!r}: its time would be of two clocks."
            )
        self.device = device
        batches = self.batches
        batches.epoch, batches.skipped = state["epoch"], state["skipped"]
        batches.lesson = state["lesson"]
        names = "steps", "loss_before", "reached", "solved", "history", "parts"
        for name in names:
            setattr(self, name, state[name])
        if isinstance(batches.problem, Remembers):
            batches.problem.restore(state["problem"])
        self.cpu_start = clocks.budget_clock() - state["cpu_seconds"]
        self.start = time.perf_counter() - state["seconds"]

    def _used(self) -> float:
        """Returns the share of the time that is used up."""
        return (clocks.budget_clock() - self.cpu_start) / self.cpu_seconds

    def _scores(self, lesson: Any) -> dict[str, float]:
        # The sequences are the same in every epoch, and differ from training and test.
        problem, count = self.batches.problem, self.settings["validation"]
        data = problem.draw(lesson, count, [self.seed], "validation")
        return problem.score(self.model, data)
