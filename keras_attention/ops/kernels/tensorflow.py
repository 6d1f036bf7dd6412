"""Kernels for TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_attention.ops.kernels import generic, tiled, tiled_tensorflow
from keras_attention.ops.kernels.generic import any_left, dense, lookup

Tensor = Any

__all__ = [
    "any_left",
    "dense",
    "dot_product_attention",
    "is_traced",
    "lookup",
    "scan",
    "word_counts",
]


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    bias: Tensor | None = None,
) -> Tensor:
    """Two products; if long, tile by tile."""
    given = query, key, value
    if any(isinstance(x, keras.KerasTensor) for x in given) or not tiled.pays(*given):
        return generic.dot_product_attention(*given, mask, scale, is_causal, bias)
    q, k, v = (tf.convert_to_tensor(x) for x in given)
    if tf.executing_eagerly() and _scores(q, k) < tiled.EAGER:
        return generic.dot_product_attention(q, k, v, mask, scale, is_causal, bias)
    bias = None if bias is None else tf.convert_to_tensor(bias)
    return tiled_tensorflow.attention(q, k, v, mask, scale, is_causal, bias)


def _scores(query: Tensor, key: Tensor) -> int:
    return query.shape[0] * query.shape[1] * query.shape[2] * key.shape[1]


def word_counts(tokens: Tensor, weights: Tensor, size: int) -> Tensor:
    """Sums over segments, one segment for each word of each sentence."""
    tokens = tf.cast(tokens, tf.int32)
    shape = tf.shape(tokens)
    sentences = tf.size(tokens) // shape[-1]
    rows = tf.reshape(tokens, (sentences, -1))
    places = rows + size * tf.range(sentences, dtype=rows.dtype)[:, None]
    # A negative place is left out; without this, such a word would be its neighbour's.
    places = tf.where((rows >= 0) & (rows < size), places, -1)
    counts = tf.math.unsorted_segment_sum(
        tf.reshape(weights, [-1]), tf.reshape(places, [-1]), sentences * size
    )
    return tf.reshape(counts, tf.concat([shape[:-1], [size]], 0))  # (..., V)


def scan(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """A `tf.while_loop` over TensorArrays, which XLA can compile and differentiate."""
    if tf.executing_eagerly():
        return generic.scan(step, state, inputs)
    tree = keras.tree
    flat = [tf.convert_to_tensor(x) for x in tree.flatten(inputs)]
    length = flat[0].shape[0]
    length = tf.shape(flat[0])[0] if length is None else length
    # A step whose numbers nobody uses says what structure and shapes a step returns;
    # it is pruned from the graph.
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
        parallel_iterations=32,
    )
    stacked = [a.stack() for a in outputs]
    for array, given in zip(stacked, tree.flatten(output)):
        array.set_shape([flat[0].shape[0], *given.shape])
    return tree.pack_sequence_as(state, states), tree.pack_sequence_as(output, stacked)


def _common(a: Any, b: Any) -> Any:
    """The sizes that two tensors share, unknown where they differ."""
    return tf.TensorShape([x if x == y else None for x, y in zip(a.shape, b.shape)])


def is_traced(tensor: Tensor) -> bool:
    """Whether the tensor belongs to a graph or is symbolic."""
    return isinstance(tensor, keras.KerasTensor) or (
        tf.is_tensor(tensor) and not hasattr(tensor, "numpy")
    )
