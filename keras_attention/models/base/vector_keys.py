"""Reads the keys of a `VectorIndex` in blocks.

Shapes: N keys, D width.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from keras import ops

BLOCK = 2**16  # keys read at a time
SPREAD = 64  # keys of a memory that are compared


class MemoryKeys:
    """The keys of a memory, which may compute them, as something to be sliced.

    Args:
        memory: an object with `size` and `keys(start, stop)`, such as a `LargeMemory`.
            If it has a method `digest()`, this tells its keys from all others on every
            backend.
    """

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        first = memory.keys(0, 1)
        self.shape = (int(memory.size), first.shape[1])
        self.dtype = first.dtype
        digest = getattr(memory, "digest", None)
        self.digest: str | None = digest() if callable(digest) else None

    def __getitem__(self, where: slice) -> np.ndarray:
        start, stop, _ = where.indices(self.shape[0])
        return self._memory.keys(start, stop)


def read_keys(keys: Any) -> Any:
    """Returns the keys as something with a shape (N, D) that can be sliced.

    Args:
        keys: numbers (N, D), or an object with `size` and `keys(start, stop)`.

    Raises:
        ValueError: if the keys are not numbers (N, D), or N or D is 0.
    """
    if hasattr(keys, "size") and callable(getattr(keys, "keys", None)):
        keys = MemoryKeys(keys)
    if not hasattr(keys, "shape"):
        keys = np.asarray(keys)
    shape = tuple(keys.shape)
    kind = ops.convert_to_numpy(keys[:1]).dtype.kind if len(shape) == 2 else "f"
    # "V" is the kind of bfloat16.
    if len(shape) != 2 or 0 in shape or kind not in "fiuV":
        raise ValueError(
            "`keys` must be numbers (keys, width), neither of them 0. "
            f"Received: keys.shape={shape}, keys.dtype={keys.dtype}"
        )
    return keys


def marks_of(keys: Any) -> list[float]:
    """Returns a number for each of up to `SPREAD` keys, from the first to the last.

    It is the product of the key with random signs. Keys that a memory computes on
    another backend differ by rounding, so they have no common digest.
    """
    size, width = keys.shape
    signs = np.random.default_rng(width).choice([-1.0, 1.0], width)
    rows = np.unique(np.linspace(0, size - 1, SPREAD).astype(int)).tolist()
    some = [ops.convert_to_numpy(keys[row : row + 1])[0] for row in rows]
    return [float(key.astype("float64") @ signs) for key in some]


def digest_of(keys: Any) -> str:
    """Returns a digest of the keys in float32, 64 hexadecimal digits."""
    digest = hashlib.sha256(f"{tuple(keys.shape)} ".encode())
    for _, block in blocks(keys):
        digest.update(block.data)
    return digest.hexdigest()


def blocks(keys: Any) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the number of the first key of each block, and the block in float32."""
    for start in range(0, keys.shape[0], BLOCK):
        block = ops.convert_to_numpy(keys[start : start + BLOCK])
        with np.errstate(over="ignore"):  # reported by `first_pass`
            yield start, np.ascontiguousarray(block, "float32")


def first_pass(keys: Any, sample: int, seed: int) -> tuple[str, np.ndarray]:
    """Reads the keys, checks them and draws a sample.

    Args:
        keys: as `read_keys` returns them.
        sample: the number of keys to draw without replacement; all if there are fewer.
        seed: the random seed of the sample.

    Returns:
        The digest of the keys, and the sample in the order of the keys.

    Raises:
        ValueError: if a key is not finite in float32.
    """
    digest = hashlib.sha256(f"{tuple(keys.shape)} ".encode())
    size = keys.shape[0]
    rows = np.arange(min(size, sample))
    if sample < size:
        rows = np.random.default_rng(seed).choice(size, sample, replace=False)
        rows.sort()
    points = []
    for start, block in blocks(keys):
        wrong = np.flatnonzero(~np.isfinite(block).all(1))
        if len(wrong):
            raise ValueError(
                "`keys` must be finite in float32. "
                f"Received: {len(wrong)} of a block that are not, such as "
                f"keys[{start + wrong[0]}]"
            )
        digest.update(block.data)
        first, last = np.searchsorted(rows, [start, start + len(block)])
        points.append(block[rows[first:last] - start])
    return digest.hexdigest(), np.concatenate(points)
