"""Calls of Keras layers without what Keras does around them in Keras' operations."""

from __future__ import annotations

from typing import Any

Tensor = Any


def dense(layer: Any, x: Tensor, mapped: int) -> Tensor:
    """The layer's own call."""
    return layer(x)


def call_layer(layer: Any, *given: Any, **options: Any) -> Any:
    """The layer as it is: what is compiled meets Keras once."""
    return layer(*given, **options)
