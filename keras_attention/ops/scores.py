"""Scores: the similarity of each query to each key.

Every function takes queries (..., T, D) and keys (..., S, D) and returns scores (...,
T, S) in the same dtype. Trainable weights of a score are passed as arguments.

Shapes: B batch, T queries, S keys, D width, U units of a score.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.numerics.precision import HALF, to_float32

Tensor = Any
Score = Callable[[Tensor, Tensor], Tensor]

DIRECT = 8  # largest width for which `rbf` squares differences
LARGE = 2.0**50  # numbers whose squares may be infinite in float32 are larger


def dot(query: Tensor, key: Tensor) -> Tensor:
    """Computes the dot product qᵀk.

    Raises:
        ValueError: if queries and keys differ in width.
    """
    check_widths(query, key)
    return ops.matmul(query, ops.swapaxes(key, -1, -2))  # (..., T, S)


def scaled_dot(query: Tensor, key: Tensor) -> Tensor:
    """Computes qᵀk / √D. The scale makes the variance of scores independent of D.

    Reference:
        Vaswani et al., "Attention is all you need" (2017), equation 1.
    """
    return dot(ops.multiply(query, query.shape[-1] ** -0.5), key)


def cosine(query: Tensor, key: Tensor) -> Tensor:
    """Computes qᵀk / (‖q‖ ‖k‖), between −1 and 1; 0 if q or k is a zero vector.

    A vector with a norm below 1e-12 counts as a zero vector and has gradient 0.
    """
    return dot(unit(query), unit(key))


def rbf(query: Tensor, key: Tensor, gamma: float | Tensor = 1.0) -> Tensor:
    """Computes −γ ‖q − k‖², the logarithm of the RBF kernel.

    The softmax of these scores is the kernel normalized over the keys. The results are
    the weights K(q, kᵢ) / Σⱼ K(q, kⱼ) of Nadaraya–Watson regression, with K = exp(−γ ‖q
    − k‖²).

    For up to 8 features, the differences are squared, so the result is accurate also
    far from the origin. For more features, the square is expanded. Let d be the
    distance of q and k from the point nearest the origin in the box around all queries
    and keys; the error of ‖q − k‖² is then about 1e-7 d².

    Args:
        query: (..., T, D).
        key: (..., S, D).
        gamma: 1 / (2 · bandwidth²).

    Returns:
        (..., T, S), never positive.

    Reference:
        Nadaraya, "On estimating regression" (1964); Watson (1964).
    """
    check_widths(query, key)
    squares = _squared_distances(to_float32(query), to_float32(key))  # (..., T, S)
    similarity = ops.multiply(-gamma, squares)
    if keras.backend.standardize_dtype(query.dtype) == "float16":
        # Clip to the range of float16.
        similarity = ops.maximum(similarity, float(np.finfo("float16").min))
    return ops.cast(similarity, query.dtype)


def bilinear(query: Tensor, key: Tensor, kernel: Tensor) -> Tensor:
    """Computes qᵀ W k, Luong's "general" score. q and k may differ in width.

    Args:
        query: (..., T, Dq).
        key: (..., S, Dk).
        kernel: W, (Dk, Dq).

    Returns:
        (..., T, S).

    Reference:
        Luong et al., "Effective approaches to attention-based neural machine
        translation" (2015), section 3.1.
    """
    return dot(query, ops.matmul(key, kernel))


def additive(query: Tensor, key: Tensor, scale: Tensor, exact: bool = False) -> Tensor:
    """Computes vᵀ tanh(q + k) of queries and keys that are projected to U units.

    This is the last step of Bahdanau's score and of Luong's "concat" score.

    By default the score is computed as Σ v − 2 Σ v / (1 + e^{2q} e^{2k}). This equal
    form needs far fewer exponentials. It is evaluated for a chunk of pairs at a time,
    forward and backward, and never stores the units (..., T, S, U) of all pairs. Its
    error is about 1e-6 of Σ |v|. If some queries and some keys are far from 0 (both
    above 33 and one above 43 in magnitude), each pair is computed explicitly, which is
    slower; on TensorFlow, this stores all units. The results of all forms agree to
    about 1e-6 of Σ |v|, whatever the size of the batch. Use `exact` for forward-mode
    derivatives, which the default does not support. Second derivatives store all units.

    The plain form, vᵀ tanh(q + k), is also used for few pairs (where it is faster), on
    NumPy and OpenVINO, in exports, while torch is being traced, and for unknown sizes
    on JAX. The plain form also broadcasts leading axes that differ between queries and
    keys; unknown axes count as equal. For queries that arrive one by one, see
    :func:`precompute_key`.

    Args:
        query: (..., T, U), W_q q.
        key: (..., S, U), W_k k (+ b); or the output of :func:`precompute_key`.
        scale: v, (U,).
        exact: whether to compute every tanh explicitly.

    Returns:
        (..., T, S) in the dtype of the queries. Half precision is computed in float32.

    Raises:
        ValueError: if queries, keys and scale differ in width.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import scores
    >>> q, k = np.zeros((1, 2, 3), "float32"), np.ones((1, 5, 3), "float32")
    >>> similar = scores.additive(q, k, np.ones(3, "float32"))
    >>> tuple(similar.shape), round(float(similar[0, 0, 0]), 4)
    ((1, 2, 5), 2.2848)

    Reference:
        Bahdanau et al., "Neural machine translation by jointly learning to align and
        translate" (2015), appendix A.1.2.
    """
    if query.shape[-1] != key.shape[-1]:
        check_widths(query, key)
    if tuple(scale.shape) != (query.shape[-1],):
        raise ValueError(
            "`scale` must hold one number for each unit (last axis of `query`). "
            f"Received: scale.shape={tuple(scale.shape)}, "
            f"query.shape={tuple(query.shape)}"
        )
    tensors = query, key, scale
    if any(keras.backend.standardize_dtype(x.dtype) in HALF for x in tensors):
        tensors = tuple(map(to_float32, tensors))
    return ops.cast(kernels.additive(*tensors, exact), query.dtype)


def precompute_key(key: Tensor) -> Any:
    """Precomputes terms of a key to make :func:`additive` faster for single queries.

    Use it for keys that are scored against many queries one by one, as in a decoder.

    Args:
        key: (B, S, U), W_k k (+ b).

    Returns:
        The `key` argument of :func:`additive`, a structure of tensors (B, S, U), in
        float32 or float64. On JAX it holds the terms that do not depend on the query.
        On other backends, where this is not much faster, and in exports, it is `key`
        itself.
    """
    if isinstance(key, keras.KerasTensor):
        return key
    return kernels.precompute_key(to_float32(key))


KNOWN: dict[str, Score] = {
    "dot": dot,
    "scaled_dot": scaled_dot,
    "cosine": cosine,
    "rbf": rbf,
}


def get(identifier: str | Score) -> Score:
    """Returns the score function of the given name. These scores have no weights.

    Args:
        identifier: one of "dot", "scaled_dot", "cosine" and "rbf", or a callable
            `f(query, key)` that returns scores (..., T, S).

    Raises:
        ValueError: if the name is unknown.
    """
    if callable(identifier):
        return identifier
    if identifier in KNOWN:
        return KNOWN[identifier]
    raise ValueError(
        f"`score` must be one of {sorted(KNOWN)} or a callable f(query, key). "
        f"Received: score={identifier!r}"
    )


def check_widths(query: Tensor, key: Tensor) -> None:
    """Raises a ValueError if queries and keys differ in width."""
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            "`query` and `key` must have the same width (last axis) for this score; "
            "'general' and 'additive' scores compare all widths. "
            f"Received: query.shape={tuple(query.shape)}, key.shape={tuple(key.shape)}"
        )


def _squared_distances(q: Tensor, k: Tensor) -> Tensor:
    """Computes ‖q − k‖² of (..., T, D) and (..., S, D), (..., T, S)."""
    q, k = map(ops.convert_to_tensor, (q, k))
    width = q.shape[-1]
    if 0 in (q.shape[-2], k.shape[-2]):
        return dot(q, k)  # no pairs
    if width is not None and width <= DIRECT:
        squares = 0.0
        for i in range(width):  # stores no differences (..., T, S, D)
            difference = q[..., :, None, i] - k[..., None, :, i]
            squares = squares + difference * difference
        return squares
    # The expanded square cancels far from the origin, so a common point is subtracted.
    # The nearest point of the box to the origin moves no number away from 0. A mean
    # would: one distant key, even a masked one, would spoil all distances.
    low, high = (
        pick(*(of(x, axis=-2, keepdims=True) for x in (q, k)))
        for pick, of in ((ops.minimum, ops.min), (ops.maximum, ops.max))
    )
    nearest = ops.relu(low) - ops.relu(-high)  # (..., 1, D)
    nearest = ops.where(ops.isfinite(nearest), nearest, 0)
    nearest = ops.stop_gradient(nearest)  # no distance depends on it
    q, k = q - nearest, k - nearest
    of_q, of_k = ops.sum(q**2, axis=-1), ops.sum(k**2, axis=-1)
    squares = of_q[..., :, None] + of_k[..., None, :] - 2 * dot(q, k)
    return ops.relu(squares)  # (..., T, S)


def unit(x: Tensor) -> Tensor:
    """Computes x / ‖x‖; 0 with gradient 0 where x is 0. The norm is in float32.

    Args:
        x: (..., D).

    Returns:
        (..., D) in the dtype of x, with norm 1 along the last axis.
    """
    full = to_float32(x)
    # Smaller numbers keep the squares of large vectors finite.
    largest = ops.stop_gradient(ops.max(ops.abs(full), axis=-1, keepdims=True))
    factor = ops.where(largest > LARGE, LARGE**-1.6, 1)
    full = full * ops.cast(factor, full.dtype)
    squares = ops.sum(full**2, axis=-1, keepdims=True)
    is_zero = squares <= 1e-24  # False for NaN, so NaN stays
    unit = full * ops.rsqrt(ops.where(is_zero, 1, squares))
    return ops.cast(ops.where(is_zero, 0, unit), x.dtype)
