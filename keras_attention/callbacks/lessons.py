"""Random batches of a lesson."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras


class Lessons(keras.utils.PyDataset):
    """Random batches of a `Curriculum`'s current lesson. Each epoch has new batches.

    Args:
        make_batch: a function `make_batch(lesson, seed)` that returns a batch, such as
            `(inputs, targets)`. `lesson` is the index of the lesson, and `seed` is a
            list of integers for `numpy.random.default_rng`. Pad the batches of all
            lessons to one shape: each new shape requires another compilation, and
            TensorFlow accepts only the first shape.
        lessons: the number of lessons.
        batches: the number of batches per epoch.
        seed: the random seed. The same seed gives the same batches for each epoch and
            lesson, if `make_batch` is deterministic.
        lesson: the index of the first lesson.

    Raises:
        ValueError: if `lessons` or `batches` is below 1, or `lesson` is out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attention.callbacks import Lessons
    >>> def make(lesson, seed):
    ...     x = np.random.default_rng(seed).normal(size=(8, 1 + lesson))
    ...     return x, x.sum(1, keepdims=True)
    >>> Lessons(make, lessons=3, batches=10)[0][0].shape
    (8, 1)
    """

    def __init__(
        self,
        make_batch: Callable[[int, list[int]], Any],
        lessons: int,
        batches: int,
        seed: int = 0,
        lesson: int = 0,
    ) -> None:
        super().__init__()
        if lessons < 1 or batches < 1:
            raise ValueError(
                "`lessons` and `batches` must be at least 1. "
                f"Received: {lessons=}, {batches=}"
            )
        self.make_batch = make_batch
        self.lessons = lessons
        self.batches = batches
        self.seed = seed
        self.epoch = 0
        self.lesson = lesson

    @property
    def lesson(self) -> int:
        """The index of the current lesson."""
        return self._lesson

    @lesson.setter
    def lesson(self, lesson: int) -> None:
        if not 0 <= lesson < self.lessons:
            raise ValueError(
                f"`lesson` must be from 0 to {self.lessons - 1}. Received: {lesson=}"
            )
        self._lesson = lesson

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, index: int) -> Any:
        return self.make_batch(self.lesson, [self.seed, self.epoch, index])

    def on_epoch_end(self) -> None:
        """Advances to the batches of the next epoch."""
        self.epoch += 1
