"""Decoding on TensorFlow: one graph that contains a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_attention.kernels.decoding import reference
from keras_attention.kernels.decoding.reference import read

Tensor = Any
Structure = Any

__all__ = ["compiled", "generate", "read", "uniform", "write"]


def generate(
    step: Callable[[Any, Structure], Structure],
    state: Structure,
    start: Any,
    stop: Any,
    done: Callable[[Structure], Tensor] | None,
) -> Structure:
    """Runs `tf.while_loop` in a graph, and a Python loop in eager mode."""
    if tf.executing_eagerly():
        return reference.generate(step, state, start, stop, done)
    tree = keras.tree
    leaves = [
        None if x is None else tf.convert_to_tensor(x) for x in tree.flatten(state)
    ]
    is_tensor = [x is not None for x in leaves]
    stop = tf.cast(stop, "int32")

    def pack(flat: list) -> Structure:
        rest = iter(flat)
        return tree.pack_sequence_as(
            state, [next(rest) if t else None for t in is_tensor]
        )

    def goes_on(index: Tensor, flat: list) -> Tensor:
        more = index < stop
        return more if done is None else more & ~done(pack(flat))

    def body(index: Tensor, flat: list) -> tuple[Tensor, list]:
        new = [x for x, t in zip(tree.flatten(step(index, pack(flat))), is_tensor) if t]
        # Some operations, such as top_k, lose static sizes that the loop must keep.
        return index + 1, [
            tf.ensure_shape(x, old.shape) for x, old in zip(new, flat, strict=True)
        ]

    flat = [x for x, t in zip(leaves, is_tensor) if t]
    return pack(tf.while_loop(goes_on, body, (tf.cast(start, "int32"), flat))[1])


def write(tensor: Tensor, index: Any, values: Tensor) -> Tensor:
    """Updates a tensor, in place if XLA compiles the graph."""
    return reference.write(tensor, index, tf.cast(values, tensor.dtype))


def uniform(shape: tuple[Any, ...], seed: Any) -> Tensor:
    """Runs one graph instead of six operations, for a seed generator in eager mode."""
    if isinstance(seed, keras.random.SeedGenerator) and tf.executing_eagerly():
        return _uniform(tuple(int(n) for n in shape), seed)
    return reference.uniform(shape, seed)


# The generator is an argument: the function is traced for it and forgets it with it.
_uniform = tf.function(reference.uniform, autograph=False)


def compiled(
    function: Callable[..., Structure], variables: Sequence[Any], jit_compile: bool
) -> Callable[..., Structure]:
    """Compiles with `tf.function`, which captures variables and traces each shape."""
    call = tf.function(function, jit_compile=jit_compile, autograph=False)

    def run(*args: Structure) -> Structure:
        return call(
            *keras.tree.map_structure(
                lambda x: x if x is None else tf.convert_to_tensor(x), args
            )
        )

    return run
