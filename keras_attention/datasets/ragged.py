"""Helpers for sequences of unequal length."""

from collections.abc import Sequence

import numpy as np

Seed = int | Sequence[int] | np.random.SeedSequence | np.random.Generator
Range = int | tuple[int, int]


def span(value: Range, name: str, least: int = 1) -> tuple[int, int]:
    """Converts a number or a (minimum, maximum) range to a pair.

    Raises:
        ValueError: a number is below `least`, or the minimum exceeds the maximum.
    """
    pair = tuple(value) if isinstance(value, Sequence) else (value, value)
    if len(pair) != 2 or not least <= pair[0] <= pair[1]:
        raise ValueError(
            f"`{name}` must be a number of at least {least}, or the least and the "
            f"greatest. Received: {name}={value}"
        )
    return int(pair[0]), int(pair[1])


def at_least_one(**sizes: int) -> None:
    """Raises a ValueError for sizes below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {name}={size}")


def places(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the row and the column of each element of rows of the given sizes."""
    row = np.repeat(np.arange(len(sizes)), sizes)
    return row, np.arange(len(row)) - (np.cumsum(sizes) - sizes)[row]


def padded(rows: Sequence[Sequence[int]], width: int) -> np.ndarray:
    """Pads N rows of at most `width` indices with 0 to (N, `width`) int32."""
    table = np.zeros((len(rows), width), np.int32)
    for row, indices in zip(table, rows, strict=True):
        row[: len(indices)] = indices
    return table


def steps_for(lengths: np.ndarray, steps: int | None) -> int:
    """Returns T: the requested steps, or the length of the longest sequence.

    Raises:
        ValueError: if the longest sequence does not fit.
    """
    longest = int(lengths.max())
    if steps is None:
        return longest
    if steps < longest:
        raise ValueError(
            f"`steps` must hold the longest sequence, of {longest}. "
            f"Received: steps={steps}"
        )
    return steps


def empty_sequences(
    lengths: np.ndarray, inputs: int, outputs: int, steps: int | None
) -> dict[str, np.ndarray]:
    """Creates arrays of zeros for sequences with the given numbers of steps."""
    shape = (len(lengths), steps_for(lengths, steps))
    return {
        "inputs": np.zeros((*shape, inputs), np.float32),
        "answer_mask": np.zeros(shape, bool),
        "targets": np.zeros((*shape, outputs), np.float32),
        "lengths": lengths.astype(np.int32),
    }
