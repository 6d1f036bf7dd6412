"""Decoding by a Python loop, for backends without compilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

Tensor = Any
Step = Callable[[Any, Any], Any]  # from an index and a state to the next
Done = Callable[[Any], Tensor] | None


def generate(step: Step, state: Any, start: Any, stop: Any, done: Done) -> Any:
    """Runs a Python loop, which checks for the end before each step."""
    for index in range(int(start), int(stop)):
        if done is not None and bool(done(state)):
            break
        state = step(index, state)
    return state


def read(tensor: Tensor, index: Any) -> Tensor:
    """Returns the entry at an index of axis 1."""
    return tensor[:, index]


def write(tensor: Tensor, index: Any, values: Tensor) -> Tensor:
    """Returns a copy of the tensor with the values at an index of axis 1."""
    start = [0, index] + [0] * (len(tensor.shape) - 2)
    values = ops.expand_dims(ops.cast(values, tensor.dtype), 1)
    return ops.slice_update(tensor, start, values)


def uncompiled(function: Callable, variables: Sequence, jit_compile: bool) -> Callable:
    """Returns a function that converts its arguments to tensors; compiles nothing."""
    return lambda *args: function(*tensors(args))


compiled = uncompiled


def tensors(args: Any) -> Any:
    """Converts arrays and lists of numbers to tensors; leaves numbers and None."""
    return keras.tree.map_structure(
        lambda x: x if x is None or np.isscalar(x) else ops.convert_to_tensor(x), args
    )
