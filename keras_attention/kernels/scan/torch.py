"""Scans of a step function over a sequence on torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from keras_attention.kernels.scan.reference import scan
from keras_attention.kernels.tracing.torch import is_traced

Tensor = Any
__all__ = ["any_left", "is_dynamic", "scan", "segments"]


def segments(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """Runs each segment in `torch.utils.checkpoint` if gradients are needed."""

    def segment(state: Any, now: Any) -> tuple[Any, Any]:
        if not torch.is_grad_enabled():
            return scan(step, state, now)
        return checkpoint(
            scan, step, state, now, use_reentrant=False, preserve_rng_state=False
        )

    return scan(segment, state, inputs)


def is_dynamic(length: Any) -> bool:
    """Returns whether an export is being traced and `length` is symbolic or 1.

    Keras traces an export of dynamic length with an example of length 1.
    """
    if not (torch.jit.is_tracing() or torch.compiler.is_exporting()):
        return False
    return isinstance(length, torch.SymInt) or int(length) == 1


def any_left(moving: Tensor) -> Any:
    """Returns whether any entry is True; always True in exports.

    An exported loop must not stop after the number of steps of the traced example.
    """
    return True if is_traced(moving) else moving.any()
