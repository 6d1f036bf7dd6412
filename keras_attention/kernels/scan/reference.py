"""A step function over a sequence in Keras' operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

Tensor = Any


def scan(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """A loop in Python: one step after the other, of a length that is known."""
    length = keras.tree.flatten(inputs)[0].shape[0]
    if length is None:
        raise ValueError(
            "A loop over time needs to know its length on this backend. "
            "Received: inputs whose length (axis 0) is None"
        )
    outputs = []
    for t in range(length):
        state, output = step(state, keras.tree.map_structure(lambda x: x[t], inputs))  # noqa: B023
        outputs.append(output)
    return state, keras.tree.map_structure(lambda *y: ops.stack(y), *outputs)


def segments(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """A scan of scans: there are no gradients on these backends."""
    return scan(lambda state, now: scan(step, state, now), state, inputs)


def is_dynamic(length: Any) -> bool:
    """False: no export unrolls a loop here."""
    return False


def any_left(moving: Tensor) -> Any:
    """Whether any is True."""
    return ops.any(moving)
