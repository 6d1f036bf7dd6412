"""Lessons of increasing difficulty."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from keras_attention.callbacks.epoch_states import EpochStates
from keras_attention.callbacks.lessons import Lessons


class Curriculum(keras.callbacks.Callback):
    """Advances to the next lesson when a score reaches a threshold.

    After an epoch with a sufficient score, the data advance to the next lesson. The
    index of the epoch's lesson is added to the logs and the history as `"lesson"`.

    Args:
        data: the `Lessons` for training, or several `Lessons`, such as for training and
            validation.
        monitor: the name of the score in the logs.
        threshold: the threshold of the score.
        mode: "max" if a higher score is better, "min" if a lower score is better.
        path: a file that stores the index of the lesson of each epoch, so that
            interrupted training can resume. `keras.callbacks.BackupAndRestore` stores
            the weights for the same purpose; it may stand before or after this
            callback. The file is deleted when training ends.

    Raises:
        ValueError: for an unknown `mode`; if `data` has an element that is not
            `Lessons`; if several `Lessons` differ in their number of lessons or in
            their current lesson; in `fit`, if `monitor` is not in the logs.

    Example:

    >>> from keras_attention.callbacks import Curriculum, Lessons
    >>> data = Lessons(lambda lesson, seed: None, lessons=14, batches=100)
    >>> callbacks = [Curriculum(data, threshold=0.9)]
    >>> # model.fit(data, callbacks=callbacks)

    Reference:
        Zaremba and Sutskever, "Learning to execute" (2014), section 4; Graves et al.,
        "Hybrid computing using a neural network with dynamic external memory" (2016),
        Methods, curriculum learning: for graph tasks with a threshold of 90 % correct
        answers.
    """

    def __init__(
        self,
        data: Lessons | Sequence[Lessons],
        monitor: str = "accuracy",
        threshold: float = 0.9,
        mode: str = "max",
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        self.data = [data] if isinstance(data, Lessons) else [*data]
        if not all(isinstance(d, Lessons) for d in self.data):
            raise ValueError(
                f"`data` must be `Lessons`, or several. Received: {data!r}"
            )
        if len({(d.lessons, d.lesson) for d in self.data}) != 1:
            raise ValueError(
                "`data` must be `Lessons`, all of as many lessons, and at the same "
                "lesson. "
                f"Received: {[(d.lessons, d.lesson) for d in self.data]}"
            )
        if mode not in ("max", "min"):
            raise ValueError(f"`mode` must be 'max' or 'min'. Received: {mode=}")
        self.monitor = monitor
        self.threshold = threshold
        self.mode = mode
        self.path = None if path is None else Path(path)

    @property
    def lesson(self) -> int:
        """The index of the current lesson."""
        return self.data[0].lesson

    def on_train_begin(self, logs: Any = None) -> None:
        self._states = EpochStates(self.path)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        lesson = self._states.resume(epoch)
        if lesson is not None:
            self._go_to(lesson)
        for data in self.data:
            data.epoch = epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        if self.monitor not in logs:
            raise ValueError(
                f"`monitor` must be one of the logs {sorted(logs)}. "
                f"Received: monitor={self.monitor!r}"
            )
        score = logs[self.monitor]
        logs["lesson"] = self.lesson
        passed = (
            score >= self.threshold if self.mode == "max" else score <= self.threshold
        )
        if passed and self.lesson + 1 < self.data[0].lessons:
            self._go_to(self.lesson + 1)
        self._states.store(epoch + 1, self.lesson)

    def on_train_end(self, logs: Any = None) -> None:
        self._states.delete()

    def _go_to(self, lesson: int) -> None:
        for data in self.data:
            data.lesson = lesson
