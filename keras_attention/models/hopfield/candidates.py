"""A step of an associative memory over the candidates of an index.

Shapes: T states, C candidates of a state, N patterns, P rows of the pattern table, D
width.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.models.base.vector_index import (
    CandidateIndex,
    checked_candidates,
)
from keras_attention.models.hopfield import arguments as check
from keras_attention.models.hopfield.steps import as_numpy, parts
from keras_attention.numerics import normalizers

Tensor = Any

NUMBERS = 2**22  # of candidates' patterns that are gathered at a time
LEAST = 8  # the smallest number of candidates in a compiled function
NO_WORDS = np.zeros(0, "int64")
# The table that the patterns of an index were last compared with.
_checked: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


class CandidateStep:
    """Replaces the step of `Equations` by a softmax over an index's candidates.

    The first `count` rows of the table are patterns; the candidates may leave out the
    weight `max_left_out`.

    Raises:
        ValueError: if the index does not fit the patterns, or `max_left_out` is not
            between 0 and 1.
    """

    def __init__(
        self, index: CandidateIndex, table: Tensor, count: int, max_left_out: float
    ) -> None:
        if not isinstance(index, CandidateIndex):
            raise ValueError(
                "`index` must be a VectorIndex, or have `size` and `candidates`. "
                f"Received: index={index!r}"
            )
        if index.size != count:
            raise ValueError(
                f"`index` must be built from the {count} patterns of the memory. "
                f"Received: index.size={index.size}"
            )
        self.limit = check.at_least_zero("max_left_out", max_left_out)
        if self.limit > 1:
            raise ValueError(
                f"`max_left_out` must be at most 1. Received: max_left_out={self.limit}"
            )
        if hasattr(index, "check_keys"):
            known = _checked.get(index)
            if known is None or known() is not table:
                index.check_keys(as_numpy(table)[:count])
                _checked[index] = weakref.ref(table)
        self.index = index

    def __call__(
        self, states: Tensor, moving: Tensor, table: Tensor, count: int, beta: float
    ) -> tuple[Tensor, Tensor]:
        """Returns the next states (T, D) and the distances that they moved, (T,).

        Raises:
            ValueError: if the candidates may leave out too much weight.
        """
        new, moved, left, fewest = self._run(states, as_numpy(moving), table, beta)
        worst = left.max(initial=0.0)
        if worst > self.limit:
            sure = getattr(self.index, "exact", False)
            kind = "at most" if sure else "by an estimate (the index is approximate)"
            raise ValueError(
                "`index` must find the patterns with nearly all of the weight. "
                f"Received: beta={beta:g} and {fewest} candidates of {count} patterns, "
                f"which leave out {kind} {100 * worst:.3g} % of the weight; "
                f"max_left_out={self.limit:g} allows {100 * self.limit:.3g} %. With a "
                "small `beta`, an index does not pay: retrieve without one, or find "
                "more candidates"
            )
        return new, moved

    def left_out(
        self, states: Tensor, table: Tensor, count: int, beta: float
    ) -> np.ndarray:
        """Computes the bounds of the left-out weight, float32 (T,)."""
        return self._run(states, np.ones(states.shape[0], bool), table, beta)[2]

    def _run(
        self, states: Tensor, moving: np.ndarray, table: Tensor, beta: float
    ) -> tuple[Tensor, Tensor, np.ndarray, int]:
        """Takes a step; the last result is the smallest number of candidates."""
        slots = self._slots(as_numpy(states).astype("float32"), moving)  # (T, C)
        counts = (slots >= 0).sum(1)
        others = np.where(moving, self.index.size - counts, 0).astype("float32")
        rows = max(NUMBERS // (slots.shape[1] * states.shape[1]), 1)
        rows = min(1 << rows.bit_length() - 1, len(slots))
        update, results = compiled_update(), []
        for i, part in enumerate(parts(states, rows)):
            here = slice(i * rows, (i + 1) * rows)
            arrays = slots[here], moving[here], others[here]
            tensors = map(ops.convert_to_tensor, arrays)
            results.append(update(part, *tensors, table, beta))
        new, moved, left = (
            column[0] if len(column) == 1 else ops.concatenate(column)
            for column in zip(*results)
        )
        return new, moved, as_numpy(left), int(counts[moving].min(initial=10**18))

    def _slots(self, queries: np.ndarray, moving: np.ndarray) -> np.ndarray:
        """Returns the candidates of the moving states, int32 (T, C), padded with −1."""
        lists = [NO_WORDS] * len(queries)
        for t in np.flatnonzero(moving):
            candidates = checked_candidates(
                self.index, self.index.size, NO_WORDS, queries[t], least=1
            )
            lists[t] = np.arange(self.index.size) if candidates is None else candidates
        longest = max(LEAST, *map(len, lists))
        slots = np.full((len(lists), 1 << (longest - 1).bit_length()), -1, "int32")
        for row, candidates_of_row in zip(slots, lists):
            row[: len(candidates_of_row)] = candidates_of_row
        return slots


def candidate_update(
    states: Tensor,
    slots: Tensor,
    moving: Tensor,
    others: Tensor,
    table: Tensor,
    beta: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Takes one step of states ξ (T, D) towards the candidates of each state.

    Args:
        states: ξ, (T, D).
        slots: integers (T, C), rows of the table; −1 is padding.
        moving: booleans (T,); the other states stay.
        others: (T,), the number of patterns that are no candidates.
        table: (P, D).
        beta: β.

    Returns:
        The new states; the distances that they moved, and the bounds of the weight of
        the other patterns, (T,).
    """
    is_candidate = slots >= 0  # (T, C)
    x = ops.take(table, ops.maximum(slots, 0), axis=0)
    x = ops.cast(x, states.dtype)  # (T, C, D)
    z = ops.matmul(x, ops.expand_dims(states, 2))[:, :, 0]
    z = ops.cast(beta, states.dtype) * z  # (T, C)
    weights = normalizers.softmax(z, is_candidate)
    new = ops.matmul(ops.expand_dims(weights, 1), x)[:, 0]  # (T, D)
    new = ops.where(ops.expand_dims(moving, 1), new, states)
    moved = ops.sqrt(ops.sum((new - states) ** 2, axis=-1))
    # Relative to e^z of the most similar candidate:
    z = normalizers.hide(z, is_candidate)
    top = ops.max(z, axis=1, keepdims=True)
    total = ops.sum(ops.exp(z - top), axis=1)
    lowest = ops.min(ops.where(is_candidate, z, top), axis=1)
    left = ops.cast(others, states.dtype) * ops.exp(lowest - top[:, 0])
    return new, moved, left / (total + left)


@functools.cache
def compiled_update() -> Callable[..., Any]:
    """Returns the compiled `candidate_update`."""
    return kernels.compiled(candidate_update, (), False)
