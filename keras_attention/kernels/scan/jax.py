"""Scans of a step function over a sequence on JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from keras_attention.kernels.scan.reference import any_left, is_dynamic

__all__ = ["any_left", "is_dynamic", "scan", "segments"]


def scan(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """Runs `jax.lax.scan`, which compiles the step once for all time steps."""
    return jax.lax.scan(step, state, inputs)


def segments(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """Scans over segments. Each segment is itself a scan, in `jax.checkpoint`."""

    def segment(state: Any, now: Any) -> tuple[Any, Any]:
        return scan(step, state, now)

    segment = jax.checkpoint(segment, prevent_cse=False)
    return jax.lax.scan(segment, state, inputs)
