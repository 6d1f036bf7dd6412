"""Scans of a step function over a sequence on torch."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import keras
import torch
from torch.utils.checkpoint import checkpoint

from keras_attention.kernels.tracing.torch import is_traced

Tensor = Any
_NESTED = (dict, list, tuple)


def scan(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """Runs a Python loop over views of the inputs and stacks the outputs once.

    Structures are flattened in plain Python, because `keras.tree` would take as long as
    a short step.
    """
    flat = [keras.ops.convert_to_tensor(x) for x in keras.tree.flatten(inputs)]
    views = [SimpleNamespace(each=x.unbind(0)) for x in flat]  # a tuple is not a leaf
    structure = keras.tree.pack_sequence_as(inputs, views)
    outputs = []
    for t in range(len(views[0].each)):
        state, output = step(state, _map(lambda x, t=t: x.each[t], structure))
        outputs.append(output)
    return state, _map(lambda *y: torch.stack(y), *outputs)


def segments(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """Runs each segment in `torch.utils.checkpoint` if gradients are needed."""

    def segment(state: Any, now: Any) -> tuple[Any, Any]:
        if not torch.is_grad_enabled():
            return scan(step, state, now)
        return checkpoint(
            scan, step, state, now, use_reentrant=False, preserve_rng_state=False
        )

    return scan(segment, state, inputs)


def _map(function: Callable, *structures: Any) -> Any:
    """Computes `keras.tree.map_structure` for dicts, lists and (named) tuples."""
    first = structures[0]
    if not isinstance(first, _NESTED):
        return function(*structures)
    is_dict = isinstance(first, dict)
    lists = [[s[k] for k in first] for s in structures] if is_dict else structures
    items = []
    for each in zip(*lists):
        if not isinstance(each[0], _NESTED):
            items.append(function(*each))
        else:  # a call for an empty structure would only take time
            items.append(_map(function, *each) if each[0] else each[0])
    if is_dict:
        return dict(zip(first, items))
    return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)


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
