"""Softmax attention over a table, without all scores at once in Keras' operations."""

from __future__ import annotations

from typing import Any

Tensor = Any


def lookup(query: Tensor, table: Tensor, count: Any) -> Tensor | None:
    """None: nothing here is better than a chunk of the table after the other."""
    return None
