"""Decoding on TensorFlow: one graph that contains a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_attention.kernels.decoding import reference
from keras_attention.kernels.decoding.reference import Done, Step, read, write

Tensor = Any

__all__ = ["compiled", "generate", "read", "write"]


def generate(step: Step, state: Any, start: Any, stop: Any, done: Done) -> Any:
    """Runs `tf.while_loop` in a graph, and a Python loop in eager mode."""
    if tf.executing_eagerly():
        return reference.generate(step, state, start, stop, done)
    tree = keras.tree
    convert = tf.convert_to_tensor
    leaves = [None if x is None else convert(x) for x in tree.flatten(state)]
    is_tensor = [x is not None for x in leaves]

    def pack(flat: list) -> Any:
        values = iter(flat)
        leaves = [next(values) if t else None for t in is_tensor]
        return tree.pack_sequence_as(state, leaves)

    def goes_on(index: Tensor, flat: list) -> Tensor:
        return (index < stop) & (True if done is None else ~done(pack(flat)))

    def body(index: Tensor, flat: list) -> tuple[Tensor, list]:
        new = [x for x, t in zip(tree.flatten(step(index, pack(flat))), is_tensor) if t]
        # Some operations, such as top_k, lose static sizes that the loop must keep.
        pairs = zip(new, flat, strict=True)
        return index + 1, [tf.ensure_shape(x, old.shape) for x, old in pairs]

    start, stop = tf.cast(start, "int32"), tf.cast(stop, "int32")
    flat = [x for x, t in zip(leaves, is_tensor) if t]
    return pack(tf.while_loop(goes_on, body, (start, flat))[1])


def compiled(function: Callable, variables: Sequence, jit_compile: bool) -> Callable:
    """Compiles with `tf.function`, which captures variables and traces each shape."""
    call = tf.function(function, jit_compile=jit_compile, autograph=False)
    convert = lambda x: x if x is None else tf.convert_to_tensor(x)  # noqa: E731
    return lambda *args: call(*keras.tree.map_structure(convert, args))
