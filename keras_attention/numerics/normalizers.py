"""Normalizers, which turn scores into weights and apply the masks.

Each normalizer takes scores (..., S), a boolean mask that broadcasts to them (True =
may attend) and the axis to normalize. It returns weights in the shape and dtype of the
scores. Masked keys get weight exactly 0. In a fully masked row, all weights and
gradients are 0, never NaN and never a uniform average. Masked scores have no effect,
even if they are NaN or infinite. If an unmasked score is NaN or +∞, its row is NaN, as
in a softmax, so a divergence shows. A row whose unmasked scores are all −∞ is NaN, or 0
if it also has masked keys.

Half-precision scores are normalized in float32.

XLA may compute scores again wherever they are used, each time with different rounding.
Therefore no result may depend on whether a score equals a number computed from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attention.numerics.precision import HALF, LOWEST, is_half, to_float32

Tensor = Any
Normalizer = Callable[..., Tensor]


def softmax(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """Computes exp(zᵢ) / Σⱼ exp(zⱼ).

    Args:
        scores: (..., S) numbers.
        mask: booleans that broadcast to the scores, True = may attend; or None.
        axis: the axis along which the weights sum to one.

    Returns:
        Weights in the shape and dtype of the scores.
    """
    dtype = keras.backend.standardize_dtype(scores.dtype)
    half = dtype in HALF
    z = ops.cast(scores, "float32") if half else scores
    if mask is not None:
        z = hide(z, mask)
    weights = _softmax_of_one(z, axis) if z.shape[axis] == 1 else ops.softmax(z, axis)
    if mask is not None:
        weights = ops.where(mask, weights, ops.zeros_like(weights))
    # Cast back half precision only: the backend may not support float64.
    return ops.cast(weights, scores.dtype) if half else weights


def softmax1(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """Computes exp(zᵢ) / (1 + Σⱼ exp(zⱼ)), a softmax that may attend to no key.

    It equals a softmax over the scores and one more score of 0. The weight of that
    score is discarded, so the weights sum to less than one.

    The arguments and the result are those of :func:`softmax`.

    Reference:
        Miller, "Attention is off by one" (2023).
    """
    return sink_softmax(scores, mask, axis)


def sink_softmax(
    scores: Tensor, mask: Tensor | None = None, axis: int = -1, sink: Any = 0.0
) -> Tensor:
    """Computes exp(zᵢ) / (exp(b) + Σⱼ exp(zⱼ)), a softmax with an attention sink.

    Args:
        scores: (..., S) numbers.
        mask: booleans that broadcast to the scores, True = may attend; or None.
        axis: the axis to normalize.
        sink: b, the score of the sink: a number, or a tensor that broadcasts to the
            scores with size 1 along the axis. b = 0 gives `softmax1`.

    Returns:
        Weights in the shape and dtype of the scores.

    Reference:
        Xiao et al., "Efficient streaming language models with attention sinks" (2024);
        as a learned score: OpenAI, "gpt-oss-120b & gpt-oss-20b model card" (2025),
        section 2.
    """
    z = to_float32(scores)
    b = ops.cast(sink, z.dtype)
    if mask is not None:
        z = hide(z, mask)
    top = ops.max(z, axis=axis, keepdims=True)
    top = ops.stop_gradient(ops.where(top > b, top, b))  # keeps float64, on torch too
    e = ops.exp(z - top)
    total = ops.exp(b - top) + ops.sum(e, axis=axis, keepdims=True)
    return finish(e / total, mask, scores)


def null_softmax(
    scores: Tensor, mask: Tensor | None = None, axis: int = -1, slots: int = 1
) -> Tensor:
    """Computes exp(zᵢ) / (n₀ + Σⱼ exp(zⱼ)), a softmax with n₀ null memories.

    A memory has `slots` slots. Empty slots have score 0 and value 0. Their number is n₀
    = max(slots − n, 0), where n is the number of unmasked keys, so n₀ does not depend
    on the padding of the scores.

    Args:
        scores: (..., S) numbers.
        mask: booleans that broadcast to the scores, True = may attend; or None.
        axis: the axis to normalize.
        slots: the number of memories, including null memories.

    Returns:
        Weights in the shape and dtype of the scores.

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.2: stories are
        padded to a fixed size with a null symbol with a zero embedding.
    """
    z = to_float32(scores)
    # Count in floats: OpenVINO sums the integers of a `where` wrongly.
    filled = ops.ones_like(z)
    if mask is not None:  # any shape that broadcasts, such as a mask of whole rows
        filled = ops.where(mask, filled, ops.zeros_like(filled))
        z = hide(z, mask)
    null = ops.relu(slots - ops.sum(filled, axis=axis, keepdims=True))  # n₀
    top = ops.stop_gradient(ops.max(z, axis=axis, keepdims=True))
    top = ops.where(null > 0, ops.relu(top), top)  # a null memory has score 0
    e = ops.exp(z - top)
    total = null * ops.exp(-ops.relu(top)) + ops.sum(e, axis=axis, keepdims=True)
    return finish(e / total, mask, scores)


def sparsemax(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """Computes max(zᵢ − τ, 0), with τ such that the weights sum to one.

    This is the Euclidean projection of the scores onto the simplex. Most weights are
    exactly 0.

    The arguments and the result are those of :func:`softmax`.

    Reference:
        Martins & Astudillo, "From softmax to sparsemax" (2016), algorithm 1.
    """
    z = below_zero(scores, mask, axis)
    k, ordered = _ranks(z, axis)
    inside = 1 + k * ordered > ops.cumsum(ordered, axis=axis)
    size, chosen = _support(ordered, inside, axis)
    tau = (ops.sum(chosen, axis=axis, keepdims=True) - 1) / size
    # The same sum with the scores themselves, for the gradient.
    excess = ops.sum(above(z, tau), axis=axis, keepdims=True) - 1
    return finish(above(z, tau + excess / size), mask, scores)


def entmax15(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """Computes max(zᵢ/2 − τ, 0)², with τ such that the weights sum to one.

    It lies half-way between softmax and sparsemax: smooth, but with exact zeros.

    The arguments and the result are those of :func:`softmax`.

    Reference:
        Peters, Niculae & Martins, "Sparse sequence-to-sequence models" (2019),
        algorithm 2.
    """
    z = below_zero(to_float32(scores) / 2, mask, axis)
    k, ordered = _ranks(z, axis)
    tau = entmax15_threshold(
        k, ops.cumsum(ordered, axis=axis), ops.cumsum(ops.square(ordered), axis=axis)
    )
    size, chosen = _support(ordered, tau <= ordered, axis)
    tau = threshold_of(chosen, size, axis)
    # The same equation with the scores themselves, for the gradient.
    tau = tau + threshold_of(above(z, tau), size, axis)
    return finish(ops.square(above(z, tau)), mask, scores)


def entmax(
    scores: Tensor, mask: Tensor | None = None, axis: int = -1, alpha: Any = 1.5
) -> Tensor:
    """Computes max((α − 1) zᵢ − τ, 0)^(1 / (α − 1)), with τ such that they sum to one.

    α = 2 is `sparsemax`, α = 1.5 is `entmax15`, and α = 1 is `softmax`. τ comes from
    bisection, and gets its exact gradient from a Newton step. The arguments and the
    result are those of :func:`softmax`; α is a number from 1 to 2, or a tensor of such
    numbers that broadcasts to the scores with size 1 along the axis.

    Reference:
        Peters, Niculae & Martins, "Sparse sequence-to-sequence models" (2019),
        algorithm 1.
    """
    if isinstance(alpha, (int, float)) and not 1 <= alpha <= 2:
        raise ValueError(f"`alpha` must be from 1 to 2. Received: alpha={alpha}")
    z = to_float32(scores) if mask is None else hide(to_float32(scores), mask)
    top = ops.stop_gradient(ops.max(z, axis=axis, keepdims=True))
    shifted = ops.maximum(z - top, LOWEST["float32"])  # α gets no gradient from −∞
    a = ops.cast(alpha, z.dtype) - 1
    a = ops.where(a < 1e-6, 1e-6, a)  # the weights differ by less than 1e-6
    z = below_zero(a * shifted, mask, axis)
    fixed_z, fixed_a = ops.stop_gradient(z), ops.stop_gradient(a)

    def halve(_: Any, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        low, high = ends
        middle = (low + high) / 2
        total = ops.sum(_power(fixed_z, fixed_a, middle)[0], axis=axis, keepdims=True)
        return ops.where(total >= 1, middle, low), ops.where(total >= 1, high, middle)

    # The largest score is 0. If all S scores are, τ + 1 = 1 − S^(1 − α).
    low = ops.zeros_like(top)
    size = ops.cast(ops.shape(z)[axis], z.dtype)
    high = low - ops.expm1(-fixed_a * ops.log(size))
    shift, _ = ops.fori_loop(0, 24, halve, (low, high))
    slope = ops.sum(_power(fixed_z, fixed_a, shift)[1], axis=axis, keepdims=True)
    excess = ops.sum(_power(z, a, shift)[0], axis=axis, keepdims=True) - 1
    return finish(_power(z, a, shift + excess / slope)[0], mask, scores)


def _power(z: Tensor, a: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """Computes max(1 + z − shift, 0)^(1/a), and minus its derivative by the shift.

    The shift is τ + 1: for a near 0, it is much smaller than 1, and τ would be rounded.
    """
    x = z - shift
    outside = x <= -1
    x = ops.where(outside, 0, x)  # the logarithm of 0 has no gradient; NaN stays
    power = ops.where(outside, 0, ops.exp(ops.log1p(x) / a))
    return power, power / (a + a * x)


def hardmax(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """Returns 1 for the largest score (the first in a tie), 0 for all others.

    The gradient is the gradient of the softmax (straight-through), which makes the hard
    choice trainable.

    The arguments and the result are those of :func:`softmax`.

    Reference:
        Bengio, Léonard & Courville, "Estimating or propagating gradients through
        stochastic neurons for conditional computation" (2013).
    """
    z = to_float32(scores)
    if mask is not None:
        z = hide(z, mask)
    soft = softmax(z, mask, axis)
    hard = ops.cast(first_largest(z, axis), z.dtype)
    return finish(hard + (soft - ops.stop_gradient(soft)), mask, scores)


def first_largest(x: Tensor, axis: int = -1) -> Tensor:
    """Marks the largest entry along an axis, the first one in a tie.

    It does not use `argmax`, whose form in Keras contains an operation that ONNX files
    from JAX and TensorFlow cannot hold. XLA would compute x twice, with different
    rounding, and then no entry might equal the maximum. The sort of pairs of equal
    numbers prevents this, because XLA stores its result.

    Args:
        x: numbers (..., S).
        axis: the axis along which one entry is marked.

    Returns:
        Booleans in the shape of x; False everywhere along an axis with a NaN.
    """
    x = ops.stop_gradient(x)
    x = ops.sort(ops.stack([x, x], axis=-1), axis=-1)[..., 0]  # stores the numbers
    largest = ops.equal(x, ops.max(x, axis=axis, keepdims=True))
    count = ops.cumsum(ops.cast(largest, "int32"), axis=axis)
    return ops.logical_and(largest, ops.equal(count, 1))


def linear(scores: Tensor, mask: Tensor | None = None, axis: int = -1) -> Tensor:
    """Returns the scores as weights, 0 where masked. They do not sum to one.

    MemN2N uses the scores as weights before its softmax is switched on ("linear
    start"). The arguments and the result are those of :func:`softmax`; the axis is not
    used.
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
    """Returns the normalizer of the given name. A callable is returned unchanged.

    Args:
        identifier: one of "softmax", "softmax1", "sparsemax", "entmax15", "hardmax"
            and "linear", or a callable `f(scores, mask)` over the last axis.

    Raises:
        ValueError: if the name is unknown.
    """
    if callable(identifier):
        return identifier
    if isinstance(identifier, str) and identifier in KNOWN:
        return KNOWN[identifier]
    raise ValueError(
        f"`normalizer` must be one of {sorted(KNOWN)} or a callable "
        f"f(scores, mask). Received: normalizer={identifier!r}"
    )


def hide(scores: Tensor, mask: Tensor) -> Tensor:
    """Replaces masked scores by the lowest finite number.

    Unmasked finite scores are not lower. −∞ would turn into NaN in fully masked rows,
    and in ONNX files from TensorFlow, which multiply both sides of a choice by 0 or 1.
    On torch, Keras rounds the number of float64 to −∞.

    Args:
        scores: (..., S), float32 or float64.
        mask: booleans that broadcast to the scores, True = may attend.

    Returns:
        Scores in the same shape and dtype.
    """
    dtype = keras.backend.standardize_dtype(scores.dtype)
    return ops.where(mask, scores, LOWEST[dtype])


def _softmax_of_one(z: Tensor, axis: int) -> Tensor:
    """Computes the softmax without Keras' warning about an axis of size 1.

    A memory of one sentence is valid. The result must be right for every size, because
    an export traced at size 1 keeps this path. A filter of warnings would be shared by
    all threads.
    """
    return ops.exp(ops.log_softmax(z, axis=axis))


def finish(weights: Tensor, mask: Tensor | None, scores: Tensor) -> Tensor:
    """Sets masked weights to 0, and casts all to the dtype of the scores."""
    if mask is not None:
        weights = ops.where(mask, weights, ops.zeros_like(weights))
    # Cast back half precision only: the backend may not support float64.
    return ops.cast(weights, scores.dtype) if is_half(scores) else weights


def below_zero(scores: Tensor, mask: Tensor | None, axis: int) -> Tensor:
    """Shifts the largest score to 0 and replaces irrelevant scores by −2.

    A score more than 1 below the largest affects neither the projection nor its
    gradient. This keeps sums small and masked keys out of the support. A row whose
    largest score is NaN or infinite becomes NaN.
    """
    z = to_float32(scores)
    if mask is not None:
        z = hide(z, mask)
    top = ops.stop_gradient(ops.max(z, axis=axis, keepdims=True))
    z = z - top
    out = ops.where(z > -2, z, -2)
    return ops.where(ops.isfinite(top), out, float("nan"))


def _ranks(z: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Returns the ranks 1 … S along the axis and the scores in descending order."""
    ordered = -ops.sort(-ops.stop_gradient(z), axis=axis)
    return ops.cumsum(ops.ones_like(z), axis=axis), ordered


def _support(ordered: Tensor, inside: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Returns the number of scores inside, at least 1, and the scores, 0 outside."""
    size = ops.sum(ops.cast(inside, ordered.dtype), axis=axis, keepdims=True)
    return ops.maximum(size, 1), ops.where(inside, ordered, 0)


def above(z: Tensor, tau: Tensor) -> Tensor:
    """Computes max(z − τ, 0); NaN stays."""
    return ops.where(z <= tau, 0, z - tau)


def threshold_of(chosen: Tensor, size: Tensor, axis: int) -> Tensor:
    """Computes τ of entmax from `size` scores; all others are 0."""
    return entmax15_threshold(
        size,
        ops.sum(chosen, axis=axis, keepdims=True),
        ops.sum(ops.square(chosen), axis=axis, keepdims=True),
    )


def entmax15_threshold(size: Tensor, total: Tensor, squares: Tensor) -> Tensor:
    """Computes τ from the sum and the sum of squares of the `size` largest scores."""
    mean = total / size
    spread = (1 - (squares - size * ops.square(mean))) / size
    return mean - ops.sqrt(ops.where(spread < 1e-12, 1e-12, spread))
