"""Tiles and blocks of attention on a CPU: when to use them, and their sizes.

A tile consists of some queries of one head and all keys that they may attend to. Its
scores fit into the CPU cache and are recomputed for the gradient, so memory grows
linearly with the length instead of quadratically. Under a causal mask, the first
queries attend to few keys. The queries are therefore split into segments. A segment
skips the keys after its last query.

In a sliding window, the queries are split into blocks of C. Block n meets only the keys
of blocks n − `before` to n + `after`, so time and memory grow linearly with the length.
Keys of these blocks outside the window are masked.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value, C queries of a tile or block, N tiles or blocks of queries, L
keys that a block of queries meets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention.kernels.keras import is_exporting
from keras_attention.numerics.mask_objects import Mask

Tensor = Any

LEAST = 2**17  # smallest T · S for which tiles save time or memory
EAGER = 2**26  # smallest number of scores for which Python loops pay off
TILE = 2**18  # scores of a tile
FEWEST, MOST = 128, 256  # queries of a tile
SEGMENTS = 4
BLOCK = 128  # queries of a block for windows up to 4 · BLOCK
LARGE = 256  # queries of a block for larger windows


class Segment(NamedTuple):
    """Some queries, in a number of tiles, and the first keys, which they may see."""

    queries: slice
    keys: slice
    tiles: int

    def pairs(self, x: Tensor | None) -> Tensor | None:
        """Returns this part of a mask or bias that broadcasts to (..., T, S)."""
        return part(x, self.queries, self.keys)


def pays(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Returns whether tiles save time or memory.

    All sizes except the batch must be static, and no export may be running. JAX cannot
    loop over a batch of an open size.
    """
    sizes = (*query.shape[1:], *key.shape[1:], *value.shape[1:])
    if not all(isinstance(n, int) for n in sizes) or sizes[0] * key.shape[1] < LEAST:
        return False
    symbolic = any(isinstance(x, keras.KerasTensor) for x in (query, key, value))
    batch = query.shape[0]
    has_batch = batch is None or (isinstance(batch, int) and batch > 0)
    return has_batch and not symbolic and not is_exporting()


def segments(queries: int, keys: int, is_causal: bool) -> Iterator[Segment]:
    """Splits the queries into segments. Without a causal mask, there is one segment."""
    size = max(FEWEST, min(MOST, TILE // keys))
    count = min(SEGMENTS, math.ceil(queries / size)) if is_causal else 1
    length = math.ceil(queries / count)
    for start in range(0, queries, length):
        stop = min(start + length, queries)
        visible_keys = min(stop, keys) if is_causal else keys
        count = math.ceil((stop - start) / size)
        yield Segment(slice(start, stop), slice(visible_keys), count)


def part(x: Tensor | None, queries: slice, keys: slice) -> Tensor | None:
    """Returns a part of a mask or bias that broadcasts to (..., T, S)."""
    if x is None:
        return None
    x = x[..., queries, :] if x.shape[-2] != 1 else x
    return x[..., keys] if x.shape[-1] != 1 else x


def ranges(mask: Mask, size: int, count: int, keys: int, block: int) -> tuple:
    """Returns the first block of keys of each tile and the one after the last, (·, N).

    The mask is aligned; its first axis is that of the examples, or has size 1.
    """
    starts = ops.arange(count, dtype="int32") * size
    first, last = (
        ops.reshape(ops.clip(x, 0, keys), (-1, count))
        for x in mask.bounds(starts, size, keys)
    )
    first, last = first // block, -(-last // block)
    return first + 0 * last, ops.maximum(last, first)


class Band(NamedTuple):
    """The blocks of attention in a window of w keys on each side, or in none."""

    window: int | None  # w
    is_causal: bool
    queries: int  # T
    keys: int  # S
    size: int  # C
    blocks: int  # N
    before: int  # blocks of keys before the block of a query
    after: int  # blocks of keys after it

    @property
    def width(self) -> int:
        """L, the number of keys that a block of queries meets."""
        return self.size * (self.before + 1 + self.after)

    @property
    def padding(self) -> tuple[int, int]:
        """The keys to add at both ends. The second number is negative to cut keys."""
        start = self.before * self.size
        return start, (self.blocks + self.after) * self.size - self.keys

    def sees(self, t: Tensor, s: Tensor) -> Tensor:
        """Returns whether key s exists and is in the window of query t."""
        near = (s >= 0) & (s < self.keys) & (abs(t - s) < self.window)
        return near & (s <= t) if self.is_causal else near


def plan(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    window: int,
) -> Band | None:
    """Returns the blocks, or None if the whole product or its tiles are better.

    A mask must be the same for all queries and heads, such as a padding mask.
    """
    if not pays(query, key, value):
        return None
    queries, keys = query.shape[1], key.shape[1]
    if mask is not None and (*mask.shape[1:3], mask.shape[3]) != (1, 1, keys):
        return None
    size = BLOCK if window <= 4 * BLOCK else LARGE
    before = math.ceil((window - 1) / size)
    after, count = 0 if is_causal else before, math.ceil(queries / size)
    band = Band(window, is_causal, queries, keys, size, count, before, after)
    return band if 2 * band.width <= keys else None
