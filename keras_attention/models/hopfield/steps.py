"""The computations of `AssociativeMemory`, in blocks of states.

Shapes: T states, P rows of the pattern table, D width.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.models.hopfield.trajectory import Trajectory
from keras_attention.numerics import masks, normalizers, thresholds
from keras_attention.ops import scores
from keras_attention.ops.hopfield import binary_energy, energy, retrieval, streaming
from keras_attention.ops.hopfield.patterns import nearness

Tensor = Any


BLOCK = 64  # states computed at a time


class Settings(NamedTuple):
    """The settings that determine the equations of a memory."""

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


class Equations:
    """The compiled functions for one `Settings`, shared by all memories that use it.

    Each function takes states (T, D) and the table. The first `count` rows of the table
    are patterns.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.compiled_step = kernels.compiled(self.step, (), settings.streams)
        self._compiled: dict[str, Callable] = {}

    def rows(self, places: int, streams: bool = False) -> int:
        """Returns the number of states per block for a table of `places` rows."""
        if streams:
            return BLOCK
        return max(1, min(BLOCK, _below(streaming.SCORES // places)))

    def step(
        self, states: Tensor, moving: Tensor, table: Tensor, count: Any, beta: Any
    ) -> tuple[Tensor, Tensor]:
        """Returns the next states (T, D) and the distances that they moved, (T,).

        Only the states that are `moving`, booleans (T,), are updated.
        """
        new = self.update(states, table, count, beta)
        new = ops.where(ops.expand_dims(moving, -1), new, states)
        return new, ops.sqrt(ops.sum((new - states) ** 2, axis=-1))

    def update(self, states: Tensor, table: Tensor, count: Any, beta: Any) -> Tensor:
        """Takes one step for all states."""
        kind, normalizer, similarity, degree, order, *chunk = self.settings
        if kind != "modern":
            stored = ops.cast(table, states.dtype)
            return binary_energy.neurons_update(states, stored, kind, order, degree)
        names = normalizer, similarity
        if self.settings.streams:
            return streaming.streamed_update(states, table, count, beta, *names, *chunk)
        separate: str | Callable = normalizer
        if self.settings.mesh is not None:
            separate = thresholds.KNOWN[normalizer]
        beta, is_pattern = _like(beta, states), is_valid(table, count)
        return energy.hopfield_update(
            states, table, beta, separate, similarity, is_pattern
        )

    def energy(
        self, states: Tensor, first_row: Any, table: Tensor, count: Any, beta: Any
    ) -> Tensor:
        """Computes the energies, (T,)."""
        kind, normalizer, similarity, degree, *_ = self.settings
        if kind == "classical":
            return binary_energy.classical_energy(states, table)
        if kind == "polynomial":
            return binary_energy.polynomial_energy(states, table, degree)
        if kind == "exponential":
            return binary_energy.exponential_energy(states, table)
        beta, is_pattern = _like(beta, states), is_valid(table, count)
        return energy.hopfield_energy(
            states, table, beta, normalizer, similarity, is_pattern
        )

    def size(
        self,
        states: Tensor,
        first_row: Any,
        table: Tensor,
        count: Any,
        beta: Any,
        mass: Any,
    ) -> Tensor:
        """Computes the metastable sizes, int32 (T,)."""
        stored = ops.cast(table, states.dtype)
        if self.settings.similarity == "distance":
            similar = nearness(states, stored, is_valid(table, count))  # (T, P)
        elif self.settings.similarity == "cosine":
            similar = scores.cosine(states, stored)
        else:
            similar = scores.dot(states, stored)
        separate = normalizers.get(self.settings.normalizer)
        weights = separate(_like(beta, states) * similar, is_valid(table, count))
        return retrieval.metastable_size(weights, mass)

    def separation(
        self, states: Tensor, first_row: Any, table: Tensor, count: Any, beta: Any
    ) -> Tensor:
        """Computes Δ (T,) of `states`, the patterns from row `first_row` on."""
        similar = scores.dot(states, ops.cast(table, states.dtype))  # (T, P)
        column = ops.expand_dims(masks.positions(table.shape[0]), 0)
        row = masks.positions(states.shape[0]) + ops.cast(first_row, "int32")
        others = ops.logical_and(
            is_valid(table, count), ops.not_equal(column, ops.expand_dims(row, 1))
        )
        nearest = ops.max(ops.where(others, similar, float("-inf")), axis=-1)
        return ops.sum(states**2, axis=-1) - nearest

    def by_blocks(self, name: str, states: Tensor, *arguments: Any) -> Tensor:
        """Applies "energy", "size" or "separation" to blocks of states; returns (T,).

        The further arguments are the table, count, β and those of the function.
        """
        size = block_size(self.rows(arguments[0].shape[0]), states.shape[0])
        # The mass selects a Python branch, so it must be a static number.
        key, options = f"{name} {arguments[3:]}", arguments[3:]
        if key not in self._compiled:
            function = getattr(self, name)
            self._compiled[key] = kernels.compiled(
                lambda *args: function(*args, *options), (), False
            )
        results = [
            self._compiled[key](padded(part, size), i * size, *arguments[:3])
            for i, part in enumerate(parts(states, size))
        ]
        if not results:
            return ops.zeros((0,), states.dtype)
        return ops.concatenate(results)[: states.shape[0]]


@functools.cache
def equations(settings: Settings) -> Equations:
    """Returns the `Equations` for `settings`; equal settings share one object."""
    return Equations(settings)


def iterate_states(
    step: Callable,
    stored: tuple[Any, ...],
    queries: Tensor,
    size: int,
    limit: int,
    tolerance: float | None,
) -> Iterator[Tensor]:
    """Repeats `step` on queries (T, D); yields them and the states of each step.

    Args:
        step: the step of `Equations`.
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
        states, moved = step(states, ops.convert_to_tensor(moving), *stored)
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


def as_numpy(x: Tensor) -> np.ndarray:
    """Converts a tensor to NumPy; half precision becomes float32."""
    array = np.asarray(ops.convert_to_numpy(x))
    return array.astype("float32") if array.dtype.itemsize == 2 else array


def is_valid(table: Tensor, count: Any) -> Tensor:
    """Returns booleans (1, P), True for rows of a table (P, D) that are patterns."""
    is_pattern = masks.positions(table.shape[0]) < ops.cast(count, "int32")
    return ops.expand_dims(is_pattern, 0)


def block_size(maximum: int, count: int) -> int:
    """Returns the smallest power of two ≥ `count`, but at most `maximum`."""
    return min(maximum, 1 << max(count - 1, 0).bit_length())


def parts(states: Tensor, size: int) -> list[Tensor]:
    """Splits states (T, D) into blocks. A single block is returned without a copy."""
    count = states.shape[0]
    if count == size:
        return [states]
    return [states[i : i + size] for i in range(0, count, size)]


def shaped(x: Tensor, shape: tuple[Any, ...]) -> Tensor:
    """Reshapes x to `shape`. If both have rank 2, x already has this shape."""
    same = len(x.shape) == len(shape) == 2
    return x if same else ops.reshape(x, shape)


def padded(states: Tensor, size: int) -> Tensor:
    """Pads states (T, D) to (size, D) with copies of the first state."""
    missing = size - states.shape[0]
    if not missing:
        return states
    return ops.concatenate([states, ops.repeat(states[:1], missing, axis=0)])


def _like(beta: Any, states: Tensor) -> Tensor:
    return ops.cast(beta, states.dtype)


def _below(n: int) -> int:
    """Returns the largest power of two that is at most n."""
    return 1 << max(n, 1).bit_length() - 1
