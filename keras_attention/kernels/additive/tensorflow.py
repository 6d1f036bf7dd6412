"""The additive score on TensorFlow, chunk by chunk; see `reference.py`.

XLA fuses operations that TensorFlow runs one by one. XLA therefore compiles the chunks
even if it does not compile the surrounding graph. This requires static numbers of
queries and keys; other numbers need another graph anyway. With dynamic numbers, the
chunks use TensorFlow operations, which expect the units on another axis.

Shapes: C queries per chunk; the other letters are as in `reference.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import keras
import tensorflow as tf

# There is no public API that tells whether XLA will compile a graph.
from tensorflow.python.ops import control_flow_util

from keras_attention.kernels.additive import reference as plain
from keras_attention.kernels.additive.reference import exponential
from keras_attention.kernels.attention.tensorflow import loop, recomputed
from keras_attention.kernels.keras import is_exporting

Tensor = Any

# For single queries, the tanh of TensorFlow and XLA is as fast as the factored form.
precompute_key = plain.precompute_key

CHUNK = 2**20  # largest queries · keys · units stored at a time
TILE = 2**14  # scores that XLA accumulates at a time
UNROLLED = 16  # units that XLA adds per step


def additive(query: Tensor, key: Tensor, scale: Tensor, exact: bool) -> Tensor:
    """Computes the factored form in chunks; see `ops.scores`."""
    if query.shape[-2] == 1:  # faster with one axis less
        scores = keras.ops.matmul(keras.ops.tanh(query + key), scale)
        return keras.ops.expand_dims(scores, -2)
    if exact or not plain.pays(query, key) or is_exporting():
        return plain.additive(query, key, scale, exact)
    query, key, scale = (tf.convert_to_tensor(x) for x in (query, key, scale))
    width, keys = query.shape[-1], _size(key, -2)
    q = tf.reshape(query, (-1, _size(query, -2), width))  # (B, T, U)
    k = tf.reshape(key, (-1, keys, width))  # (B, S, U)
    known = q.shape[1] is not None and k.shape[1] is not None
    alone = known and not tf.executing_eagerly() and not is_compiled() and _has_xla()
    forward: Callable = _by_xla(_forward) if alone else _forward
    back: Callable = _by_xla(_backward) if alone else _backward
    scores = recomputed(  # the gradient recomputes each chunk
        forward,
        lambda _, slope, *tensors: back(*tensors, slope),
        lambda slope, q, k, v: plain.gradients(q, k, v, slope),
        *(q, k, scale),
    )
    shape = [_size(query, i) for i in range(len(query.shape) - 1)]
    return tf.reshape(scores, (*shape, keys))


def _forward(query: Tensor, key: Tensor, scale: Tensor) -> Tensor:
    """Computes the factored form, or the plain form of vectors far from 0."""

    def factored() -> Tensor:
        form = _compiled_scores if is_compiled() else _scores
        scores = form(exponential(query), exponential(key), -2 * scale)
        return scores + tf.reduce_sum(scale)

    return tf.cond(
        plain.is_wide(query, key),
        lambda: plain.additive(query, key, scale, True),
        factored,
    )


def _backward(
    query: Tensor, key: Tensor, scale: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients in the form that `_forward` takes."""

    def factored() -> tuple[Tensor, Tensor, Tensor]:
        dq, dk, sums = _gradients(exponential(query), exponential(key), slope)
        return 4 * scale * dq, 4 * scale * dk, tf.reduce_sum(slope) - 2 * sums

    return tf.cond(
        plain.is_wide(query, key),
        lambda: plain.gradients(query, key, scale, slope),
        factored,
    )


@cache
def _by_xla(function: Callable) -> Callable:
    return tf.function(function, jit_compile=True, autograph=False)


@cache
def _has_xla() -> bool:
    """Returns whether to use XLA: on a CPU, if XLA can compile for it.

    On a GPU, the loops of XLA are slower.
    """
    if tf.config.list_physical_devices("GPU"):
        return False
    try:
        with tf.init_scope():
            _by_xla(tf.negative)(tf.ones(()))
    except (tf.errors.OpError, ValueError):
        return False
    return True


def _scores(q: Tensor, k: Tensor, weight: Tensor) -> Tensor:
    """Computes Σ weight · r, with 1 + e^{2q} e^{2k} = [e^{2q}, 1] · [e^{2k}, 1]."""
    (samples, queries), keys = _sizes(q), _size(k, 1)
    count, chunks = _split(queries, CHUNK // q.shape[2], keys)
    q, k = _query_pairs(q, count, chunks), _key_pairs(k)

    def step(i: Tensor, scores: Any) -> tuple[Tensor, Any]:
        r = tf.math.reciprocal(tf.matmul(q[i], k[i // chunks]))  # one matrix per unit
        r = tf.reshape(r, (weight.shape[0], count * keys))
        return i + 1, scores.write(i, tf.matmul(weight[None], r)[0])

    scores = tf.TensorArray(q.dtype, samples * chunks, infer_shape=False)
    (scores,) = loop(step, samples * chunks, scores)
    return tf.reshape(scores.stack(), (samples, chunks * count, keys))[:, :queries]


def _compiled_scores(q: Tensor, k: Tensor, weight: Tensor) -> Tensor:
    """Computes Σ weight · r for XLA, which fuses the additions to a tile of scores."""
    (samples, queries), keys = _sizes(q), _size(k, 1)
    count, chunks = _split(queries, TILE, keys)
    padding = -q.shape[2] % UNROLLED  # units with weight 0
    q = _filled(tf.pad(q, [[0, 0], [0, 0], [0, padding]]), count * chunks - queries)
    groups = q.shape[2] // UNROLLED
    q = tf.reshape(q, (samples * chunks, count, groups, UNROLLED))
    q = tf.transpose(q, (0, 2, 3, 1))
    k = tf.pad(k, [[0, 0], [0, 0], [0, padding]])
    k = tf.transpose(tf.reshape(k, (samples, keys, groups, UNROLLED)), (0, 2, 3, 1))
    weight = tf.reshape(tf.pad(weight, [[0, padding]]), (groups, UNROLLED))

    def step(i: Tensor, scores: Any) -> tuple[Tensor, Any]:
        a, b = q[i], k[i // chunks]

        def add(j: Tensor, tile: Tensor) -> tuple[Tensor, Tensor]:
            group, others, w = a[j], b[j], weight[j]
            for u in range(UNROLLED):
                tile += w[u] / (1 + group[u][:, None] * others[u])
            return j + 1, tile

        zeros = tf.zeros((count, keys), q.dtype)
        return i + 1, scores.write(i, loop(add, groups, zeros)[0])

    scores = tf.TensorArray(q.dtype, samples * chunks, infer_shape=False)
    (scores,) = loop(step, samples * chunks, scores)
    return tf.reshape(scores.stack(), (samples, chunks * count, keys))[:, :queries]


def _gradients(q: Tensor, k: Tensor, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sums slope · r (1 − r) over keys and over queries, and slope · r over both.

    Returns:
        (B, T, U), (B, S, U) and (U,).
    """
    (samples, queries), keys, width = _sizes(q), _size(k, 1), q.shape[2]
    count, chunks = _split(queries, CHUNK // width, keys)
    slope = _filled(slope, count * chunks - queries)
    slope = tf.reshape(slope, (samples * chunks, count, keys))
    q, k = _query_pairs(q, count, chunks), _key_pairs(k)
    ones = tf.ones((keys, 1), q.dtype)

    def sample(n: Tensor, sums: Tensor, dq: Any, dk: Any) -> tuple[Any, ...]:
        def step(j: Tensor, sums: Tensor, dq: Any, dk: Tensor) -> tuple[Any, ...]:
            i = n * chunks + j
            r = tf.math.reciprocal(tf.matmul(q[i], k[n]))  # one matrix per unit
            rows = tf.reshape(r, (width, count * keys))
            sums += tf.matmul(rows, tf.reshape(slope[i], (count * keys, 1)))
            each = tf.tile(slope[i][None], (width, 1, 1))
            part = tf.raw_ops.SigmoidGrad(y=r, dy=each)  # slope · r (1 − r)
            rows = tf.matmul(tf.reshape(part, (width * count, keys)), ones)
            dq = dq.write(i, tf.reshape(rows, (width, count)))
            return j + 1, sums, dq, dk + tf.reduce_sum(part, 1)

        zeros = tf.zeros((width, keys), q.dtype)
        sums, dq, total = loop(step, chunks, sums, dq, zeros)
        return n + 1, sums, dq, dk.write(n, total)

    dq = tf.TensorArray(q.dtype, samples * chunks, infer_shape=False)
    dk = tf.TensorArray(q.dtype, samples, infer_shape=False)
    sums, dq, dk = loop(sample, samples, tf.zeros((width, 1), q.dtype), dq, dk)
    dq = tf.transpose(tf.reshape(dq.stack(), (-1, width, count)), (0, 2, 1))
    dq = tf.reshape(dq, (samples, chunks * count, width))[:, :queries]
    dk = tf.transpose(tf.reshape(dk.stack(), (samples, width, keys)), (0, 2, 1))
    return dq, dk, sums[:, 0]


def _query_pairs(q: Tensor, count: Any, chunks: Any) -> Tensor:
    """Returns [e^{2q}, 1] for each query of each chunk, units first: (·, U, C, 2)."""
    q = _filled(q, count * chunks - _size(q, 1))
    q = tf.transpose(tf.reshape(q, (-1, count, q.shape[2])), (0, 2, 1))
    return tf.stack([q, tf.ones_like(q)], -1)


def _key_pairs(k: Tensor) -> Tensor:
    """Returns [e^{2k}, 1] for each key, units first: (B, U, 2, S)."""
    k = tf.transpose(k, (0, 2, 1))
    return tf.stack([k, tf.ones_like(k)], 2)


def _split(queries: Any, size: int, keys: Any) -> tuple[Any, Any]:
    """Returns the number of queries per chunk (at most `size` pairs) and of chunks."""
    known = isinstance(queries, int) and isinstance(keys, int)
    least, most = (min, max) if known else (tf.minimum, tf.maximum)
    count = most(1, least(queries, size // most(1, keys)))
    return count, -(-queries // count)


def _filled(x: Tensor, missing: Any) -> Tensor:
    """Appends `missing` rows of zeros on axis 1."""
    return tf.pad(x, [[0, 0], [0, missing], [0, 0]])


def _sizes(x: Tensor) -> tuple[Any, Any]:
    return _size(x, 0), _size(x, 1)


def _size(x: Tensor, axis: int) -> Any:
    """Returns the size of an axis: an integer, or a tensor if the size is dynamic."""
    known = x.shape[axis]
    return tf.shape(x)[axis] if known is None else known


def is_compiled() -> bool:
    """Returns whether XLA will compile the graph that is being traced."""
    if tf.executing_eagerly():
        return False
    graph = tf.compat.v1.get_default_graph()
    return control_flow_util.GraphOrParentsInXlaContext(graph)
