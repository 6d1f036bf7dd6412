"""Softmax attention over a table for XLA on a CPU, block by block.

XLA's exp would take most of the time between the two products of a block. Here the
queries are multiplied by log₂ e, so that the weights are powers of two:

    2^y = 2^(y − n) · 2^n,    n = round(y)

A polynomial computes the first factor, and n is added to the exponent of its bits. The
last operation must be one on integers: XLA would compute a product of floats twice, for
the sum of the weights and for the weighted patterns.

Shapes: T queries, P rows of the table, C rows of a block, D width.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from keras_attention.kernels.additive.tensorflow import is_compiled
from keras_attention.numerics.precision import mask_value

Tensor = Any
State = tuple[Tensor, Tensor, Tensor]  # largest score and sum (T, 1), patterns (T, D)

BLOCK = 2048  # C; the scores of 64 queries then fit into the L2 cache of a CPU

# The polynomial of degree 5 with the smallest relative error to 2^f for |f| ≤ ½, 7e-8.
POWERS = (
    *(1.0000001192092896, 0.6931469440460205, 0.24022120237350464),
    *(0.05550713092088699, 0.009675540961325169, 0.001327647129073739),
)
MANTISSA = 23  # bits of a float32 after its exponent
LEAST = -126.0  # below it, 2^y is not a normal float32


def lookup(query: Tensor, table: Tensor, count: Any) -> Tensor | None:
    """Uses fewer operations per score; None where XLA does not compile for a CPU."""
    given = isinstance(table, tf.Tensor) and isinstance(query, tf.Tensor)
    if not given or not is_compiled() or tf.config.list_physical_devices("GPU"):
        return None
    size = table.shape[0]
    if query.dtype != tf.float32 or table.dtype not in _FLOATS or size <= BLOCK:
        return None
    query = query * math.log2(math.e)
    count = tf.cast(count, tf.int32)

    def one(start: Tensor, state: Any, first: Tensor | None = None) -> Any:
        x = tf.cast(tf.slice(table, (start, 0), (BLOCK, table.shape[1])), query.dtype)
        z = tf.matmul(query, x, transpose_b=True)  # (T, C)
        if first is not None:
            rows = start + tf.range(BLOCK)
            z = tf.where((rows >= first) & (rows < count), z, mask_value("float32"))
        return _add(state, z, x)

    whole = (count - 1) // BLOCK  # blocks before the last one, which is filled partly
    zeros = tf.zeros_like(query[:, :1])
    _, *state = tf.while_loop(
        lambda i, *_: i < whole,
        lambda i, *state: (i + 1, *one(i * BLOCK, state)),
        (tf.constant(0), zeros + mask_value("float32"), zeros, tf.zeros_like(query)),
        parallel_iterations=1,
    )
    first = whole * BLOCK
    _, total, sums = one(tf.minimum(first, size - BLOCK), state, first)
    return sums / total


def _add(state: State, z: Tensor, x: Tensor) -> State:
    """Adds patterns x (C, D) with scores z (T, C); see `ops.hopfield.streaming`."""
    greatest, total, sums = state
    top = tf.maximum(greatest, tf.reduce_max(z, 1, keepdims=True))  # (T, 1)
    e, shrink = _power(z - top), tf.exp(math.log(2) * (greatest - top))
    total = total * shrink + tf.reduce_sum(e, 1, keepdims=True)
    return top, total, sums * shrink + tf.matmul(e, x)


def _power(y: Tensor) -> Tensor:
    """Computes 2^y for y ≤ 0, and 0 below 2^−126.

    For NaN, the result is undefined; `shrink` of the same row is then NaN.
    """
    n = tf.round(y)
    power = tf.fill(tf.shape(y), POWERS[-1])
    for factor in POWERS[-2::-1]:
        power = power * (y - n) + factor
    bits = tf.bitcast(power, tf.int32)
    bits += tf.bitwise.left_shift(tf.cast(n, tf.int32), MANTISSA)
    return tf.bitcast(tf.where(y < LEAST, 0, bits), tf.float32)


_FLOATS = (tf.float32, tf.float16, tf.bfloat16)
