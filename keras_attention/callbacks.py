"""Callbacks: only what Keras has not."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras


class LinearStart(keras.callbacks.Callback):
    """Puts the softmax of the memory into a model that was started without it.

    A model with `linear_start=True` trains its hops without softmax first, which
    keeps it out of poor local minima. This callback ends that phase: after a fixed
    number of epochs, as in the authors' code, or once the validation loss has stopped
    falling, as in the paper. It works on any model that holds a `MemoryHop`, at any
    depth, and throws the switch in a variable that a compiled step sees.

    Args:
        epochs: how many epochs to train without softmax; None to watch the loss.
        monitor: the loss to watch.
        patience: how many epochs in a row it may fail to fall.

    Raises:
        ValueError: (in `fit`) if the model has no hop with a linear start; if
            `monitor` is not among the logs.

    Example:

    >>> from keras_attention.callbacks import LinearStart
    >>> callbacks = [LinearStart(epochs=20)]   # model.fit(…, callbacks=callbacks)

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.2.
    """

    def __init__(
        self, epochs: int | None = None, monitor: str = "val_loss", patience: int = 1
    ) -> None:
        super().__init__()
        if epochs is not None and epochs < 0:
            raise ValueError(f"`epochs` must not be negative. Received: {epochs=}")
        if patience < 1:
            raise ValueError(f"`patience` must be at least 1. Received: {patience=}")
        self.epochs = epochs
        self.monitor = monitor
        self.patience = patience
        self.switched_at: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        self.switched_at = None
        self._best = float("inf")
        self._waited = 0
        if not self._switches():
            raise ValueError(
                "`LinearStart` needs a model with a hop that has `linear_start=True`. "
                f"Received: model={self.model.name!r}"
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.epochs is not None and epoch >= self.epochs:
            self._switch(epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.epochs is not None or self.switched_at is not None:
            return
        if self.monitor not in (logs or {}):
            raise ValueError(
                f"`monitor` must be one of the logs {sorted(logs or {})}; does `fit` "
                f"have validation data? Received: monitor={self.monitor!r}"
            )
        if logs[self.monitor] < self._best:
            self._best, self._waited = logs[self.monitor], 0
            return
        self._waited += 1
        if self._waited >= self.patience:
            self._switch(epoch + 1)

    def _switches(self) -> list[Any]:
        return [v for v in self.model.non_trainable_variables if is_switch(v)]

    def _switch(self, epoch: int) -> None:
        if self.switched_at is None:
            self.switched_at = epoch
            for variable in self._switches():
                variable.assign(False)


def is_switch(variable: Any) -> bool:
    """Whether a variable says if a hop goes without its softmax."""
    return variable.name == "linear_start"


class HalveLearningRate(keras.callbacks.Callback):
    """Halves the learning rate every few epochs.

    At the start of epoch e the rate is  r · ½^⌊(e − start) / every⌋,  with r the
    optimizer's rate when `fit` was called; r itself before epoch `start`. It counts
    epochs, unlike a Keras schedule, which counts steps and so has to know the data's
    size. To go on with an earlier `fit`, set the optimizer's rate back to r first.

    Args:
        every: the number of epochs between two halvings; the paper takes 25 for
            single tasks and 15 for all of them together.
        start: the epoch from which to count, such as the end of a linear start.

    Example:

    >>> from keras_attention.callbacks import HalveLearningRate
    >>> callbacks = [HalveLearningRate(every=25)]  # model.fit(…, callbacks=callbacks)

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.2.
    """

    def __init__(self, every: int = 25, start: int = 0) -> None:
        super().__init__()
        if every < 1:
            raise ValueError(f"`every` must be at least 1. Received: {every=}")
        self.every = every
        self.start = start

    def on_train_begin(self, logs: Any = None) -> None:
        self._rate = float(self.model.optimizer.learning_rate)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        halvings = max(epoch - self.start, 0) // self.every
        self.model.optimizer.learning_rate = self._rate * 0.5**halvings


class ScheduledSamplingDecay(keras.callbacks.Callback):
    """Lets a decoder read more and more of its own words, step by step.

        ε_i = 1 − k / (k + exp(i / k))          (inverse sigmoid decay)

    at step i of the optimizer, which goes on counting where an earlier `fit` ended. It
    sets the probability of every `ScheduledSampling` in a model, at any depth, whatever
    it was before. Half of the words are its own after k · log(k) steps.

    Args:
        k: at least 1; the greater, the later and slower.

    Raises:
        ValueError: for a k below 1; in `fit` if there is no `ScheduledSampling`.

    Example:

    >>> from keras_attention.callbacks import ScheduledSamplingDecay
    >>> callbacks = [ScheduledSamplingDecay(k=500)]  # model.fit(…, callbacks=callbacks)
    >>> round(callbacks[0].probability(3107), 3)
    0.5

    Reference:
        Bengio et al., "Scheduled sampling for sequence prediction with recurrent neural
        networks" (2015), section 2.4.
    """

    def __init__(self, k: float) -> None:
        super().__init__()
        if k < 1:
            raise ValueError(f"`k` must be at least 1. Received: {k=}")
        self.k = k

    def probability(self, step: int) -> float:
        """ε at a step: how likely a word of the decoder's own is read."""
        return 1 / (1 + self.k * math.exp(-step / self.k))

    def on_train_begin(self, logs: Any = None) -> None:
        if not self._variables():
            raise ValueError(
                "`ScheduledSamplingDecay` needs a model with a `ScheduledSampling`. "
                f"Received: model={self.model.name!r}"
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        iterations = keras.ops.convert_to_numpy(self.model.optimizer.iterations)
        self._first = int(iterations)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        for variable in self._variables():
            variable.assign(self.probability(self._first + batch))

    def _variables(self) -> list[Any]:
        return [
            v
            for v in self.model.non_trainable_variables
            if v.name == "sampling_probability"
        ]


class Lessons(keras.utils.PyDataset):
    """Batches that are drawn anew each epoch, of a lesson that a `Curriculum` raises.

    Args:
        make: called as `make(lesson, seed)`, with the lesson's number from 0 and a list
            of whole numbers for `numpy.random.default_rng`; returns a batch, such as
            `(inputs, targets)`. Batches of all lessons should be of one shape, padded
            to the longest: a shape is compiled once, and TensorFlow takes no other than
            it has seen first.
        lessons: how many lessons there are.
        batches: how many batches make an epoch.
        seed: of what is drawn: with the same one, and `make` of the same arguments, an
            epoch has the same batches of a lesson again.
        lesson: the lesson to begin with.

    Raises:
        ValueError: for no lesson, no batch, or a `lesson` that is not there.

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
        make: Callable[[int, list[int]], Any],
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
        self.make = make
        self.lessons = lessons
        self.batches = batches
        self.seed = seed
        self.epoch = 0
        self.lesson = lesson

    @property
    def lesson(self) -> int:
        """The lesson that batches are drawn of, from 0."""
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
        return self.make(self.lesson, [self.seed, self.epoch, index])

    def on_epoch_end(self) -> None:
        """The next epoch's batches are other ones."""
        self.epoch += 1


class Curriculum(keras.callbacks.Callback):
    """Raises the lesson once a score has passed a bar.

    At the end of an epoch whose score is good enough, the data go on to the next
    lesson. The logs, and so the history, get the epoch's `"lesson"`, from 0.

    Args:
        data: the `Lessons` that `fit` trains on, or several, such as those of the
            training and of the validation.
        monitor: the score, by its name in the logs.
        bar: what it has to reach.
        mode: "max" if greater is better, "min" if less is.
        path: a file that keeps the lesson, so that a training that was cut off goes on
            with it, as `keras.callbacks.BackupAndRestore` does with the weights. It is
            deleted when the training ends.

    Raises:
        ValueError: for another `mode`, for data without or with unequal lessons; in
            `fit` if `monitor` is not among the logs.

    Example:

    >>> from keras_attention.callbacks import Curriculum, Lessons
    >>> data = Lessons(lambda lesson, seed: None, lessons=14, batches=100)
    >>> callbacks = [Curriculum(data, bar=0.9)]  # model.fit(data, callbacks=callbacks)

    Reference:
        Zaremba and Sutskever, "Learning to execute" (2014), section 4; Graves et al.,
        "Hybrid computing using a neural network with dynamic external memory" (2016),
        Methods, curriculum learning: 90 % of the answers right, of the graph tasks.
    """

    def __init__(
        self,
        data: Lessons | Sequence[Lessons],
        monitor: str = "accuracy",
        bar: float = 0.9,
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
                "`data` must be `Lessons`, all of as many lessons and at the same one. "
                f"Received: {[(d.lessons, d.lesson) for d in self.data]}"
            )
        if mode not in ("max", "min"):
            raise ValueError(f"`mode` must be 'max' or 'min'. Received: {mode=}")
        self.monitor = monitor
        self.bar = bar
        self.mode = mode
        self.path = None if path is None else Path(path)

    @property
    def lesson(self) -> int:
        """The lesson that the data have come to, from 0."""
        return self.data[0].lesson

    def on_train_begin(self, logs: Any = None) -> None:
        if self.path is not None and self.path.exists():
            self._go_to(json.loads(self.path.read_text("utf-8"))["lesson"])

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
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
        passed = score >= self.bar if self.mode == "max" else score <= self.bar
        if passed and self.lesson + 1 < self.data[0].lessons:
            self._go_to(self.lesson + 1)
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_text(json.dumps({"lesson": self.lesson}), "utf-8")

    def on_train_end(self, logs: Any = None) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _go_to(self, lesson: int) -> None:
        for data in self.data:
            data.lesson = lesson
