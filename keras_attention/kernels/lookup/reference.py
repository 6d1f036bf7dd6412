"""Fallback for softmax attention over a table."""

from __future__ import annotations

from typing import Any

Tensor = Any


def lookup(query: Tensor, table: Tensor, count: Any) -> Tensor | None:
    """Returns None: the caller's chunked computation is as fast."""
    return None
