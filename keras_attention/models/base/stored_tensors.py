"""Reads tensors from files of weights: safetensors, and Keras' HDF5.

A safetensors file has three parts: the length n of the header, as eight bytes; a header
of n bytes, JSON that gives each tensor a dtype, a shape and two offsets; and the bytes
of the tensors, to which the offsets refer.
"""

from __future__ import annotations

import json
import math
import pathlib
from typing import Any, NamedTuple

import h5py
import numpy as np

Array = np.ndarray

# The dtypes of safetensors that can be weights, as NumPy stores their bytes.
FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
MOST_HEADER_BYTES = 100_000_000  # the limit of the format
LENGTH = 8  # bytes of the length of the header


class StoredTensor(NamedTuple):
    """A tensor in a file, which is read when it is needed.

    `start` is the offset of its bytes in a safetensors file; None in an HDF5 file.
    """

    file: pathlib.Path
    name: str  # in the file
    dtype: str
    shape: tuple[int, ...]
    start: int | None = None

    def read(self) -> Array:
        """Reads the values; those of bfloat16 as float32.

        Raises:
            ValueError: if the values are not floating-point numbers, or the file cannot
                be read.
        """
        if self.start is None:
            return self._read_hdf5()
        stored = FLOATS.get(self.dtype)
        if stored is None:
            raise self._not_floats()
        count = math.prod(self.shape)
        values = np.fromfile(self.file, stored, count, offset=self.start)
        if len(values) != count:
            raise damaged(self.file, f"it ends within the tensor {self.name!r}")
        if self.dtype == "BF16":
            values = _from_bfloat16(values)
        return values.reshape(self.shape)

    def _read_hdf5(self) -> Array:
        is_bfloat16 = self.dtype == "BF16"
        if not is_bfloat16 and np.dtype(self.dtype).kind != "f":
            raise self._not_floats()
        try:
            with h5py.File(self.file) as file:
                values = np.asarray(file[self.name])
        except OSError as error:
            raise damaged(self.file, f"{self.name!r}: {error}") from error
        return _from_bfloat16(values.view("<u2")) if is_bfloat16 else values

    def _not_floats(self) -> ValueError:
        return ValueError(
            f"{self.file.name} must store {self.name!r} as floating-point numbers. "
            f"Received: the dtype {self.dtype}"
        )


def _from_bfloat16(bits: Array) -> Array:
    """Returns bfloat16, given as integers, as float32: its bits are the first half."""
    return (bits.astype("<u4") << 16).view("<f4")


def damaged(file: pathlib.Path, reason: str) -> ValueError:
    """Returns the error for a file that is incomplete or of another format."""
    return ValueError(
        f"{file.name} must be a complete file of weights. It is damaged, incomplete or "
        f"of another format: {reason}. Received: {str(file)!r}"
    )


def safetensors(file: pathlib.Path) -> dict[str, StoredTensor]:
    """Reads the header of a safetensors file, and checks the file against it.

    Raises:
        ValueError: if the file is not a complete safetensors file.
    """
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(LENGTH), "little")
        if size < LENGTH or length > min(MOST_HEADER_BYTES, size - LENGTH):
            raise damaged(file, f"{size} bytes cannot hold its header")
        text = stream.read(length)
    try:
        header = json.loads(text.decode("utf-8"))
        header.pop("__metadata__", None)
        entries = {name: _entry(entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = "its header is not that of a safetensors file"
        raise damaged(file, reason) from error
    first = LENGTH + length
    end = max((stop for *_, stop in entries.values()), default=0)
    if first + end != size:
        raise damaged(file, f"it has {size} bytes, its header names {first + end}")
    found = {}
    for name, (dtype, shape, start, stop) in entries.items():
        stored = FLOATS.get(dtype)
        bytes_of_values = stop - start
        if stored is not None:
            bytes_of_values = math.prod(shape) * np.dtype(stored).itemsize
        if not 0 <= start <= stop or bytes_of_values != stop - start:
            raise damaged(file, f"the bytes of {name!r} do not fit its shape {shape}")
        found[name] = StoredTensor(file, name, dtype, shape, first + start)
    return found


def _entry(entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    """Returns the dtype, the shape and the offsets of an entry of a header."""
    start, stop = (int(offset) for offset in entry["data_offsets"])
    shape = tuple(int(size) for size in entry["shape"])
    if min(shape, default=0) < 0:
        raise ValueError("a size below 0")
    return str(entry["dtype"]), shape, start, stop


def hdf5(file: pathlib.Path) -> dict[str, StoredTensor]:
    """Lists the tensors of a file that Keras' `save_weights` wrote, by their paths.

    Raises:
        ValueError: if the file is not a complete HDF5 file, or refers to other files.
    """
    found = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            if item.external or item.is_virtual:
                raise damaged(file, f"{name!r} is stored in another file")
            # Keras stores bfloat16 as two bytes of no dtype, with an attribute.
            is_bfloat16 = (item.attrs.get("dtype"), item.dtype.str) == (
                "bfloat16",
                "|V2",
            )
            dtype = "BF16" if is_bfloat16 else item.dtype.str
            found[name] = StoredTensor(file, name, dtype, item.shape)

    try:
        with h5py.File(file) as opened:
            opened.visititems(visit)
    except OSError as error:
        raise damaged(file, str(error)) from error
    return found
