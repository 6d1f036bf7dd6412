"""Copying words of the source, with the ids of an extended vocabulary.

Shapes: B batch, T words of a target, S words of a source, V words of the vocabulary, X
extra ids.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.numerics.precision import to_float32

Tensor = Any
# Instead of log 0: finite, also in half precision, and its exponential is 0.
LOG_ZERO = -1e4


def copy_distribution(weights: Tensor, ids: Tensor, size: int) -> Tensor:
    """Computes Σ_{s: id_s = w} a_s, the attention to each word w of a vocabulary.

    This is the second term of equation 9 of `pointer_generator`.

    Args:
        weights: a, (B, T, S).
        ids: integers (B, S). An id that is not below `size` has no effect.
        size: the number of ids.

    Returns:
        (B, T, size), in the dtype of the weights.
    """
    # A scatter is faster, but Keras has none that adds and that every format exports.
    words = ops.arange(size, dtype=ids.dtype)
    is_word = ops.equal(ops.expand_dims(ids, -1), words)  # (B, S, ·)
    return ops.matmul(weights, ops.cast(is_word, weights.dtype))


def pointer_generator(
    logits: Tensor, gate: Tensor, weights: Tensor, ids: Tensor, extra_ids: int
) -> Tensor:
    """Computes log p of a decoder that generates a word or copies it from the source.

        p(w) = g softmax(z)_w + (1 − g) Σ_{s: id_s = w} a_s,    g = σ(gate)

    The words of the vocabulary have the ids 0 … V − 1. The ids V … V + X − 1 stand for
    the words of the source that the vocabulary lacks, and can only be copied. If the
    weights sum to less than 1, so does p: a softmax of the result normalizes p.

    Args:
        logits: z, (B, T, V), or (B, V) for one step.
        gate: the logit of the probability g to generate, (B, T, 1) or (B, 1).
        weights: a, the attention to the source, (B, T, S) or (B, S).
        ids: the extended ids of the source, integers (B, S).
        extra_ids: X.

    Returns:
        log p, (B, T, V + X) or (B, V + X), in float32 or float64; about −10⁴ for an
        extra id that is not in the source.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import copying
    >>> logits, gate = np.zeros((1, 2), "float32"), np.zeros((1, 1), "float32")
    >>> weights = np.array([[0.25, 0.25, 0.5]], "float32")
    >>> ids = np.array([[1, 2, 2]])  # word 2 is not among the 2 of the vocabulary
    >>> log_p = np.asarray(copying.pointer_generator(logits, gate, weights, ids, 2))
    >>> np.exp(log_p).round(3).tolist()
    [[0.25, 0.375, 0.375, 0.0]]

    Reference:
        See et al., "Get to the point" (2017), equations 8 and 9; the logit of g is
        theirs in a `Dense(1)` layer of context, state and input.
    """
    if len(logits.shape) == 2:
        z, g, a = (ops.expand_dims(x, 1) for x in (logits, gate, weights))
        return ops.squeeze(pointer_generator(z, g, a, ids, extra_ids), 1)
    logits = to_float32(ops.convert_to_tensor(logits))
    gate, weights = (ops.cast(x, logits.dtype) for x in (gate, weights))
    ids = ops.convert_to_tensor(ids)
    generated = ops.log_softmax(logits) + ops.log_sigmoid(gate)
    room = ((0, 0), (0, 0), (0, extra_ids))
    generated = ops.pad(generated, room, constant_values=LOG_ZERO)  # (B, T, V + X)
    copied = copy_distribution(weights, ids, logits.shape[-1] + extra_ids)
    is_copied = copied > 0
    logs = ops.log(ops.where(is_copied, copied, ops.ones_like(copied)))
    logs = ops.where(is_copied, logs, LOG_ZERO) + ops.log_sigmoid(-gate)
    return ops.logaddexp(generated, logs)
