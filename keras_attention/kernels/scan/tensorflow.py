"""Scans of a step function over a sequence on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_attention.kernels.scan import reference
from keras_attention.kernels.scan.reference import any_left, is_dynamic

Tensor = Any
__all__ = ["any_left", "is_dynamic", "scan", "segments"]


def scan(
    step: Callable, state: Any, inputs: Any, parallel: int = 32
) -> tuple[Any, Any]:
    """Runs a `tf.while_loop` over TensorArrays, which XLA compiles with gradients.

    `parallel` is the number of iterations that may run in parallel.
    """
    if tf.executing_eagerly():
        return reference.scan(step, state, inputs)
    tree = keras.tree
    flat = [tf.convert_to_tensor(x) for x in tree.flatten(inputs)]
    length = flat[0].shape[0]
    length = tf.shape(flat[0])[0] if length is None else length
    # This unused step reveals the structure and shapes of the outputs; it is pruned
    # from the graph.
    first = tree.pack_sequence_as(inputs, [x[0] for x in flat])
    after, output = step(state, first)
    arrays = [tf.TensorArray(x.dtype, length).unstack(x) for x in flat]
    outputs = [
        tf.TensorArray(y.dtype, length, element_shape=y.shape)
        for y in tree.flatten(output)
    ]

    def body(time: Any, states: list, outputs: list) -> tuple[Any, list, list]:
        now = tree.pack_sequence_as(inputs, [a.read(time) for a in arrays])
        new, output = step(tree.pack_sequence_as(state, states), now)
        written = [a.write(time, y) for a, y in zip(outputs, tree.flatten(output))]
        return time + 1, tree.flatten(new), written

    states = [tf.convert_to_tensor(x) for x in tree.flatten(state)]
    shapes = [_common(a, b) for a, b in zip(states, tree.flatten(after))]
    _, states, outputs = tf.while_loop(
        lambda time, *_: time < length,
        body,
        (tf.constant(0), states, outputs),
        shape_invariants=(
            tf.TensorShape([]),
            shapes,
            [tf.TensorShape(None)] * len(outputs),
        ),
        maximum_iterations=length,
        parallel_iterations=parallel,
    )
    stacked = [a.stack() for a in outputs]
    return tree.pack_sequence_as(state, states), tree.pack_sequence_as(output, stacked)


def segments(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """Runs a loop over segments, with a backward loop for their gradients.

    `tf.recompute_grad` does not find the variables inside a loop. All loops run one
    iteration at a time, because parallel iterations would keep their recomputed values
    in memory at the same time.
    """
    tree = keras.tree
    tensors = [tf.convert_to_tensor(x) for x in tree.flatten((state, inputs))]
    count = len(tree.flatten(state))
    like: list[Any] = []  # the structure of the outputs

    def segment(states: list[Tensor], now: list[Tensor]) -> tuple[list, list]:
        first = tree.pack_sequence_as(state, list(states))
        xs = tree.pack_sequence_as(inputs, list(now))
        new, outputs = scan(step, first, xs, parallel=1)
        like[:] = [outputs]
        return tree.flatten(new), tree.flatten(outputs)

    @tf.custom_gradient
    def run(*flat: Tensor) -> tuple[list[Tensor], Callable]:
        def forward(states: list, now: list) -> tuple[list, tuple[list, list]]:
            new, outputs = segment(states, now)
            return new, (states, outputs)

        xs = list(flat[count:])
        last, (starts, outputs) = scan(forward, list(flat[:count]), xs, parallel=1)

        def backward(*slopes: Tensor, variables: Any = None) -> Any:
            of_tensors, of_variables = _segments_gradient(
                segment, starts, xs, slopes, variables or []
            )
            return (of_tensors, of_variables) if variables else of_tensors

        return last + outputs, backward

    results = run(*tensors)
    return (
        tree.pack_sequence_as(state, list(results[:count])),
        tree.pack_sequence_as(like[0], list(results[count:])),
    )


def _segments_gradient(
    segment: Callable,
    starts: list[Tensor],
    xs: list[Tensor],
    slopes: tuple[Tensor, ...],
    variables: list,
) -> tuple[list[Tensor | None], list[Tensor]]:
    """Computes the gradients with respect to first states, inputs and variables.

    `starts` and `xs` are the first states and the inputs of all segments, and `slopes`
    the gradients of the last states and of the outputs.
    """
    count = len(starts)

    def real(tensors: Any) -> list[Tensor]:
        return [x for x in tensors if x.dtype.is_floating]

    per_segment = {"starts": starts, "xs": xs, "slopes": real(slopes[count:])}

    def back(carry: tuple[list, list], index: Tensor) -> tuple[Any, list]:
        d_states, d_variables = carry
        now = keras.tree.map_structure(lambda x: tf.gather(x, index), per_segment)
        first, inputs = real(now["starts"]), real(now["xs"])
        with tf.GradientTape() as tape:
            tape.watch(first + inputs)
            new, outputs = segment(now["starts"], now["xs"])
        gradients = tape.gradient(
            real(new) + real(outputs),
            first + inputs + list(variables),
            d_states + now["slopes"],
            unconnected_gradients="zero",
        )
        gradients = [tf.convert_to_tensor(g) for g in gradients]
        ends = len(first), len(first) + len(inputs)
        sums = [a + b for a, b in zip(d_variables, gradients[ends[1] :])]
        return (gradients[: ends[0]], sums), gradients[ends[0] : ends[1]]

    reversed_indices = tf.range(keras.ops.shape(xs[0])[0] - 1, -1, -1)
    first = real(slopes[:count]), [tf.zeros(v.shape, v.dtype) for v in variables]
    (d_states, d_variables), d_xs = scan(back, first, reversed_indices, parallel=1)
    floating = iter(d_states + [tf.reverse(x, [0]) for x in d_xs])
    of_tensors = [
        next(floating) if x.dtype.is_floating else None for x in (*starts, *xs)
    ]
    return of_tensors, d_variables


def _common(a: Any, b: Any) -> Any:
    """Returns the common shape of two tensors, with None where they differ."""
    return tf.TensorShape([x if x == y else None for x, y in zip(a.shape, b.shape)])
