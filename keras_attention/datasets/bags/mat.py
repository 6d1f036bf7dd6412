"""Reads numeric and sparse arrays from MATLAB version 5 files.

This reader exists because SciPy's reader crashes the process on some damaged files.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator

import numpy as np

# The type and class codes of the format.
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
_TYPES |= {12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED = 14, 15
_SPARSE, _NUMERIC = 5, range(6, 16)
_HEAD = 128  # bytes before the first element
_LIMIT = 2**28  # limit in bytes for a decompressed element and for an array


class BrokenMatError(ValueError):
    """The bytes do not follow the format, or they end too early."""


def arrays(content: bytes) -> dict[str, np.ndarray]:
    """Returns the real numeric arrays of a file by name. Sparse arrays become dense.

    Raises:
        BrokenMatError: The bytes do not follow the format, or they end too early.
    """
    order = {b"IM": "<", b"MI": ">"}.get(content[126:_HEAD])
    if not content.startswith(b"MATLAB 5.0 MAT-file") or order is None:
        raise BrokenMatError(
            f"it is no MATLAB file of format 5; it begins with {content[:20]!r}"
        )
    by_name = {}
    for kind, data in _elements(content[_HEAD:], order):
        if kind == _COMPRESSED:
            kind, data = next(_elements(_decompressed(data), order), (0, b""))
        if kind == _MATRIX:
            named = _matrix(data, order)
            if named is not None:
                by_name[named[0]] = named[1]
    return by_name


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Yields the type and the bytes of each element in order."""
    place = 0
    while place < len(data):
        first, size = (
            int(n) for n in _numbers(data[place : place + 8], "u4", order, 2)
        )
        start, kind = place + 8, first
        if first >> 16:  # a short element: four bytes at most, within the tag
            kind, size, start = first & 0xFFFF, first >> 16, place + 4
            end = place + 8
        else:
            end = start + size
            if kind != _COMPRESSED:
                end += -size % 8
        if start + size > len(data):
            raise BrokenMatError(
                f"it ends within an element: it has {len(data) - start} of its "
                f"{size} bytes"
            )
        yield kind, data[start : start + size]
        place = end


def _decompressed(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data, _LIMIT)
    except zlib.error as error:
        raise BrokenMatError(f"it cannot be decompressed ({error})") from error
    if not stream.eof:
        raise BrokenMatError("its compressed data is cut off or too large")
    return content


def _matrix(data: bytes, order: str) -> tuple[str, np.ndarray] | None:
    """Returns a variable's name and array, or None if its numbers are not real."""
    parts = list(_elements(data, order))
    if len(parts) < 3:
        raise BrokenMatError("a variable has no flags, shape or name")
    flags = int(_numbers(parts[0][1], "u4", order, 2)[0])
    shape = tuple(int(n) for n in _integers(parts[1], order))
    name = parts[2][1].decode("latin-1")
    if (flags & 0xFF) not in (_SPARSE, *_NUMERIC) or flags & 0x800:  # 0x800: complex
        return None
    if not all(0 <= n <= _LIMIT for n in shape) or 8 * math.prod(shape) > _LIMIT:
        raise BrokenMatError(f"{name!r} is of the shape {shape}")
    if flags & 0xFF == _SPARSE:
        return name, _filled(name, shape, parts[3:], order)
    values = [_typed(part, order) for part in parts[3:]]
    if len(values) != 1 or len(values[0]) != math.prod(shape):
        raise BrokenMatError(f"{name!r} does not fill its shape {shape}")
    return name, values[0].reshape(shape, order="F")


def _filled(
    name: str, shape: tuple[int, ...], parts: list[tuple[int, bytes]], order: str
) -> np.ndarray:
    """Builds a dense array from row indices, column starts and values."""
    if len(parts) != 3 or len(shape) != 2:
        raise BrokenMatError(f"{name!r} is no sparse array of two axes")
    rows, starts = (_integers(part, order).astype(np.int64) for part in parts[:2])
    numbers = _typed(parts[2], order)
    count = np.diff(starts)
    sound = len(starts) == shape[1] + 1 and starts[0] == 0 and not (count < 0).any()
    used = int(starts[-1]) if sound else -1
    if not 0 <= used <= min(len(rows), len(numbers)):
        raise BrokenMatError(f"{name!r} has columns that do not fit its numbers")
    rows = rows[:used]
    if used and not 0 <= rows.min() <= rows.max() < shape[0]:
        raise BrokenMatError(f"{name!r} has numbers outside its {shape[0]} rows")
    array = np.zeros(shape, numbers.dtype)
    array[rows, np.repeat(np.arange(shape[1]), count)] = numbers[:used]
    return array


def _integers(element: tuple[int, bytes], order: str) -> np.ndarray:
    numbers = _typed(element, order)
    if numbers.dtype.kind not in "iu":
        raise BrokenMatError("its shape or indices are not whole numbers")
    return numbers


def _typed(element: tuple[int, bytes], order: str) -> np.ndarray:
    kind, data = element
    if kind not in _TYPES:
        raise BrokenMatError(f"it has numbers of the unknown type {kind}")
    width = int(_TYPES[kind][1])
    return _numbers(data, _TYPES[kind], order, len(data) // width)


def _numbers(data: bytes, kind: str, order: str, count: int) -> np.ndarray:
    if len(data) < count * int(kind[1]):
        raise BrokenMatError("it ends within a number")
    return np.frombuffer(data, order + kind, count)
