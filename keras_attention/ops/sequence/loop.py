"""Loops over time.

:func:`scan` takes one step function over a sequence, differentiably: a cell over its
inputs, an attention whose steps depend on each other. Decoding, which stops early and
is not differentiated, is in :mod:`keras_attention.ops.sequence.decoding`.

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
    step: Step, state: Structure, inputs: Structure, segment: Any = None
) -> tuple[Structure, Any]:
    """Takes a step for each time of a sequence, from one state to the next.

        stateₜ₊₁, outputₜ = step(stateₜ, inputₜ)

    What all steps read alike (a memory, its mask) is best closed over by `step`, not
    carried in the state. Random numbers must be drawn before the loop and come in as
    inputs: a seed generator inside it would leak tracers on JAX, and repeat itself on
    TensorFlow. Gradients flow through everything.

    With a `segment` the states between such numbers of steps are all that is kept for
    the gradients; each segment is computed a second time when they are taken. Memory
    then grows with T / segment + segment instead of with T. No gradient flows to what
    `step` closes over, other than variables.

    Args:
        step: f(state, input) that returns the next state, of the same structure,
            shapes and dtypes, and an output, a structure of tensors.
        state: the first state, a structure of tensors; tuples and dicts.
        inputs: a structure of tensors (T, B, ...), the time first, T at least 1.
        segment: how many steps are kept or computed again together; "auto" is √T, and
            with None everything is kept.

    Returns:
        The last state, and the outputs (T, ...) of all steps.

    Raises:
        ValueError: if there are no inputs, or they differ in length, or `segment` is
            below 1; on torch, while an export is traced that leaves the length open: it
            would hold as many steps as its example, and be wrong for others.

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
    # No set: torch has no hash for the open length of an export.
    lengths = [x.shape[0] for x in flat if x.shape[0] is not None]
    if any(n != lengths[0] for n in lengths):
        shapes = [tuple(x.shape) for x in flat]
        raise ValueError(
            f"`inputs` must have one length (axis 0). Received: shapes {shapes}"
        )
    if lengths and lengths[0] == 0:
        raise ValueError("`inputs` must have at least one step. Received: none")
    if kernels.is_open(flat[0].shape[0]):
        raise ValueError(
            "torch exports a loop over time unrolled, with a fixed length of 2 steps "
            "or more: give it, `model.export(…, input_signature=…)`, or export from "
            "JAX or TensorFlow. Received: a length that is open, or 1"
        )
    if segment is None:
        return kernels.scan(step, state, inputs)
    if segment != "auto" and segment < 1:
        raise ValueError(
            f'`segment` must be at least 1, or "auto". Received: segment={segment!r}'
        )
    return _in_segments(step, state, inputs, segment, flat[0])


def _in_segments(
    step: Step, state: Structure, inputs: Structure, segment: Any, first: Any
) -> tuple[Structure, Any]:
    """A scan over segments, each of which is a scan that is computed again."""
    if first.shape[0] is None:
        return _in_open_segments(step, state, inputs, segment, first)
    ops, tree = keras.ops, keras.tree
    length = first.shape[0]
    segment = math.isqrt(length) if segment == "auto" else min(segment, length)
    whole = length // segment * segment
    state, outputs = _whole_segments(
        step, state, tree.map_structure(lambda x: x[:whole], inputs), segment
    )
    if whole == length:
        return state, outputs
    rest = tree.map_structure(lambda x: x[None, whole:], inputs)
    state, rest = kernels.segments(step, state, rest)
    joined = tree.map_structure(lambda a, b: ops.concatenate([a, b[0]]), outputs, rest)
    return state, joined


def _in_open_segments(
    step: Step, state: Structure, inputs: Structure, segment: Any, first: Any
) -> tuple[Structure, Any]:
    """The same of a length not known yet: in the last segment, steps that lead nowhere.

    A rest of no steps would be a loop without a turn.
    """
    ops, tree = keras.ops, keras.tree
    length = ops.shape(first)[0]
    if segment == "auto":
        segment = ops.cast(ops.sqrt(ops.cast(length, "float32")), "int32")
    segment = ops.maximum(ops.minimum(segment, length), 1)
    times = ops.arange((length + segment - 1) // segment * segment)
    filled = tree.map_structure(
        lambda x: ops.take(x, ops.minimum(times, length - 1), axis=0), inputs
    )

    def guarded(state: Structure, now: Structure) -> tuple[Structure, Structure]:
        is_valid, now = now
        new, output = step(state, now)
        kept = tree.map_structure(lambda a, b: ops.where(is_valid, a, b), new, state)
        return kept, output

    state, outputs = _whole_segments(guarded, state, (times < length, filled), segment)
    return state, tree.map_structure(lambda y: y[:length], outputs)


def _whole_segments(
    step: Step, state: Structure, inputs: Structure, segment: Any
) -> tuple[Structure, Any]:
    """Of a length that is a multiple of the segment's."""
    ops, tree = keras.ops, keras.tree

    def cut(x: Any) -> Any:  # (T, ...) to (count, segment, ...)
        shape = ops.shape(x)
        return ops.reshape(x, (shape[0] // segment, segment, *shape[1:]))

    def joined(y: Any) -> Any:
        shape = ops.shape(y)
        return ops.reshape(y, (shape[0] * shape[1], *shape[2:]))

    state, outputs = kernels.segments(step, state, tree.map_structure(cut, inputs))
    return state, tree.map_structure(joined, outputs)


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
