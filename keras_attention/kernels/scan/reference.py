"""Scans a step function over a sequence, using only Keras operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

Tensor = Any


def scan(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """Runs a Python loop over a sequence of known length.

    The inputs are unstacked at once: on torch, the gradient of each slice would be as
    large as the whole sequence.
    """
    tree = keras.tree
    flat = [ops.convert_to_tensor(x) for x in tree.flatten(inputs)]
    if flat[0].shape[0] is None:
        raise ValueError(
            "A loop over time needs to know its length on this backend. "
            "Received: inputs whose length (axis 0) is None"
        )
    outputs = []
    for now in zip(*map(ops.unstack, flat)):
        state, output = step(state, tree.pack_sequence_as(inputs, now))
        outputs.append(output)
    return state, tree.map_structure(lambda *y: ops.stack(y), *outputs)


def segments(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """Runs nested scans; these backends have no gradients."""
    return scan(lambda state, now: scan(step, state, now), state, inputs)


def is_dynamic(length: Any) -> bool:
    """Returns False: no export of these backends unrolls a loop."""
    return False


def any_left(moving: Tensor) -> Any:
    """Returns whether any entry is True."""
    return ops.any(moving)
