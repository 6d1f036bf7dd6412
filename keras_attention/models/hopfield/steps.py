"""The computations of `AssociativeMemory`, in blocks of states.

Shapes: T states, C candidates of a state, N patterns, P rows of the pattern table, D
width.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.models.base.vector_index import (
    CandidateIndex,
    checked_candidates,
)
from keras_attention.numerics import masks, normalizers, thresholds
from keras_attention.ops import scores
from keras_attention.ops.hopfield import energy, retrieval, streaming

Tensor = Any
Stored = tuple[Tensor, Any, Any]  # the table (P, D), the number of patterns and β

BLOCK = 64  # states computed at a time
NUMBERS = 2**22  # of candidates' patterns that are gathered at a time
LEAST = 8  # the smallest number of candidates in a compiled function
NO_WORDS = np.zeros(0, "int64")
# The table that the patterns of an index were last compared with.
_checked: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


class Trajectory(NamedTuple):
    """The states of queries during a retrieval, as NumPy arrays.

    Attributes:
        states: (K + 1, ..., T, D), the queries and their states after each of K steps.
        energies: (K + 1, ..., T), the energies of these states.
        steps: int (..., T), the number of steps until each query converged, or K.
        at_rest: bool (..., T), whether a query converged: its last step was within the
            tolerance.
    """

    states: np.ndarray
    energies: np.ndarray
    steps: np.ndarray
    at_rest: np.ndarray


class Equations(NamedTuple):
    """The equations of a memory with these settings.

    Each function takes states (T, D), and the table, the number of its first rows that
    are patterns, and β in a tuple.
    """

    kind: str
    normalizer: str
    similarity: str
    degree: int
    order: str
    chunk: int
    mesh: Any = None  # of the devices that hold the rows of the table, or None
    axis: str = "model"

    @property
    def streams(self) -> bool:
        """Whether a step stores the scores of only one chunk."""
        return self.kind == "modern" and self.normalizer in streaming.NORMALIZERS

    def step(
        self, states: Tensor, moving: Tensor, stored: Stored
    ) -> tuple[Tensor, Tensor]:
        """Returns the next states (T, D) and the distances that they moved, (T,).

        Only the states that are `moving`, booleans (T,), are updated.
        """
        new = self.update(states, stored)
        new = ops.where(ops.expand_dims(moving, -1), new, states)
        return new, ops.sqrt(ops.sum((new - states) ** 2, axis=-1))

    def update(self, states: Tensor, stored: Stored) -> Tensor:
        """Takes one step for all states."""
        table, count, beta = stored
        kind, normalizer, similarity, degree, order, *chunk = self
        if kind != "modern":
            patterns = ops.cast(table, states.dtype)
            return energy.neurons_update(states, patterns, kind, order, degree)
        if self.streams:
            names = normalizer, similarity
            return streaming.streamed_update(states, *stored, *names, *chunk)
        separate: str | Callable = normalizer
        if self.mesh is not None:
            separate = thresholds.KNOWN[normalizer]
        beta, is_pattern = ops.cast(beta, states.dtype), is_valid(table, count)
        return energy.hopfield_update(
            states, table, beta, separate, similarity, is_pattern
        )

    def energy(self, states: Tensor, first_row: Any, stored: Stored) -> Tensor:
        """Computes the energies, (T,)."""
        table, count, beta = stored
        if self.kind == "classical":
            return energy.classical_energy(states, table)
        if self.kind == "polynomial":
            return energy.polynomial_energy(states, table, self.degree)
        if self.kind == "exponential":
            return energy.exponential_energy(states, table)
        beta, is_pattern = ops.cast(beta, states.dtype), is_valid(table, count)
        return energy.hopfield_energy(
            states, table, beta, self.normalizer, self.similarity, is_pattern
        )

    def size(
        self, states: Tensor, first_row: Any, stored: Stored, mass: float
    ) -> Tensor:
        """Computes the metastable sizes, int32 (T,)."""
        table, count, beta = stored
        beta, is_pattern = ops.cast(beta, states.dtype), is_valid(table, count)
        *_, similar = energy.scaled_similarities(
            states, table, beta, self.similarity, is_pattern
        )  # (T, P)
        weights = normalizers.get(self.normalizer)(similar, is_pattern)
        return retrieval.metastable_size(weights, mass)

    def separation(self, states: Tensor, first_row: Any, stored: Stored) -> Tensor:
        """Computes Δ (T,) of `states`, the patterns from row `first_row` on."""
        table, count, _ = stored
        similar = scores.dot(states, ops.cast(table, states.dtype))  # (T, P)
        column = ops.expand_dims(masks.positions(table.shape[0]), 0)
        row = masks.positions(states.shape[0]) + ops.cast(first_row, "int32")
        others = ops.logical_and(
            is_valid(table, count), ops.not_equal(column, ops.expand_dims(row, 1))
        )
        nearest = ops.max(ops.where(others, similar, float("-inf")), axis=-1)
        return ops.sum(states**2, axis=-1) - nearest

    def by_blocks(
        self, name: str, states: Tensor, stored: Stored, *options: Any
    ) -> Tensor:
        """Applies "energy", "size" or "separation" to blocks of states; returns (T,).

        The options are the further arguments of the function, static numbers.
        """
        count, function = states.shape[0], compiled(self, name, *options)
        size = block_size(count, stored[0].shape[0])
        results = [
            function(padded(part, size), i * size, stored)
            for i, part in enumerate(parts(states, size))
        ]
        if not results:
            return ops.zeros((0,), states.dtype)
        return ops.concatenate(results)[:count]


@functools.cache
def compiled(equations: Equations, name: str, *options: Any) -> Callable:
    """Returns the compiled method `name`, one for all memories with equal settings."""
    function, with_xla = getattr(equations, name), name == "step" and equations.streams
    return kernels.compiled(lambda *args: function(*args, *options), (), with_xla)


def iterate_states(
    step: Callable,
    stored: Stored,
    queries: Tensor,
    size: int,
    limit: int,
    tolerance: float | None,
) -> Iterator[Tensor]:
    """Repeats `step` on queries (T, D); yields them and the states of each step.

    Args:
        step: the compiled step of `Equations`, or a `CandidateStep`.
        stored: the table, count and β.
        queries: (T, D).
        size: the number of states in the compiled step, at least the number of queries.
        limit: the maximum number of steps.
        tolerance: the largest movement that counts as converged; None takes all steps.
    """
    count = queries.shape[0]
    states, moving = padded(queries, size), np.arange(size) < count
    yield queries
    for _ in range(limit):
        states, moved = step(states, ops.convert_to_tensor(moving), stored)
        yield states if count == size else states[:count]
        if tolerance is not None:
            moving = moving & (as_numpy(moved) > tolerance)
            if not moving.any():
                return


def concatenate_trajectories(trajectories: Sequence[Iterable[Tensor]]) -> np.ndarray:
    """Concatenates trajectories of blocks to (K + 1, T, D); the last states repeat."""
    blocks = [np.stack([*map(as_numpy, states)]) for states in trajectories]
    longest = max(map(len, blocks))
    repeats = [((0, longest - len(x)), (0, 0), (0, 0)) for x in blocks]
    return np.concatenate(
        [np.pad(x, room, "edge") for x, room in zip(blocks, repeats)], axis=1
    )


def trajectory(
    states: np.ndarray, energies: np.ndarray, tolerance: float, shape: tuple[int, ...]
) -> Trajectory:
    """Builds a `Trajectory` from states (K + 1, T, D) and energies (K + 1, T)."""
    moved = np.linalg.norm(np.diff(states, axis=0), axis=-1)  # (K, T)
    rests = np.concatenate([moved <= tolerance, np.ones_like(states[:1, :, 0], bool)])
    at_rest = rests[:-1][-1:].any(0)  # (T,)
    steps = np.minimum(rests.argmax(0) + 1, len(moved))
    return Trajectory(
        states.reshape(len(states), *shape),
        energies.reshape(len(states), *shape[:-1]),
        steps.reshape(shape[:-1]),
        at_rest.reshape(shape[:-1]),
    )


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
        self.limit = at_least_zero("max_left_out", max_left_out)
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
        self, states: Tensor, moving: Tensor, stored: Stored
    ) -> tuple[Tensor, Tensor]:
        """Returns the next states (T, D) and the distances that they moved, (T,).

        Raises:
            ValueError: if the candidates may leave out too much weight.
        """
        new, moved, left_out, fewest = self.run(states, as_numpy(moving), stored)
        worst = left_out.max(initial=0.0)
        if worst > self.limit:
            _, count, beta = stored
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

    def run(
        self, states: Tensor, moving: np.ndarray, stored: Stored
    ) -> tuple[Tensor, Tensor, np.ndarray, int]:
        """Takes a step of states (T, D) without a limit.

        Returns:
            The next states; the distances that they moved; the bounds of the left-out
            weight, float32 (T,); and the smallest number of candidates.
        """
        slots = self._slots(as_numpy(states).astype("float32"), moving)  # (T, C)
        counts = (slots >= 0).sum(1)
        others = np.where(moving, self.index.size - counts, 0).astype("float32")
        rows = max(NUMBERS // (slots.shape[1] * states.shape[1]), 1)
        rows = min(1 << rows.bit_length() - 1, len(slots))
        results = []
        for i, part in enumerate(parts(states, rows)):
            here = slice(i * rows, (i + 1) * rows)
            arrays = slots[here], moving[here], others[here]
            tensors = map(ops.convert_to_tensor, arrays)
            results.append(compiled_update(part, *tensors, stored[0], stored[2]))
        new, moved, left_out = (
            column[0] if len(column) == 1 else ops.concatenate(column)
            for column in zip(*results)
        )
        return new, moved, as_numpy(left_out), int(counts[moving].min(initial=10**18))

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
    left_out = ops.cast(others, states.dtype) * ops.exp(lowest - top[:, 0])
    return new, moved, left_out / (total + left_out)


compiled_update = kernels.compiled(candidate_update, (), False)


def as_numpy(x: Tensor) -> np.ndarray:
    """Converts a tensor to NumPy; half precision becomes float32."""
    array = np.asarray(ops.convert_to_numpy(x))
    return array.astype("float32") if array.dtype.itemsize == 2 else array


def is_valid(table: Tensor, count: Any) -> Tensor:
    """Returns booleans (1, P), True for rows of a table (P, D) that are patterns."""
    is_pattern = masks.positions(table.shape[0]) < ops.cast(count, "int32")
    return ops.expand_dims(is_pattern, 0)


def block_size(count: int, rows: int, streams: bool = False) -> int:
    """Returns how many of `count` states to compute at a time, a power of two.

    Args:
        count: the number of states.
        rows: the number of rows of the table.
        streams: whether the scores of all rows are never stored together.
    """
    most = BLOCK
    if not streams:
        most = min(BLOCK, 1 << max(streaming.SCORES // rows, 1).bit_length() - 1)
    return min(most, 1 << max(count - 1, 0).bit_length())


def parts(states: Tensor, size: int) -> list[Tensor]:
    """Splits states (T, D) into blocks. A single block is returned without a copy."""
    count = states.shape[0]
    if count == size:
        return [states]
    return [states[i : i + size] for i in range(0, count, size)]


def padded(states: Tensor, size: int) -> Tensor:
    """Pads states (T, D) to (size, D) with copies of the first state."""
    missing = size - states.shape[0]
    if not missing:
        return states
    return ops.concatenate([states, ops.repeat(states[:1], missing, axis=0)])


def at_least_zero(name: str, value: Any) -> float:
    """Returns a non-negative number; raises a ValueError otherwise."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and value >= 0):
        raise ValueError(
            f"`{name}` must be a number of at least 0. Received: {name}={value!r}"
        )
    return float(value)
