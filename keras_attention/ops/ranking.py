"""Ranking: what wrong answers cost, and which memory is preferred where time counts.

Shapes: B batch, M memory slots, N classes; "..." for any axes in front.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.numerics.precision import lowest

Tensor = Any


def margin_ranking(label: Tensor, scores: Tensor, margin: float) -> Tensor:
    """What a ranking costs in which the right class is not ahead by the margin.

        Σ_{j ≠ r} max(0, γ − s_r + s_j)

    Args:
        label: r, integers (...), the right class.
        scores: s, (..., N).
        margin: γ.

    Returns:
        (...), in the dtype of the scores; 0 where the right class is hidden (`hide`).

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), equations 6 to 8.
    """
    right = ops.one_hot(label, ops.shape(scores)[-1], dtype="bool")  # (..., N)
    ours = ops.take_along_axis(scores, label[..., None], axis=-1)  # (..., 1)
    counts = ops.logical_and(ours > lowest(scores.dtype), ops.logical_not(right))
    behind = ops.relu(margin - ops.where(counts, ours, 0) + scores)
    return ops.sum(ops.where(counts, behind, ops.zeros_like(behind)), axis=-1)


def hide(scores: Tensor, is_valid: Tensor) -> Tensor:
    """Scores that no ranking picks and no margin reaches, where nothing is.

    Args:
        scores: (...).
        is_valid: booleans that broadcast to the scores, False for what is hidden.

    Returns:
        (...), in the dtype of the scores.
    """
    return ops.where(is_valid, scores, ops.cast(lowest(scores.dtype), scores.dtype))


def time_features(x: Tensor, y: Tensor, other: Tensor) -> Tensor:
    """Φ_t(x, y, y′): is x older than y, x older than y′, y older than y′?

    Args:
        x: when it was written what is asked with, numbers (...).
        y: when one memory was written, of the same shape.
        other: when the other one, y′, was written, of the same shape.

    Returns:
        (..., 3), 0.0 or 1.0.

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.4.
    """
    older = ops.stack([x < y, x < other, y < other], axis=-1)
    return ops.cast(older, "float32")


def preference(
    similar: Tensor, other: Tensor, weights: Tensor, features: Tensor
) -> Tensor:
    """How much rather y than y′, with the time of both: s_Ot(x, y, y′).

        s_Ot(x, y, y′) = s_O(x, y) − s_O(x, y′) + Φx(x)ᵀ U_Oᵀ U_O Φt(x, y, y′)

    Args:
        similar: s_O(x, y), (...).
        other: s_O(x, y′), (...).
        weights: Φx(x)ᵀ U_Oᵀ U_O of the three features, (..., 3).
        features: Φt(x, y, y′), (..., 3).

    Returns:
        (...): y is preferred where it is above 0.
    """
    bonus = ops.sum(weights * ops.cast(features, weights.dtype), axis=-1)
    return similar - other + bonus


def preference_over(
    taken: Tensor, similar: Tensor, weights: Tensor, x: Tensor, times: Tensor
) -> Tensor:
    """How much rather each memory than the one that was taken.

    A pair is scored as `one_pass` meets it, the older one as y and the newer as y′:

        s_Ot(x, mᵢ, m_r) where mᵢ is older than m_r, else −s_Ot(x, m_r, mᵢ)

    Args:
        taken: r, integers (B,).
        similar: s_O(x, mᵢ), (B, M).
        weights: of the three time features, (B, 3).
        x: when it was written what is asked with, (B,).
        times: when the memories were written, (B, M).

    Returns:
        (B, M), 0 for the memory taken.
    """
    ours = ops.take_along_axis(similar, taken[:, None], axis=1)  # (B, 1)
    time = ops.take_along_axis(times, taken[:, None], axis=1)  # (B, 1)
    time = ops.broadcast_to(time, ops.shape(times))
    x = ops.broadcast_to(x[:, None], ops.shape(times))  # (B, M)
    weights = weights[:, None, :]  # (B, 1, 3)
    older = preference(similar, ours, weights, time_features(x, times, time))
    newer = -preference(ours, similar, weights, time_features(x, time, times))
    score = ops.where(times < time, older, newer)
    return ops.where(times == time, similar - ours, score)  # (B, M)


def one_pass(
    similar: Tensor, weights: Tensor, x: Tensor, times: Tensor, free: Tensor
) -> Tensor:
    """The memory that is left after each has met the best so far.

        t ← m₁;  for i = 2 … M:  if s_Ot(x, mᵢ, t) > 0, t ← mᵢ

    The pass goes from the newest memory to the oldest, so that the one that comes is
    always older than t. There are no gradients through it.

    Args:
        similar: s_O(x, mᵢ), (B, M).
        weights: of the three time features, (B, 3).
        x: when it was written what is asked with, (B,).
        times: when the memories were written, integers (B, M).
        free: booleans (B, M), False for what does not take part.

    Returns:
        Integers (B,), −1 where nothing takes part.

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), algorithm 1.
    """
    order = ops.flip(ops.argsort(times, axis=1), axis=1)  # (B, M)
    similar, times, free = (
        ops.take_along_axis(ops.stop_gradient(row), order, axis=1)
        for row in (similar, times, free)
    )
    weights = ops.stop_gradient(weights)
    start = (
        ops.full_like(x, -1),  # t, a place in the order
        ops.zeros_like(similar[:, 0]),  # how alike x and t are
        ops.zeros_like(x),  # when t was written
    )

    def meet(i: Tensor, state: tuple[Tensor, Tensor, Tensor]) -> Any:
        best, best_similar, best_time = state
        features = time_features(x, times[:, i], best_time)
        score = preference(similar[:, i], best_similar, weights, features)
        wins = ops.logical_and(free[:, i], ops.logical_or(best < 0, score > 0))
        return (
            ops.where(wins, ops.cast(i, best.dtype), best),
            ops.where(wins, similar[:, i], best_similar),
            ops.where(wins, times[:, i], best_time),
        )

    best = ops.fori_loop(0, ops.shape(similar)[1], meet, start)[0]  # (B,)
    slot = ops.take_along_axis(order, ops.maximum(best, 0)[:, None], axis=1)[:, 0]
    return ops.where(best < 0, best, ops.cast(slot, best.dtype))
