"""Loops over time.

:func:`scan` applies a step function, such as a recurrent cell or a step of attention,
to each step of a sequence, with gradients. Decoding stops early and has no gradients;
its loop is in :mod:`keras_attention.ops.sequence.decoding`.

Shapes: B batch, T steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras

from keras_attention import kernels

Structure = Any
Step = Callable[[Structure, Structure], tuple[Structure, Structure]]


def scan(
    step: Step, state: Structure, inputs: Structure, checkpoint_steps: Any = None
) -> tuple[Structure, Any]:
    """Applies a step function to each time step of a sequence and carries a state.

        stateₜ₊₁, outputₜ = step(stateₜ, inputₜ)

    `step` should close over constant tensors, such as a memory and its mask, instead of
    carrying them in the state. Sample random numbers before the loop and pass them as
    inputs: a seed generator inside the loop leaks tracers on JAX and repeats its
    numbers on TensorFlow. Gradients flow through all tensors.

    With `checkpoint_steps` n, the loop stores the state after every n steps and
    recomputes the steps in between for the gradients. Memory then grows with T / n + n
    instead of T, and no gradient flows to tensors that `step` closes over, except
    variables.

    Args:
        step: f(state, input) that returns the next state, of the same structure,
            shapes and dtypes, and an output, a structure of tensors.
        state: the first state, a structure (tuples and dicts) of tensors.
        inputs: a structure of tensors (T, B, ...), time first, T at least 1.
        checkpoint_steps: n, the number of steps that are recomputed together; "auto" is
            √T, and None stores everything.

    Returns:
        The last state, and the outputs (T, ...) of all steps.

    Raises:
        ValueError: if there are no inputs, or they differ in length, or
            `checkpoint_steps` is below 1; on torch, while an export with a dynamic
            length is traced, because the exported loop would keep the number of steps
            of the example.

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
    # Not a set: torch cannot hash the dynamic length of an export.
    lengths = [x.shape[0] for x in flat if x.shape[0] is not None]
    if any(n != lengths[0] for n in lengths):
        shapes = [tuple(x.shape) for x in flat]
        raise ValueError(
            f"`inputs` must have one length (axis 0). Received: shapes {shapes}"
        )
    if lengths and lengths[0] == 0:
        raise ValueError("`inputs` must have at least one step. Received: none")
    check_length(flat[0].shape[0])
    if checkpoint_steps is None:
        return kernels.scan(step, state, inputs)
    if checkpoint_steps != "auto" and checkpoint_steps < 1:
        raise ValueError(
            '`checkpoint_steps` must be at least 1, or "auto". '
            f"Received: checkpoint_steps={checkpoint_steps!r}"
        )
    return _in_segments(step, state, inputs, checkpoint_steps, flat[0])


def check_length(length: Any) -> None:
    """Raises a ValueError if an export would keep the length of the traced example.

    Args:
        length: T, the number of steps, an integer or a tensor.
    """
    if kernels.is_dynamic(length):
        raise ValueError(
            "torch exports a loop over time unrolled, with a fixed length of 2 steps "
            "or more: give it, `model.export(…, input_signature=…)`, or export from "
            "JAX or TensorFlow. Received: a length that is open, or 1"
        )


def _in_segments(
    step: Step, state: Structure, inputs: Structure, checkpoint_steps: Any, first: Any
) -> tuple[Structure, Any]:
    """Scans over segments; the gradient recomputes each segment."""
    if first.shape[0] is None:
        return _in_open_segments(step, state, inputs, checkpoint_steps, first)
    ops, tree, length = keras.ops, keras.tree, first.shape[0]
    auto = checkpoint_steps == "auto"
    steps = math.isqrt(length) if auto else min(checkpoint_steps, length)
    whole = length // steps * steps
    cut = tree.map_structure(lambda x: x[:whole], inputs)
    state, outputs = _whole_segments(step, state, cut, steps)
    if whole == length:
        return state, outputs
    last = tree.map_structure(lambda x: x[None, whole:], inputs)
    state, last = kernels.segments(step, state, last)
    joined = tree.map_structure(lambda a, b: ops.concatenate([a, b[0]]), outputs, last)
    return state, joined


def _in_open_segments(
    step: Step, state: Structure, inputs: Structure, checkpoint_steps: Any, first: Any
) -> tuple[Structure, Any]:
    """Scans over segments if T is unknown; padding steps do not change the state.

    A separate last segment could be empty; it would then be a loop without iterations.
    """
    ops, tree = keras.ops, keras.tree
    length, steps = ops.shape(first)[0], checkpoint_steps
    if steps == "auto":
        steps = ops.cast(ops.sqrt(ops.cast(length, "float32")), "int32")
    steps = ops.maximum(ops.minimum(steps, length), 1)
    times = ops.arange((length + steps - 1) // steps * steps)
    filled = tree.map_structure(
        lambda x: ops.take(x, ops.minimum(times, length - 1), axis=0), inputs
    )

    def guarded(state: Structure, now: Structure) -> tuple[Structure, Structure]:
        is_valid, now = now
        new, output = step(state, now)
        new = tree.map_structure(lambda a, b: ops.where(is_valid, a, b), new, state)
        return new, output

    state, outputs = _whole_segments(guarded, state, (times < length, filled), steps)
    return state, tree.map_structure(lambda y: y[:length], outputs)


def _whole_segments(
    step: Step, state: Structure, inputs: Structure, steps: Any
) -> tuple[Structure, Any]:
    """Scans over segments of equal length."""
    ops, tree = keras.ops, keras.tree

    def cut(x: Any) -> Any:  # (T, ...) to (count, steps, ...)
        shape = ops.shape(x)
        return ops.reshape(x, (shape[0] // steps, steps, *shape[1:]))

    def joined(y: Any) -> Any:
        shape = ops.shape(y)
        return ops.reshape(y, (shape[0] * shape[1], *shape[2:]))

    state, outputs = kernels.segments(step, state, tree.map_structure(cut, inputs))
    return state, tree.map_structure(joined, outputs)


def choose(condition: Any, new: Structure, old: Structure) -> Structure:
    """Selects `new` where the condition (B,) is True and `old` elsewhere, per tensor.

    Args:
        condition: booleans (B,).
        new: a structure of tensors (B, ...).
        old: a structure of tensors with the same structure and shapes.

    Returns:
        A structure of tensors (B, ...).
    """

    def select(a: Any, b: Any) -> Any:
        shape = (-1,) + (1,) * (len(a.shape) - 1)
        return keras.ops.where(keras.ops.reshape(condition, shape), a, b)

    return keras.tree.map_structure(select, new, old)
