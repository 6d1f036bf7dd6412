"""Regular calls of Keras layers, for compiled backends."""

from __future__ import annotations

from typing import Any

Tensor = Any


def dense(layer: Any, x: Tensor, mapped: int) -> Tensor:
    """Calls the layer."""
    return layer(x)


def normalize(layer: Any, x: Tensor) -> Tensor:
    """Calls the layer."""
    return layer(x)


def call_layer(layer: Any, *given: Any, **options: Any) -> Any:
    """Calls the layer; compiled functions pay the overhead of Keras only once."""
    return layer(*given, **options)
