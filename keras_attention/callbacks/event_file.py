"""Writes images and scalars into a file of events, by TensorBoard's own writer."""

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

import numpy as np

_files = itertools.count()  # two files of a process within a second have other names


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
