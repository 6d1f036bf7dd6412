"""Writes files that TensorBoard reads, without TensorFlow or TensorBoard.

A file is a sequence of records: the length, its checksum, an `Event` as a protocol
buffer, its checksum. The numbers of the fields are those of TensorBoard's event.proto,
summary.proto and tensor.proto.
"""

from __future__ import annotations

import os
import socket
import struct
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path

import numpy as np

_files = count()  # two files of a process within a second have different names


class EventFile:
    """A file of events in a folder; it exists once something was written.

    Args:
        folder: the folder. TensorBoard shows it as a run.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        parts = int(time.time()), socket.gethostname(), os.getpid(), next(_files)
        name = ".".join(map(str, ("events.out.tfevents", *parts)))
        self.path = Path(folder) / name

    def write(
        self,
        step: int,
        images: Mapping[str, Sequence[np.ndarray]],
        scalars: Mapping[str, float],
    ) -> None:
        """Appends one event with images and scalars.

        Args:
            step: the step or the epoch.
            images: from each tag to grey images (height, width) uint8, one per sample.
            scalars: from each tag to a number.
        """
        values = [_image(tag, pixels) for tag, pixels in images.items()]
        values += [
            _bytes(1, tag.encode()) + _tag(2, 5) + struct.pack("<f", value)
            for tag, value in scalars.items()
        ]
        summary = b"".join(_bytes(1, value) for value in values)
        event = _tag(2, 0) + _varint(step) + _bytes(5, summary)
        start = b""
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            start = _record(_wall_time() + _bytes(3, b"brain.Event:2"))
        with self.path.open("ab") as file:
            file.write(start + _record(_wall_time() + event))


def png(pixels: np.ndarray) -> bytes:
    """Encodes a grey image (height, width) uint8 as a PNG file."""
    height, width = pixels.shape
    header = struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)
    rows = np.pad(pixels, ((0, 0), (1, 0)))  # each row begins with the filter "none"
    data = zlib.compress(rows.tobytes())
    chunks = (b"IHDR", header), (b"IDAT", data), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )


def _image(tag: str, images: Sequence[np.ndarray]) -> bytes:
    """A `Summary.Value` for the images plugin: width, height and PNG files."""
    height, width = images[0].shape
    strings = [str(width).encode(), str(height).encode(), *map(png, images)]
    shape = _bytes(2, _tag(1, 0) + _varint(len(strings)))
    tensor = _tag(1, 0) + _varint(7) + _bytes(2, shape)  # 7: a tensor of strings
    tensor += b"".join(_bytes(8, string) for string in strings)
    plugin = _bytes(1, b"images")
    metadata = _bytes(1, plugin) + _tag(4, 0) + _varint(3)  # 3: a sequence of blobs
    return _bytes(1, tag.encode()) + _bytes(8, tensor) + _bytes(9, metadata)


def _wall_time() -> bytes:
    return _tag(1, 1) + struct.pack("<d", time.time())


def _tag(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _bytes(field: int, content: bytes) -> bytes:
    return _tag(field, 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Seven bits per byte, the lowest first; the high bit is set if more follow."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked_checksum(length) + data + _masked_checksum(data)


def _checksum_table() -> Iterable[int]:
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        yield number


_TABLE = tuple(_checksum_table())


def _masked_checksum(data: bytes) -> bytes:
    """The CRC-32C of the data, rotated and shifted as record files have it."""
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum = _TABLE[(checksum ^ byte) & 255] ^ checksum >> 8
    checksum ^= 0xFFFFFFFF
    rotated = checksum >> 15 | checksum << 17 & 0xFFFFFFFF
    return struct.pack("<I", rotated + 0xA282EAD8 & 0xFFFFFFFF)
