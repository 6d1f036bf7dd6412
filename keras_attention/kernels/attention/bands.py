"""Attention in a sliding window, block by block: when it pays, and its sizes.

A band is the part of the scores inside the window. The queries are split into blocks of
C. Block n meets only the keys of blocks n − `before` to n + `after`, so time and memory
grow linearly with the length. Keys of these blocks outside the window are masked.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, C queries per
block, N blocks of queries, L keys that a block of queries meets.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from keras_attention.kernels.attention import tiles

Tensor = Any

BLOCK = 128  # queries of a block for windows up to 4 · BLOCK
LARGE = 256  # queries of a block for larger windows


class Band(NamedTuple):
    """The blocks of attention in a window of w keys on each side."""

    window: int  # w
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
    if mask is not None and (*mask.shape[1:3], mask.shape[3]) != (1, 1, key.shape[1]):
        return None
    if not tiles.pays(query, key, value):
        return None
    band = band_of(query.shape[1], key.shape[1], is_causal, window)
    return band if 2 * band.width <= band.keys else None


def band_of(queries: int, keys: int, is_causal: bool, window: int) -> Band:
    """Returns the blocks of attention in a window."""
    size = BLOCK if window <= 4 * BLOCK else LARGE
    before = math.ceil((window - 1) / size)
    after = 0 if is_causal else before
    count = math.ceil(queries / size)
    return Band(window, is_causal, queries, keys, size, count, before, after)
