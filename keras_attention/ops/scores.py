"""Scores: how alike each query is to each key.

Every function takes queries (..., T, D) and keys (..., S, D) and returns scores
(..., T, S) in their dtype. What a score must learn comes in as an argument.

Shapes: B batch, T queries, S keys, D width, U units of a score.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.numerics.precision import HALF, wide

Tensor = Any
Score = Callable[[Tensor, Tensor], Tensor]


def dot(query: Tensor, key: Tensor) -> Tensor:
    """qᵀk.

    Args:
        query: (..., T, D).
        key: (..., S, D).

    Returns:
        (..., T, S).

    Raises:
        ValueError: if queries and keys are not of one width.
    """
    check_widths(query, key)
    return ops.matmul(query, ops.swapaxes(key, -1, -2))  # (..., T, S)


def scaled_dot(query: Tensor, key: Tensor) -> Tensor:
    """qᵀk / √D, whose variance does not grow with the width.

    Args:
        query: (..., T, D).
        key: (..., S, D).

    Returns:
        (..., T, S).

    Reference:
        Vaswani et al., "Attention is all you need" (2017), equation 1.
    """
    return dot(ops.multiply(query, query.shape[-1] ** -0.5), key)


def cosine(query: Tensor, key: Tensor) -> Tensor:
    """qᵀk / (‖q‖ ‖k‖), between −1 and 1; 0 where either is a zero vector.

    A vector shorter than 1e-12 counts as a zero vector, whose gradient is 0.

    Args:
        query: (..., T, D).
        key: (..., S, D).

    Returns:
        (..., T, S).
    """
    return dot(unit(query), unit(key))


def rbf(query: Tensor, key: Tensor, gamma: float | Tensor = 1.0) -> Tensor:
    """−γ ‖q − k‖², the logarithm of the RBF kernel.

    Its softmax is therefore the kernel itself, normalized over the keys: the weights
    K(q, kᵢ) / Σⱼ K(q, kⱼ) of Nadaraya–Watson regression, K = exp(−γ ‖q − k‖²).

    Args:
        query: (..., T, D).
        key: (..., S, D).
        gamma: one over twice the squared bandwidth.

    Returns:
        (..., T, S), never positive.

    Reference:
        Nadaraya, "On estimating regression" (1964); Watson (1964).
    """
    q, k = wide(query), wide(key)
    squares = (
        ops.sum(q**2, axis=-1)[..., :, None]
        + ops.sum(k**2, axis=-1)[..., None, :]
        - 2 * dot(q, k)
    )  # (..., T, S)
    similarity = ops.multiply(-gamma, ops.maximum(squares, 0))
    if keras.backend.standardize_dtype(query.dtype) == "float16":
        # A distance beyond the range of float16 counts as the largest one.
        similarity = ops.maximum(similarity, float(np.finfo("float16").min))
    return ops.cast(similarity, query.dtype)


def bilinear(query: Tensor, key: Tensor, kernel: Tensor) -> Tensor:
    """qᵀ W k, Luong's "general" score; the widths of q and k may differ.

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
    """vᵀ tanh(q + k) of queries and keys that have been projected to U units.

    Bahdanau's score and Luong's "concat" both end in it.

    By default it is computed as Σ v − 2 Σ v / (1 + e^{2q} e^{2k}), which is the same
    number from far fewer exponentials, a chunk of pairs at a time, forwards and
    backwards: the units (..., T, S, U) of all pairs are never held. This holds, to
    about 1e-6 of Σ |v|, for numbers of q and k within ±43; one beyond counts as ±43.
    That changes nothing unless it meets a number beyond ∓35, of the other sign, for
    tanh(q + k) is ±1 otherwise. For such numbers there is `exact`; also for derivatives
    forwards, which the default does not have. Second derivatives hold all units.

    The plain form is also taken for few pairs, where it is faster (for one query after
    another there is :func:`precompute_key`), on NumPy and OpenVINO, in exports, while
    torch is being traced, and where JAX is given unknown sizes. Leading axes that are
    not the same in queries and keys are broadcast by the plain form; unknown ones count
    as the same.

    Args:
        query: (..., T, U), W_q q.
        key: (..., S, U), W_k k (+ b); or what :func:`precompute_key` made of it.
        scale: v, (U,).
        exact: whether to compute each tanh.

    Returns:
        (..., T, S) in the dtype of the queries; half precision is computed in float32.

    Raises:
        ValueError: if queries, keys and scale are not of one width.

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
    given = (query, key, scale)
    if query.shape[-1] != key.shape[-1]:
        check_widths(query, key)
    if tuple(scale.shape) != (query.shape[-1],):
        raise ValueError(
            "`scale` must hold one number for each unit (last axis of `query`). "
            f"Received: scale.shape={tuple(scale.shape)}, "
            f"query.shape={tuple(query.shape)}"
        )
    if all(keras.backend.standardize_dtype(x.dtype) not in HALF for x in given):
        return ops.cast(kernels.additive(*given, exact), query.dtype)
    similarity = kernels.additive(*map(wide, given), exact)
    return ops.cast(similarity, query.dtype)


def precompute_key(key: Tensor) -> Any:
    """A key for :func:`additive` that is faster for one query after another.

    For keys that many queries meet one by one, as in a decoder.

    Args:
        key: (B, S, U), W_k k (+ b).

    Returns:
        What :func:`additive` takes as its key, a structure of tensors (B, S, U). On
        torch and JAX it holds what no query changes, in float32 at least. It is the key
        itself where that is as fast: on NumPy, OpenVINO and TensorFlow, on torch while
        it is traced, and in exports.
    """
    if isinstance(key, keras.KerasTensor):
        return key
    if keras.backend.standardize_dtype(key.dtype) in HALF:
        key = ops.cast(key, "float32")
    return kernels.precompute_key(key)


KNOWN: dict[str, Score] = {
    "dot": dot,
    "scaled_dot": scaled_dot,
    "cosine": cosine,
    "rbf": rbf,
}


def get(identifier: str | Score) -> Score:
    """Finds a score that needs no weights by its name.

    Args:
        identifier: one of "dot", "scaled_dot", "cosine" and "rbf", or a callable
            `f(query, key)` that returns scores (..., T, S).

    Raises:
        ValueError: if there is none of that name.
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
    """Raises a ValueError where queries and keys are not of one width."""
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            "`query` and `key` must have the same width (last axis) for this score. "
            f"Received: query.shape={tuple(query.shape)}, key.shape={tuple(key.shape)}"
        )


def unit(x: Tensor) -> Tensor:
    """x / ‖x‖, 0 with gradient 0 where x is 0; its squares are summed in float32.

    Args:
        x: (..., D).

    Returns:
        The same shape and dtype, of length 1 along the last axis.
    """
    full = wide(x)
    squares = ops.sum(full**2, axis=-1, keepdims=True)
    is_nonzero = squares > 1e-24
    unit = full * ops.rsqrt(ops.where(is_nonzero, squares, 1))
    return ops.cast(ops.where(is_nonzero, unit, 0), x.dtype)
