"""Batches of newly generated sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from studies.batches import differ_first
from studies.dnc.problems import Problem, resized

NETWORK_INPUTS = ("inputs", "answer_mask", "targets")
POOL = 8  # number of batches that are generated together and sorted by length


class Fresh(keras.utils.PyDataset):
    """Batches of new sequences of a lesson.

    Sequences are generated for several batches at once and sorted by length. They are
    padded to few lengths, since a backend may compile for each number of steps.

    Args:
        problem: generates the sequences.
        steps: number of batches per epoch.
        batch_size: B.
        rounding: sequences are padded to a multiple of this number, or to the next of
            these lengths in ascending order.
        seed: the seed of all random numbers.
        earlier: the share of the sequences that come from a random earlier lesson. They
            are generated for `POOL` batches at once.

    Attributes:
        lesson: the current lesson, from 0. It may change between two epochs.
        epoch: the current epoch, from 0. The seed, the epoch and the index of a batch
            determine its sequences, so that a resumed run sees the same ones. `Lessons`
            sets it.
        skipped: the number of batches at the start of the epoch that are left out, a
            multiple of `POOL`.
    """

    def __init__(
        self,
        problem: Problem,
        steps: int,
        batch_size: int,
        rounding: int | Sequence[int],
        seed: int,
        earlier: float = 0.0,
    ) -> None:
        super().__init__()
        self.problem, self.steps, self.batch_size = problem, steps, batch_size
        self.rounding, self.seed, self.earlier = rounding, seed, earlier
        self.lesson, self.epoch, self.skipped = 0, 0, 0
        # The backend may read batches in other threads, so this is one assignment.
        self._latest: tuple[int, list[dict[str, np.ndarray]]] = (-1, [])

    def __len__(self) -> int:
        return self.steps - self.skipped

    def __getitem__(self, index: int) -> Any:
        index += self.skipped
        number = self.epoch * -(-self.steps // POOL) + index // POOL
        latest, batches = self._latest
        if latest != number:
            batches = self._draw(number)
            self._latest = number, batches
        batch = batches[index % POOL]
        return {name: batch[name] for name in ("inputs", "answer_mask")}, batch[
            "targets"
        ]

    def _draw(self, number: int) -> list[dict[str, np.ndarray]]:
        problem, size = self.problem, self.batch_size
        seed = [self.seed, number]
        random = np.random.default_rng(seed)
        lesson = self.lesson
        if lesson and random.random() < self.earlier:
            lesson = int(random.integers(lesson))
        data = problem.draw(problem.lessons[lesson], POOL * size, seed, "train")
        order = np.argsort(data["lengths"], kind="stable")
        batches = []
        for rows in np.split(order, POOL):
            longest = int(data["lengths"][rows].max())
            steps = _rounded(longest, self.rounding)
            batches.append(
                {name: resized(data[name][rows], steps) for name in NETWORK_INPUTS}
            )
        random.shuffle(batches)
        differ_first(batches, lambda batch: batch["targets"].shape[1])
        return batches


def _rounded(steps: int, rounding: int | Sequence[int]) -> int:
    if isinstance(rounding, int):
        return -(-steps // rounding) * rounding
    return next(length for length in rounding if length >= steps)
