"""Normalizers: from scores to weights. The one place that applies a mask.

Each takes scores (..., S), a boolean mask that broadcasts against them (True = may
attend) and the axis to normalize, and returns weights of the scores' shape and dtype.
What is masked gets weight exactly 0. Where a whole row is masked, all of its weights
are 0 and so is every gradient through it: never NaN, never a uniform average.

Half-precision scores are normalized in float32.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attention.numerics.precision import (
    HALF,
    MASK_VALUES,
    is_half,
    lowest,
    wide,
)

Tensor = Any
Normalizer = Callable[..., Tensor]


def softmax(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """exp(zᵢ) / Σⱼ exp(zⱼ).

    Args:
        scores: (..., S) numbers.
        mask: booleans that broadcast to the scores, True = may attend; or None.
        axis: the axis along which the weights sum to one.

    Returns:
        Weights, of the scores' shape and dtype.
    """
    dtype = keras.backend.standardize_dtype(scores.dtype)
    half = dtype in HALF
    z = ops.cast(scores, "float32") if half else scores
    if mask is not None:
        # The lowest finite number, halved, vanishes in the softmax of any row that
        # has something to attend to; the other rows are zeroed below.
        z = ops.where(mask, z, MASK_VALUES["float32" if half else dtype])
    weights = _softmax_of_one(z, axis) if z.shape[axis] == 1 else ops.softmax(z, axis)
    if mask is not None:
        weights = ops.where(mask, weights, ops.zeros_like(weights))
    # Nothing else is to be narrowed: not float64 arrays where there is no float64.
    return ops.cast(weights, scores.dtype) if half else weights


def softmax1(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """exp(zᵢ) / (1 + Σⱼ exp(zⱼ)): a softmax that may also choose nothing.

    It equals a softmax over the scores and one more score of 0 whose weight is
    thrown away, so the weights sum to less than one.

    Args:
        scores: (..., S) numbers.
        mask: booleans that broadcast to the scores, True = may attend; or None.
        axis: the axis to normalize.

    Returns:
        Weights, of the scores' shape and dtype.

    Reference:
        Miller, "Attention is off by one" (2023).
    """
    return sink_softmax(scores, mask, axis)


def sink_softmax(
    scores: Tensor, mask: Tensor | None = None, axis: int = -1, sink: Any = 0.0
) -> Tensor:
    """exp(zᵢ) / (exp(b) + Σⱼ exp(zⱼ)): a softmax beside a sink, which takes the rest.

    Args:
        scores: (..., S) numbers.
        mask: booleans that broadcast to the scores, True = may attend; or None.
        axis: the axis to normalize.
        sink: b, the score of nothing, a number or what broadcasts to the scores, 1
            along the axis. With 0, it is `softmax1`.

    Returns:
        Weights, of the scores' shape and dtype.

    Reference:
        Xiao et al., "Efficient streaming language models with attention sinks" (2024);
        as a learned score: OpenAI, "gpt-oss-120b & gpt-oss-20b model card" (2025),
        section 2.
    """
    z = wide(scores)
    b = ops.cast(sink, z.dtype)
    if mask is not None:
        z = ops.where(mask, z, lowest(z.dtype))
    top = ops.stop_gradient(ops.maximum(ops.max(z, axis=axis, keepdims=True), b))
    e = ops.exp(z - top)
    total = ops.exp(b - top) + ops.sum(e, axis=axis, keepdims=True)
    return _finish(e / total, mask, scores)


def null_softmax(
    scores: Tensor, mask: Tensor | None = None, axis: int = -1, slots: int = 1
) -> Tensor:
    """exp(zᵢ) / (n₀ + Σⱼ exp(zⱼ)): a softmax over memories of which n₀ are null.

    A memory has `slots` slots, and those that nothing is written to score 0 and hold
    0. Their number n₀ = max(slots − n, 0), where n is how many may be attended to, does
    not depend on how far the scores are padded.

    Args:
        scores: (..., S) numbers.
        mask: booleans that broadcast to the scores, True = may attend; or None.
        axis: the axis to normalize.
        slots: how many memories there are, null ones included.

    Returns:
        Weights, of the scores' shape and dtype.

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.2: stories are
        padded to a fixed size with a null symbol, whose embedding is zero.
    """
    # Counted in floats: OpenVINO adds up whole numbers from a choice of two wrongly.
    there = ops.ones_like(wide(scores))
    if mask is not None:  # of any shape that broadcasts, such as one that hides rows
        there = ops.where(mask, there, ops.zeros_like(there))
    # 0.0, not 0: JAX' ONNX exporter takes two dtypes as they are.
    null = ops.maximum(slots - ops.sum(there, axis=axis, keepdims=True), 0.0)
    return _beside_nothing(scores, mask, axis, null)


def sparsemax(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """max(zᵢ − τ, 0), with τ such that the weights sum to one.

    The Euclidean projection of the scores onto the simplex: most weights are
    exactly 0.

    Args:
        scores: (..., S) numbers.
        mask: booleans that broadcast to the scores, True = may attend; or None.
        axis: the axis along which the weights sum to one.

    Returns:
        Weights, of the scores' shape and dtype.

    Reference:
        Martins & Astudillo, "From softmax to sparsemax" (2016), algorithm 1.
    """
    z = _below_zero(scores, mask, axis)
    k, ordered = _ranks(z, axis)
    inside = 1 + k * ordered > ops.cumsum(ordered, axis=axis)
    size = ops.sum(ops.cast(inside, z.dtype), axis=axis, keepdims=True)
    support = z >= _smallest(ordered, inside, axis)
    tau = (ops.sum(ops.where(support, z, 0), axis=axis, keepdims=True) - 1) / size
    return _finish(ops.where(support, z - tau, 0), mask, scores)


def entmax15(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """max(zᵢ/2 − τ, 0)², with τ such that the weights sum to one.

    Half-way between softmax and sparsemax: smooth, and yet with exact zeros.

    Args:
        scores: (..., S) numbers.
        mask: booleans that broadcast to the scores, True = may attend; or None.
        axis: the axis along which the weights sum to one.

    Returns:
        Weights, of the scores' shape and dtype.

    Reference:
        Peters, Niculae & Martins, "Sparse sequence-to-sequence models" (2019),
        algorithm 2.
    """
    z = _below_zero(wide(scores) / 2, mask, axis)
    k, ordered = _ranks(z, axis)
    tau = _entmax15_threshold(
        k, ops.cumsum(ordered, axis=axis), ops.cumsum(ordered**2, axis=axis)
    )
    inside = tau <= ordered
    size = ops.sum(ops.cast(inside, z.dtype), axis=axis, keepdims=True)
    support = z >= _smallest(ordered, inside, axis)
    chosen = ops.where(support, z, 0)
    tau = _entmax15_threshold(
        size,
        ops.sum(chosen, axis=axis, keepdims=True),
        ops.sum(chosen**2, axis=axis, keepdims=True),
    )
    return _finish(ops.where(support, (z - tau) ** 2, 0), mask, scores)


def hardmax(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """1 for the greatest score (the first of equals), 0 for the others.

    The gradient is that of the softmax (straight-through), so that a hard choice
    can be trained.

    Args:
        scores: (..., S) numbers.
        mask: booleans that broadcast to the scores, True = may attend; or None.
        axis: the axis along which one is chosen.

    Returns:
        Weights 0 or 1, of the scores' shape and dtype.

    Reference:
        Bengio, Léonard & Courville, "Estimating or propagating gradients through
        stochastic neurons for conditional computation" (2013).
    """
    z = wide(scores)
    if mask is not None:
        z = ops.where(mask, z, lowest(z.dtype))
    soft = softmax(z, mask, axis)
    best = ops.expand_dims(ops.argmax(z, axis=axis), axis)
    places = ops.cumsum(ops.ones_like(z), axis=axis) - 1
    hard = ops.cast(ops.equal(places, ops.cast(best, z.dtype)), z.dtype)
    return _finish(hard + (soft - ops.stop_gradient(soft)), mask, scores)


def linear(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """The scores themselves, 0 where masked. They do not sum to one.

    The memory of a MemN2N before its softmax is put in ("linear start").

    Args:
        scores: (..., S) numbers.
        mask: booleans that broadcast to the scores, True = may attend; or None.
        axis: not used; every normalizer has it.

    Returns:
        Weights, of the scores' shape and dtype.
    """
    return scores if mask is None else ops.where(mask, scores, ops.zeros_like(scores))


KNOWN: dict[str, Normalizer] = {
    "softmax": softmax,
    "softmax1": softmax1,
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "hardmax": hardmax,
    "linear": linear,
}


def get(identifier: str | Normalizer) -> Normalizer:
    """Finds a normalizer by its name; a callable is returned as it is.

    Args:
        identifier: one of "softmax", "softmax1", "sparsemax", "entmax15", "hardmax"
            and "linear", or a callable `f(scores, mask)` over the last axis.

    Raises:
        ValueError: if there is none of that name.
    """
    if callable(identifier):
        return identifier
    if identifier in KNOWN:
        return KNOWN[identifier]
    raise ValueError(
        f"`normalizer` must be one of {sorted(KNOWN)} or a callable "
        f"f(scores, mask). Received: normalizer={identifier!r}"
    )


def _beside_nothing(
    scores: Tensor, mask: Tensor | None, axis: int, null: Any
) -> Tensor:
    """exp(zᵢ) / (n₀ + Σⱼ exp(zⱼ)), where n₀ = `null` is 0 or more."""
    z = wide(scores)
    if mask is not None:
        z = ops.where(mask, z, lowest(z.dtype))
    # A null memory scores 0; the dtype is that of the scores, whose lowest it is.
    least = ops.where(null > 0, ops.zeros_like(null), lowest(z.dtype))
    top = ops.stop_gradient(ops.maximum(ops.max(z, axis=axis, keepdims=True), least))
    e = ops.exp(z - top)
    beside = null * ops.exp(-ops.maximum(top, 0))
    return _finish(e / (beside + ops.sum(e, axis=axis, keepdims=True)), mask, scores)


def _softmax_of_one(z: Tensor, axis: int) -> Tensor:
    """Keras' softmax, without its warning about an axis of size 1.

    A memory of one sentence is nothing to warn of. (No other formula for that size:
    an export that is traced at size 1 would keep it for every size.)
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "You are using a softmax over axis")
        return ops.softmax(z, axis=axis)


def _finish(weights: Tensor, mask: Tensor | None, scores: Tensor) -> Tensor:
    if mask is not None:
        weights = ops.where(mask, weights, ops.zeros_like(weights))
    # Nothing else is to be narrowed: not float64 arrays where there is no float64.
    return ops.cast(weights, scores.dtype) if is_half(scores) else weights


def _below_zero(scores: Tensor, mask: Tensor | None, axis: int) -> Tensor:
    """Moves the greatest score to 0 and all that cannot matter to −2.

    Neither the projection nor its gradient sees a score that is more than 1 below
    the greatest, so this keeps sums small and masked places out of the support.
    """
    z = wide(scores)
    if mask is not None:
        z = ops.where(mask, z, lowest(z.dtype))
    z = z - ops.stop_gradient(ops.max(z, axis=axis, keepdims=True))
    out = ops.where(z > -2, z, -2)
    return out if mask is None else ops.where(mask, out, -2)


def _ranks(z: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The numbers 1 … S along the axis, and the scores from great to small."""
    ordered = -ops.sort(-ops.stop_gradient(z), axis=axis)
    return ops.cumsum(ops.ones_like(z), axis=axis), ordered


def _smallest(ordered: Tensor, inside: Tensor, axis: int) -> Tensor:
    return ops.min(ops.where(inside, ordered, 0), axis=axis, keepdims=True)


def _entmax15_threshold(size: Tensor, total: Tensor, squares: Tensor) -> Tensor:
    """τ for the `size` greatest scores, from their sum and the sum of their squares."""
    mean = total / size
    spread = (1 - (squares - size * mean**2)) / size
    return mean - ops.sqrt(ops.maximum(spread, 1e-12))
