"""Fallback for softmax attention over a table."""

from __future__ import annotations

from typing import Any

Tensor = Any


def lookup(query: Tensor, table: Tensor, count: Any) -> Tensor | None:
    """Returns None: the caller's chunked computation is as fast.

    On TensorFlow with XLA, a loop that computed powers of two instead of exp was only
    1.05 times as fast.
    """
    return None
