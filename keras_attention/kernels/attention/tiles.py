"""When attention is computed tile by tile, and in what tiles.

A tile is some queries of one head and all the keys that they may see. Its scores stay
in the processor's cache, and are computed again for the gradient: what is held grows
with the length, not with its square. Queries that come first under a causal mask see
few keys; so they are cut into segments, and keys that are ahead of a whole segment are
left out.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value; C queries of a tile, N tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from keras_attention.kernels.keras import is_exporting

Tensor = Any

LEAST = 2**17  # T · S from which on it is faster, or lighter
EAGER = 2**26  # scores from which on loops in Python cost less than what they save
TILE = 2**18  # scores of a tile
FEWEST, MOST = 128, 256  # queries of a tile
SEGMENTS = 4


class Segment(NamedTuple):
    """Queries start … stop − 1 in `tiles` tiles, which see the first `keys` keys."""

    start: int
    stop: int
    keys: int
    tiles: int


def pays(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether all sizes but the batch's are known, and large enough for tiles."""
    sizes = (*query.shape[1:], *key.shape[1:], *value.shape[1:])
    if not all(isinstance(n, int) for n in sizes):
        return False
    return query.shape[1] * key.shape[1] >= LEAST and not is_exporting()


def segments(queries: int, keys: int, is_causal: bool) -> Iterator[Segment]:
    """The queries in one segment, or, causal, in some that each see more keys."""
    size = max(FEWEST, min(MOST, TILE // keys))
    count = min(SEGMENTS, math.ceil(queries / size)) if is_causal else 1
    length = math.ceil(queries / count)
    for start in range(0, queries, length):
        stop = min(start + length, queries)
        seen = min(stop, keys) if is_causal else keys
        yield Segment(start, stop, seen, math.ceil((stop - start) / size))


def part(x: Tensor | None, segment: Segment) -> Tensor | None:
    """Of a mask or bias that broadcasts to (B, H, T, S), what a segment needs."""
    if x is None:
        return None
    x = x[:, :, segment.start : segment.stop] if x.shape[2] != 1 else x
    return x[..., : segment.keys] if x.shape[3] != 1 else x
