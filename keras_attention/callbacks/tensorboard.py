"""Attention maps and energies in TensorBoard, during training."""

from __future__ import annotations

import io
import itertools
import os
import socket
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_attention.layers import record_attention
from keras_attention.layers.base.recording import NothingRecordedError
from keras_attention.layers.hopfield.energies import record_energies

_GAP = 128  # the grey between heads
_files = itertools.count()  # two files of a process within a second have other names


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
