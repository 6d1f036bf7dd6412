"""Loops over time.

:func:`scan` takes one step function over a sequence, differentiably: a cell over its
inputs, an attention whose steps depend on each other. Decoding, which stops early and
is not differentiated, is in :mod:`keras_attention.ops.decoding`.

Shapes: B batch, T steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from keras_attention.ops import kernels

Structure = Any
Step = Callable[[Structure, Structure], tuple[Structure, Structure]]


def scan(step: Step, state: Structure, inputs: Structure) -> tuple[Structure, Any]:
    """Takes a step for each time of a sequence, from one state to the next.

        stateₜ₊₁, outputₜ = step(stateₜ, inputₜ)

    What all steps read alike (a memory, its mask) is best closed over by `step`, not
    carried in the state. Random numbers must be drawn before the loop and come in as
    inputs: a seed generator inside it would leak tracers on JAX, and repeat itself on
    TensorFlow. Gradients flow through everything.

    Args:
        step: f(state, input) that returns the next state, of the same structure,
            shapes and dtypes, and an output, a structure of tensors.
        state: the first state, a structure of tensors; tuples and dicts.
        inputs: a structure of tensors (T, B, ...), the time first, T at least 1.

    Returns:
        The last state, and the outputs (T, ...) of all steps.

    Raises:
        ValueError: if there are no inputs, or they differ in length.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attention.ops import loop
    >>> total, sums = loop.scan(
    ...     lambda s, x: (s + x, s + x), ops.zeros((1,)), ops.ones((3, 1)))
    >>> np.asarray(sums)[:, 0].tolist()
    [1.0, 2.0, 3.0]
    """
    flat = keras.tree.flatten(inputs)
    if not flat:
        raise ValueError("`inputs` must hold at least one tensor. Received: none")
    lengths = {x.shape[0] for x in flat} - {None}
    if len(lengths) > 1:
        shapes = [tuple(x.shape) for x in flat]
        raise ValueError(
            f"`inputs` must have one length (axis 0). Received: shapes {shapes}"
        )
    if lengths == {0}:
        raise ValueError("`inputs` must have at least one step. Received: none")
    return kernels.scan(step, state, inputs)


def choose(condition: Any, new: Structure, old: Structure) -> Structure:
    """`new` where the condition (B,) holds and `old` elsewhere, for every tensor.

    Args:
        condition: booleans (B,).
        new: a structure of tensors (B, ...).
        old: another of the same structure and shapes.

    Returns:
        A structure of tensors (B, ...).
    """
    ops = keras.ops

    def one(a: Any, b: Any) -> Any:
        shape = (-1,) + (1,) * (len(a.shape) - 1)
        return ops.where(ops.reshape(condition, shape), a, b)

    return keras.tree.map_structure(one, new, old)
