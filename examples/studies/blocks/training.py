"""Trains an agent lesson by lesson, with checkpoints.

Shapes: B puzzles, K episodes per puzzle, N = B K episodes, T steps.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from studies.blocks.agent import Agent
from studies.blocks.ppo import PACKED, PolicyLoss, estimates
from studies.blocks.rollouts import Rollout, play
from studies.blocks.tasks import Lesson, Puzzles
from studies.dnc.checkpoints import Checkpoint

STATE = ("lesson", "iterations", "episodes", "actions", "used", "recent", "history")


class Trainer:
    """Proximal policy optimization on the lessons of the block puzzles.

    Each iteration plays new episodes with sampled actions and makes a few passes over
    them. A lesson ends when the share of met goals reaches a threshold, averaged over
    recent iterations. A share of the puzzles comes from earlier lessons.

    Args:
        agent: the agent; its `learner` is compiled here.
        lessons: the lessons, from the easiest one.
        settings: `puzzles`, B of an iteration; `episodes`, K; `minibatch`, B of a
            training step; `passes` over each iteration's episodes; `rate` of Adam;
            `last_rate`, the share of it at the end; `clipnorm`; `entropy`, `value` and
            `clip`, see `PolicyLoss`; `decay`, see `estimates`; `bar`, the threshold;
            `recent`, the number of averaged iterations; `latest`, the share of the
            whole time after which a lesson ends in any case; `earlier`, the share of
            puzzles from earlier lessons; `extra`, the allowed extra moves; `rounding`
            of the number of constraints; `steps`, see `batch`; `by_place`, see
            `Puzzles`; and `reported`, the iterations per entry of the history.
        seed: the seed of the puzzles and the actions.
        minutes: the CPU time of the whole run; the learning rate decays linearly.
    """

    def __init__(
        self,
        agent: Agent,
        lessons: Sequence[Lesson],
        settings: dict[str, Any],
        seed: int,
        minutes: float,
    ) -> None:
        self.agent, self.lessons, self.settings = agent, lessons, settings
        self.seed, self.seconds = seed, 60 * minutes
        self.lesson, self.iterations, self.episodes, self.actions = 0, 0, 0, 0
        self.used = 0.0
        self.recent: list[float] = []
        self.history: list[dict[str, Any]] = []
        self._puzzles: dict[int, Puzzles] = {}
        self._optimizer = keras.optimizers.Adam(
            settings["rate"], global_clipnorm=settings["clipnorm"]
        )
        loss = PolicyLoss(settings["clip"], settings["value"], settings["entropy"])
        agent.learner.compile(self._optimizer, loss)

    def train(
        self,
        seconds: float,
        checkpoint: Checkpoint | None = None,
        progress: Any = None,
    ) -> bool:
        """Trains for so many seconds; returns whether the run is complete.

        Args:
            seconds: the wall-clock time of this call.
            checkpoint: written when it is due and at the end, or None.
            progress: a function that is called with each entry of the history, or None.
        """
        start, before = time.process_time(), self.used
        begun = time.perf_counter()
        while time.perf_counter() - begun < seconds and self.used < self.seconds:
            self._iterate()
            self.used = before + time.process_time() - start
            if self.iterations % self.settings["reported"] == 0:
                self.history.append(self._entry())
                if progress:
                    progress(self.history[-1])
            if checkpoint is not None and checkpoint.is_due():
                checkpoint.save(self.agent.learner, self.state())
        if checkpoint is not None:
            checkpoint.save(self.agent.learner, self.state())
        return self.used >= self.seconds

    def _iterate(self) -> None:
        settings, left = self.settings, max(1 - self.used / self.seconds, 0)
        share = settings["last_rate"] + (1 - settings["last_rate"]) * left
        self._optimizer.learning_rate = settings["rate"] * share
        random = np.random.default_rng([self.seed, self.iterations])
        lessons = np.full(settings["puzzles"], self.lesson)
        if self.lesson:
            earlier = random.random(len(lessons)) < settings["earlier"]
            lessons[earlier] = random.integers(self.lesson, size=earlier.sum())
        rows = [
            self._puzzles_of(int(n)).draw(settings["episodes"], random) for n in lessons
        ]
        rollout = play(
            self.agent, rows, random, settings["extra"], settings["rounding"]
        )
        self._learn(rollout, random)
        self.iterations += 1
        self.last = [p for row in rows for p in row], rollout
        self.episodes += len(rollout.met)
        self.actions += int(rollout.valid.sum())
        met = rollout.met.reshape(len(rows), -1)[lessons == self.lesson]
        self.recent = [*self.recent, float(met.mean())][-settings["recent"] :]
        passed = np.mean(self.recent) >= settings["bar"]
        passed = passed and len(self.recent) == settings["recent"]
        late = self.used > settings["latest"] * (self.lesson + 1) * self.seconds
        if (passed or late) and self.lesson < len(self.lessons) - 1:
            self.lesson, self.recent = self.lesson + 1, []

    def _puzzles_of(self, lesson: int) -> Puzzles:
        if lesson not in self._puzzles:
            self._puzzles[lesson] = Puzzles(
                self.lessons[lesson], [self.seed, lesson], self.settings["by_place"]
            )
        return self._puzzles[lesson]

    def _learn(self, rollout: Rollout, random: np.random.Generator) -> None:
        settings = self.settings
        x, y = batch(rollout, settings["decay"], settings["steps"])
        count, size = len(rollout.told), settings["minibatch"]
        for _ in range(settings["passes"]):
            for rows in np.split(random.permutation(count), count // size):
                target = y[rows]
                target[..., 4] *= target[..., 4].size / max(target[..., 4].sum(), 1)
                self.agent.learner.train_on_batch(
                    {name: array[rows] for name, array in x.items()}, target
                )

    def _entry(self) -> dict[str, Any]:
        return {
            "cpu_seconds": round(self.used, 1),
            "iterations": self.iterations,
            "episodes": self.episodes,
            "actions": self.actions,
            "lesson": self.lesson + 1,
            "met": round(float(np.mean(self.recent)), 4) if self.recent else None,
        }

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint needs besides the weights and the optimizer."""
        counts = {str(n): puzzles.count for n, puzzles in self._puzzles.items()}
        return {**{name: getattr(self, name) for name in STATE}, "puzzles": counts}

    def resume(self, checkpoint: Checkpoint) -> bool:
        """Continues from a checkpoint; returns whether there was one."""
        state = checkpoint.load(self.agent.learner)
        if state is None:
            return False
        for lesson, count in state.pop("puzzles").items():
            self._puzzles_of(int(lesson)).count = count
        for name, value in state.items():
            setattr(self, name, value)
        return True


def batch(
    rollout: Rollout, decay: float, steps: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Turns episodes into inputs and targets of the learner.

    Advantages are normalized to a mean of 0 and a standard deviation of 1.

    Args:
        rollout: the episodes.
        decay: λ of `estimates`.
        steps: T, the steps that the learner sees: the question and T − 1 actions. A few
            episodes have more. Their later rewards count in the advantages.

    Returns:
        The inputs, and the targets (B, K, T, 5) of `PolicyLoss`.
    """
    valid = rollout.valid
    # `estimates` expects episodes that begin at their first step.
    found = estimates(
        rollout.rewards[:, 1:], rollout.values[:, 1:], valid[:, 1:], decay
    )
    advantages = found.advantages
    mean, spread = advantages[valid[:, 1:]].mean(), advantages[valid[:, 1:]].std()
    targets = np.zeros((*valid.shape, PACKED), np.float32)
    targets[..., 0], targets[..., 1] = rollout.actions, rollout.logs
    targets[:, 1:, 2] = (advantages - mean) / (spread + 1e-6)
    targets[:, 1:, 3] = found.returns
    targets[..., 4] = valid
    shape = (*rollout.played.shape[:3], PACKED)
    x = {
        "told": rollout.told,
        "told_mask": rollout.told_mask,
        "played": _resized(rollout.played, steps),
    }
    return x, _resized(targets.reshape(shape), steps)


def _resized(array: np.ndarray, steps: int) -> np.ndarray:
    """Cuts or pads (B, K, T, ·) to `steps`."""
    missing = max(steps - array.shape[2], 0)
    return np.pad(array[:, :, :steps], [(0, 0), (0, 0), (0, missing), (0, 0)])
