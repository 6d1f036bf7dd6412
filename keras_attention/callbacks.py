"""Callbacks that Keras does not provide."""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_attention.layers.base.arguments import number
from keras_attention.layers.base.recording import (
    NothingRecordedError,
    record_attention,
)
from keras_attention.layers.hopfield.energies import record_energies

__all__ = [
    "Curriculum",
    "HalveLearningRate",
    "Lessons",
    "LinearStart",
    "ScheduledSamplingDecay",
    "TensorBoardAttention",
    "is_switch",
]
__dir__ = __all__.copy

_GAP = 128  # the grey between the images of heads
_files = itertools.count()  # two files of a process within a second have other names


class EpochStates(keras.callbacks.Callback):
    """Base class of callbacks that resume an interrupted training from a file.

    `BackupAndRestore` decides at which epoch an interrupted training resumes. Its file
    may be one epoch older than this one, so the states of all epochs are stored.

    Args:
        path: the file, which is deleted when training ends; None stores nothing.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        super().__init__()
        self.path = None if path is None else Path(path)

    def on_train_begin(self, logs: Any = None) -> None:
        self._states: dict[str, Any] = {}
        if self.path is not None and self.path.exists():
            self._states = json.loads(self.path.read_text("utf-8"))
        self._resumes = bool(self._states)

    def _resume(self, epoch: int) -> Any:
        """Returns the state of the first epoch after an interruption, or else None."""
        if not self._resumes:
            return None
        self._resumes = False
        earlier = [int(k) for k in self._states if int(k) <= epoch]
        return self._states[str(max(earlier))] if earlier else None

    def _store(self, epoch: int, state: Any) -> None:
        """Stores the state at the start of `epoch`."""
        if self.path is None:
            return
        self._states[str(epoch)] = state
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(f"{self.path.name}.part")
        part.write_text(json.dumps(self._states), "utf-8")
        part.replace(self.path)

    def on_train_end(self, logs: Any = None) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)


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


class Curriculum(EpochStates):
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
        super().__init__(path)
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

    @property
    def lesson(self) -> int:
        """The index of the current lesson."""
        return self.data[0].lesson

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        lesson = self._resume(epoch)
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
        self._store(epoch + 1, self.lesson)

    def _go_to(self, lesson: int) -> None:
        for data in self.data:
            data.lesson = lesson


class HalveLearningRate(keras.callbacks.Callback):
    """Halves the learning rate every few epochs.

        rate(e) = r · ½^⌊(e − start) / every⌋

    The rate of epoch e is set at its start, and r is the optimizer's rate when `fit`
    was called. Before epoch `start`, the rate is r. The callback counts epochs, while a
    Keras schedule counts steps and therefore depends on the size of the data. To
    continue an earlier `fit` with the same optimizer, first reset its learning rate to
    r. `keras.callbacks.BackupAndRestore` may stand before or after this callback: a
    rate that it restores does not change r.

    Args:
        every: the number of epochs between halvings. The paper uses 25 for single tasks
            and 15 for joint training on all tasks.
        start: the first epoch to count from, such as the end of a linear start.

    Example:

    >>> from keras_attention.callbacks import HalveLearningRate
    >>> callbacks = [HalveLearningRate(every=25)]  # model.fit(…, callbacks=callbacks)

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.2.
    """

    def __init__(self, every: int = 25, start: int = 0) -> None:
        super().__init__()
        self.every = number("every", every, least=1)
        self.start = start

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        # Other callbacks may restore a halved rate in `on_train_begin`.
        if getattr(model, "optimizer", None) is not None:
            self._rate = float(model.optimizer.learning_rate)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        halvings = max(epoch - self.start, 0) // self.every
        self.model.optimizer.learning_rate = self._rate * 0.5**halvings


class LinearStart(EpochStates):
    """Switches on the softmax of the memory hops of a model with a linear start.

    A model with `linear_start=True` first trains its hops without the softmax, to avoid
    poor local minima. This callback ends that phase after a fixed number of epochs, as
    in the authors' code, or when the validation loss stops falling, as in the paper. It
    works on any model that contains a `MemoryHop`, at any depth. The switch is a
    variable, so compiled training steps use the new value.

    Args:
        epochs: the number of epochs without the softmax; None to monitor the loss.
        monitor: the loss to monitor.
        patience: the number of epochs without improvement before the switch.
        path: a file that stores the losses that were monitored, so that interrupted
            training can resume with `keras.callbacks.BackupAndRestore`. It is not
            necessary with `epochs`. The file is deleted when training ends.

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
        self,
        epochs: int | None = None,
        monitor: str = "val_loss",
        patience: int = 1,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(path)
        if epochs is not None and epochs < 0:
            raise ValueError(f"`epochs` must not be negative. Received: {epochs=}")
        self.epochs = epochs
        self.monitor = monitor
        self.patience = number("patience", patience, least=1)
        self.switched_at: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        self.switched_at = None
        self._best = float("inf")
        self._waited = 0
        super().on_train_begin()
        if not self._switches():
            raise ValueError(
                "`LinearStart` needs a model with a hop that has `linear_start=True`. "
                f"Received: model={self.model.name!r}"
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        state = self._resume(epoch)
        if state is not None:
            self._best, self._waited, at = state
            if at is not None:  # the restored weights may be from before the switch
                self._switch(at)
        if self.epochs is not None and epoch >= self.epochs:
            self._switch(epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.epochs is None and self.switched_at is None:
            self._watch(epoch, logs or {})
        self._store(epoch + 1, [self._best, self._waited, self.switched_at])

    def _watch(self, epoch: int, logs: dict[str, Any]) -> None:
        """Switches if the loss did not fall for `patience` epochs."""
        if self.monitor not in logs:
            raise ValueError(
                f"`monitor` must be one of the logs {sorted(logs)}; does `fit` "
                f"have validation data? Received: monitor={self.monitor!r}"
            )
        if logs[self.monitor] < self._best:
            self._best, self._waited = float(logs[self.monitor]), 0
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
    """Returns whether a variable is the linear-start switch of a hop."""
    return variable.name == "linear_start"


class ScheduledSamplingDecay(keras.callbacks.Callback):
    """Lowers the probability of teacher forcing during training.

        ε_i = 1 − k / (k + exp(i / k))          (inverse sigmoid decay)

    Here i counts the steps of the optimizer, across all calls of `fit`. The callback
    sets the probability of every `ScheduledSampling` in the model, at any depth, and
    overwrites its earlier value. After k · log(k) steps, half of the inputs are the
    decoder's own predictions.

    Args:
        k: at least 1. A larger k gives a later and slower decay.

    Raises:
        ValueError: if k is below 1; in `fit`, if the model has no `ScheduledSampling`.

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
        self.k = number("k", k, least=1)

    def probability(self, step: int) -> float:
        """Returns the sampling probability at `step`."""
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
        variables = self.model.non_trainable_variables
        return [v for v in variables if v.name == "sampling_probability"]


class TensorBoardAttention(keras.callbacks.Callback):
    """Writes attention maps, and energies of Hopfield layers, for TensorBoard.

    At each write, the callback calls the model on sample inputs and records the weights
    of every attention layer. It writes, below the tags of the layers' paths:

    - `attention/…`, images: a row per query, a column per key, heads side by side. A
      weight of 0 is white, and a weight of `max_weight` or more is black.
    - `energy/…`, images for each `Hopfield`, also within `HopfieldPooling` and
      `HopfieldLayer`: a row per state, a column before the first and after each update
      step, heads side by side. The lowest energy of an image is white, the highest
      black. An update never raises the energy, so a row becomes lighter.
    - `energy/…/first` and `energy/…/last`, scalars: the mean energy of the samples'
      states before the first and after the last update step.

    The callback works on each backend, without TensorFlow. It needs the extra
    `tensorboard`. To view the files, run `tensorboard --logdir logs`.
    `keras.callbacks.TensorBoard` may use the same folder.

    Args:
        inputs: sample inputs, as for `model(inputs)`. Each attention layer stores its
            weights for all of them, so use few samples.
        log_dir: the folder. The files are in its folder `attention`, a run.
        update_freq: "epoch", or a number of batches; "batch" is 1. The step in
            TensorBoard is the index of the epoch, or the number of batches since the
            callback was made.
        layers: the paths of the layers to write, as `record_attention` names them; None
            for all. A path includes the paths below it: "encoder" includes
            "encoder/attention".
        max_samples: at most so many images per layer, one per sample.
        max_weight: the smallest weight that is black. With many keys, weights are
            small: use, for example, 0.1.
        cell_size: pixels per weight, in each direction.

    Raises:
        ImportError: TensorBoard is not installed; the message names the extra.
        ValueError: for an unknown `update_freq`, a size or weight that is not positive;
            in `fit`, if the model calls no attention layer, or `layers` has a path that
            was not called.

    Example:

    >>> import numpy as np
    >>> from keras_attention.callbacks import TensorBoardAttention
    >>> sample = np.array([[1, 5, 3], [4, 2, 2]])
    >>> callbacks = [TensorBoardAttention(sample, log_dir="logs")]
    >>> # model.fit(x, y, callbacks=callbacks)

    Reference:
        The energy is that of Ramsauer et al., "Hopfield networks is all you need"
        (2021), equation 2; see `ops.energy.hopfield_energy`.
    """

    def __init__(
        self,
        inputs: Any,
        log_dir: str | os.PathLike[str] = "logs",
        update_freq: str | int = "epoch",
        layers: Sequence[str] | None = None,
        max_samples: int = 3,
        max_weight: float = 1.0,
        cell_size: int = 8,
    ) -> None:
        super().__init__()
        every = 1 if update_freq == "batch" else update_freq
        is_number = isinstance(every, int) and not isinstance(every, bool)
        if every != "epoch" and not (is_number and every >= 1):  # type: ignore[operator]
            raise ValueError(
                "`update_freq` must be 'epoch', 'batch' or a number of batches from 1 "
                f"on. Received: {update_freq=}"
            )
        if isinstance(layers, str):
            raise ValueError(
                f"`layers` must be a list of paths, or None. Received: {layers=}"
            )
        if max_samples < 1 or cell_size < 1 or not max_weight > 0:
            raise ValueError(
                "`max_samples`, `cell_size` and `max_weight` must be positive. "
                f"Received: {max_samples=}, {cell_size=}, {max_weight=}"
            )
        self.inputs = inputs
        self.log_dir = Path(log_dir)
        self.update_freq = every
        self.layers = layers
        self.max_samples = max_samples
        self.max_weight = max_weight
        self.cell_size = cell_size
        self._batches = 0
        self._file = EventFile(self.log_dir / "attention")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._batch = -1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        before = self._batches
        # With `steps_per_execution`, an execution has several batches.
        self._batches += batch - self._batch
        self._batch = batch
        every = self.update_freq
        if isinstance(every, int) and self._batches // every > before // every:
            self.write(self._batches)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.update_freq == "epoch":
            self.write(epoch)

    def write(self, step: int) -> None:
        """Writes the maps and energies of the model as it is now.

        Args:
            step: the step in TensorBoard.
        """
        maps, energies = self._record()
        images = {
            f"attention/{path}": [
                self._image(1 - weights / self.max_weight) for weights in samples
            ]
            for path, samples in maps.items()
        }
        scalars = {}
        for path, samples in energies.items():
            images[f"energy/{path}"] = [self._image(_lightness(e)) for e in samples]
            scalars[f"energy/{path}/first"] = float(np.mean(samples[..., 0]))
            scalars[f"energy/{path}/last"] = float(np.mean(samples[..., -1]))
        self._file.write(step, images, scalars)

    def _record(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Returns the maps and the energies of the samples, of the chosen layers."""
        model = self.model  # on JAX, this also loads the weights of the training step
        try:
            with record_attention() as maps, record_energies() as energies:
                model(self.inputs, training=False)
        except NothingRecordedError as error:
            raise ValueError(
                "`TensorBoardAttention` needs a model that calls an attention layer of "
                f"keras_attention. Received: model={model.name!r}"
            ) from error
        for chosen in self.layers or ():
            if not any(_is_within(path, chosen) for path in maps):
                raise ValueError(
                    f"`layers` must be paths of {sorted(maps)}. Received: {chosen!r}"
                )
        return self._chosen(maps), self._chosen(energies)

    def _chosen(self, recorded: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the samples of the chosen layers."""
        return {
            path: samples[: self.max_samples].astype("float32")
            for path, samples in recorded.items()
            if self.layers is None or any(_is_within(path, n) for n in self.layers)
        }

    def _image(self, lightness: np.ndarray) -> np.ndarray:
        """Draws numbers from 0, black, to 1, white: (S,), (T, S) or (..., T, S)."""
        heads = np.atleast_2d(lightness)
        heads = heads.reshape(-1, *heads.shape[-2:])  # (H, T, S)
        cells = np.rint(255 * np.nan_to_num(heads).clip(0, 1)).astype("uint8")
        cells = cells.repeat(self.cell_size, 1).repeat(self.cell_size, 2)
        gap = np.full((cells.shape[1], 2), _GAP, "uint8")
        parts = [part for head in cells for part in (gap, head)]
        return np.concatenate(parts[1:], axis=1)


def _lightness(energies: np.ndarray) -> np.ndarray:
    """Maps the lowest energy to 1 and the highest to 0."""
    highest = energies.max()
    return (highest - energies) / max(highest - energies.min(), 1e-12)


def _is_within(path: str, chosen: str) -> bool:
    return path == chosen or path.startswith(f"{chosen}/")


class EventFile:
    """A file of events in a folder, a run; it exists once something was written."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            self._events = import_module("tensorboard.compat.proto.event_pb2")
            self._summaries = import_module("tensorboard.compat.proto.summary_pb2")
            self._writers = import_module("tensorboard.summary.writer.record_writer")
            self._pictures = import_module("PIL.Image")
        except ImportError as error:
            raise ImportError(
                "`TensorBoardAttention` needs TensorBoard, which comes with the extra "
                "`tensorboard`: python -m pip install "
                f'"keras-attention-family[tensorboard]". Received: {error}'
            ) from error
        parts = int(time.time()), socket.gethostname(), os.getpid(), next(_files)
        name = ".".join(map(str, ("events.out.tfevents", *parts)))
        self.path = Path(folder) / name

    def write(
        self,
        step: int,
        images: Mapping[str, Sequence[np.ndarray]],
        scalars: Mapping[str, float],
    ) -> None:
        """Appends an event: grey images (height, width) uint8 and scalars, by tags."""
        values = [self._image(tag, pixels) for tag, pixels in images.items()]
        values += [
            self._summaries.Summary.Value(tag=tag, simple_value=value)
            for tag, value in scalars.items()
        ]
        summary = self._summaries.Summary(value=values)
        events = [self._events.Event(wall_time=time.time(), step=step, summary=summary)]
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            version = {"file_version": "brain.Event:2"}
            events.insert(0, self._events.Event(wall_time=time.time(), **version))
        with self.path.open("ab") as file:
            writer = self._writers.RecordWriter(file)
            for event in events:
                writer.write(event.SerializeToString())

    def _image(self, tag: str, images: Sequence[np.ndarray]) -> Any:
        """Returns a `Summary.Value` of the images plugin: width, height, PNG files."""
        height, width = images[0].shape
        value = self._summaries.Summary.Value(tag=tag)
        strings = [str(width).encode(), str(height).encode(), *map(self._png, images)]
        value.tensor.string_val.extend(strings)
        value.tensor.dtype = 7  # DT_STRING
        value.tensor.tensor_shape.dim.add(size=len(strings))
        value.metadata.plugin_data.plugin_name = "images"
        value.metadata.data_class = self._summaries.DATA_CLASS_BLOB_SEQUENCE
        return value

    def _png(self, pixels: np.ndarray) -> bytes:
        """Encodes a grey image (height, width) uint8 as a PNG file."""
        file = io.BytesIO()
        self._pictures.fromarray(pixels).save(file, "PNG")
        return file.getvalue()
