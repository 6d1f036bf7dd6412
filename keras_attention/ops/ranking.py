"""Ranking: margin losses, and preferences among memories that depend on time.

Shapes: B batch, M memory slots, N classes; "..." for any leading axes.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.numerics.precision import mask_value
from keras_attention.ops.sequence.loop import check_length

Tensor = Any


def margin_ranking(label: Tensor, scores: Tensor, margin: float) -> Tensor:
    """Computes the margin ranking loss of the right class against all others.

        Σ_{j ≠ r} max(0, γ − s_r + s_j)

    Args:
        label: r, integers (...), the right class.
        scores: s, (..., N).
        margin: γ.

    Returns:
        (...), in the dtype of the scores; 0 if the right class is hidden by `hide`.

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), equations 6 to 8.
    """
    right = ops.one_hot(label, ops.shape(scores)[-1], dtype="bool")  # (..., N)
    selected = ops.take_along_axis(scores, label[..., None], axis=-1)  # (..., 1)
    is_valid = selected > mask_value(scores.dtype)
    counts = ops.logical_and(is_valid, ops.logical_not(right))
    loss = ops.relu(margin - ops.where(counts, selected, 0) + scores)
    return ops.sum(ops.where(counts, loss, ops.zeros_like(loss)), axis=-1)


def hide(scores: Tensor, is_valid: Tensor) -> Tensor:
    """Replaces invalid scores, so that they are never ranked first and add no loss.

    Args:
        scores: (...).
        is_valid: booleans that broadcast to the scores, False for hidden entries.

    Returns:
        (...), in the dtype of the scores.
    """
    return ops.where(is_valid, scores, ops.cast(mask_value(scores.dtype), scores.dtype))


def time_features(x: Tensor, y: Tensor, other: Tensor) -> Tensor:
    """Computes Φ_t(x, y, y′): whether x is older than y, x than y′, and y than y′.

    Args:
        x: the time at which the query was written, numbers (...).
        y: the time at which memory y was written, in the same shape.
        other: the time at which memory y′ was written, in the same shape.

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
    """Computes the preference of y over y′ with their times, s_Ot(x, y, y′).

        s_Ot(x, y, y′) = s_O(x, y) − s_O(x, y′) + Φx(x)ᵀ U_Oᵀ U_O Φt(x, y, y′)

    Args:
        similar: s_O(x, y), (...).
        other: s_O(x, y′), (...).
        weights: Φx(x)ᵀ U_Oᵀ U_O for the three time features, (..., 3).
        features: Φt(x, y, y′), (..., 3).

    Returns:
        (...). A positive value means that y is preferred.
    """
    bonus = ops.sum(weights * ops.cast(features, weights.dtype), axis=-1)
    return similar - other + bonus


def preference_over(
    taken: Tensor, similar: Tensor, weights: Tensor, x: Tensor, times: Tensor
) -> Tensor:
    """Computes the preference of each memory over the selected one.

    Each pair is scored as in `one_pass`, with the older memory as y and the newer as
    y′:

        s_Ot(x, mᵢ, m_r) if mᵢ is older than m_r, else −s_Ot(x, m_r, mᵢ)

    Args:
        taken: r, the index of the selected memory, integers (B,).
        similar: s_O(x, mᵢ), (B, M).
        weights: weights of the three time features, (B, 3).
        x: the time at which the query was written, (B,).
        times: the times at which the memories were written, (B, M).

    Returns:
        (B, M), 0 for the selected memory.
    """
    selected = ops.take_along_axis(similar, taken[:, None], axis=1)  # (B, 1)
    time = ops.take_along_axis(times, taken[:, None], axis=1)  # (B, 1)
    time = ops.broadcast_to(time, ops.shape(times))
    x = ops.broadcast_to(x[:, None], ops.shape(times))  # (B, M)
    weights = weights[:, None, :]  # (B, 1, 3)
    older = preference(similar, selected, weights, time_features(x, times, time))
    newer = -preference(selected, similar, weights, time_features(x, time, times))
    score = ops.where(times < time, older, newer)
    return ops.where(times == time, similar - selected, score)  # (B, M)


def one_pass(
    similar: Tensor, weights: Tensor, x: Tensor, times: Tensor, free: Tensor
) -> Tensor:
    """Finds the best memory in one pass; compares each memory with the best so far.

        t ← m₁;  for i = 2 … M:  if s_Ot(x, mᵢ, t) > 0, t ← mᵢ

    The pass runs from the newest memory to the oldest, so mᵢ is always older than t. No
    gradient flows through the pass.

    Args:
        similar: s_O(x, mᵢ), (B, M).
        weights: weights of the three time features, (B, 3).
        x: the time at which the query was written, (B,).
        times: the times at which the memories were written, integers (B, M).
        free: booleans (B, M), False for memories to ignore.

    Returns:
        Integers (B,), the index of the best memory; −1 if all are ignored.

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
        # On torch, Keras reads the value of `full_like` back from the device.
        ops.zeros_like(x) - 1,  # t, an index into the order
        ops.zeros_like(similar[:, 0]),  # similarity of x and t
        ops.zeros_like(x),  # time at which t was written
    )

    def compare_with_best(i: Tensor, state: tuple[Tensor, Tensor, Tensor]) -> Any:
        best, best_similar, best_time = state
        features = time_features(x, times[:, i], best_time)
        score = preference(similar[:, i], best_similar, weights, features)
        wins = ops.logical_and(free[:, i], ops.logical_or(best < 0, score > 0))
        return (
            ops.where(wins, ops.cast(i, best.dtype), best),
            ops.where(wins, similar[:, i], best_similar),
            ops.where(wins, times[:, i], best_time),
        )

    check_length(similar.shape[1])
    best = ops.fori_loop(0, ops.shape(similar)[1], compare_with_best, start)[0]  # (B,)
    slot = ops.take_along_axis(order, ops.maximum(best, 0)[:, None], axis=1)[:, 0]
    return ops.where(best < 0, best, ops.cast(slot, best.dtype))
