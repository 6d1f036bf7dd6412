"""A step function over a sequence on torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import torch
from torch.utils.checkpoint import checkpoint

from keras_attention.kernels.tracing.torch import is_traced

Tensor = Any


def scan(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """A loop in Python over views of the inputs, stacked once behind it.

    Structures are taken apart in plain Python: a step is short, and `keras.tree` would
    take as long.
    """
    views = _mapped(lambda x: _Views(keras.ops.convert_to_tensor(x).unbind(0)), inputs)
    length = len(keras.tree.flatten(views)[0].each)
    outputs = []
    for t in range(length):
        state, output = step(state, _mapped(lambda x, t=t: x.each[t], views))
        outputs.append(output)
    return state, _mapped(lambda *y: torch.stack(y), *outputs)


def segments(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """`torch.utils.checkpoint` of each segment, where there are gradients."""

    def segment(state: Any, now: Any) -> tuple[Any, Any]:
        if not torch.is_grad_enabled():
            return scan(step, state, now)
        return checkpoint(
            scan, step, state, now, use_reentrant=False, preserve_rng_state=False
        )

    return scan(segment, state, inputs)


class _Views:
    """All steps of one input: a leaf of a structure, as a tuple would not be."""

    def __init__(self, each: tuple[Tensor, ...]) -> None:
        self.each = each


def _mapped(function: Callable, *structures: Any) -> Any:
    """`keras.tree.map_structure` of dicts, lists and (named) tuples."""
    first = structures[0]
    if isinstance(first, dict):
        return {k: _mapped(function, *(s[k] for s in structures)) for k in first}
    if isinstance(first, (list, tuple)):
        items = [_mapped(function, *parts) for parts in zip(*structures)]
        named = hasattr(first, "_fields")
        return type(first)(*items) if named else type(first)(items)
    return function(*structures)


def is_open(length: Any) -> bool:
    """True while an export is traced whose length is symbolic, or 1.

    Keras' exports trace what is left open by an example of one step.
    """
    if not (torch.jit.is_tracing() or torch.compiler.is_exporting()):
        return False
    return isinstance(length, torch.SymInt) or int(length) == 1


def any_left(moving: Tensor) -> Any:
    """True while an export is traced: its loop would end where the example's ends."""
    return True if is_traced(moving) else moving.any()
