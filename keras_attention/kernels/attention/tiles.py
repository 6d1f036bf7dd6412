"""Tiling of attention on a CPU: when to use tiles, and their sizes.

A tile consists of some queries of one head and all keys that they may attend to. Its
scores fit into the CPU cache and are recomputed for the gradient, so memory grows
linearly with the length instead of quadratically. Under a causal mask, the first
queries attend to few keys. The queries are therefore split into segments. A segment
skips the keys after its last query.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value, C queries per tile, N tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from keras_attention.kernels.keras import is_exporting

Tensor = Any

LEAST = 2**17  # smallest T · S for which tiles save time or memory
EAGER = 2**26  # smallest number of scores for which Python loops pay off
TILE = 2**18  # scores of a tile
FEWEST, MOST = 128, 256  # queries of a tile
SEGMENTS = 4


class Segment(NamedTuple):
    """Queries `start` to `stop` − 1 in `tiles` tiles, with the first `keys` keys."""

    start: int
    stop: int
    keys: int
    tiles: int


def pays(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Returns whether tiles save time or memory.

    All sizes except the batch must be static, and no export may be running.
    """
    sizes = (*query.shape[1:], *key.shape[1:], *value.shape[1:])
    if not all(isinstance(n, int) for n in sizes) or query.shape[0] == 0:
        return False
    return query.shape[1] * key.shape[1] >= LEAST and not is_exporting()


def segments(queries: int, keys: int, is_causal: bool) -> Iterator[Segment]:
    """Splits the queries into segments. Without a causal mask, there is one segment."""
    size = max(FEWEST, min(MOST, TILE // keys))
    count = min(SEGMENTS, math.ceil(queries / size)) if is_causal else 1
    length = math.ceil(queries / count)
    for start in range(0, queries, length):
        stop = min(start + length, queries)
        visible_keys = min(stop, keys) if is_causal else keys
        yield Segment(start, stop, visible_keys, math.ceil((stop - start) / size))


def part(x: Tensor | None, segment: Segment) -> Tensor | None:
    """Returns a segment of a mask or bias `x` that broadcasts to (B, H, T, S)."""
    if x is None:
        return None
    x = x[:, :, segment.start : segment.stop] if x.shape[2] != 1 else x
    return x[..., : segment.keys] if x.shape[3] != 1 else x
