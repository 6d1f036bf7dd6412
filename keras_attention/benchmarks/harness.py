"""How times are compared: interleaved pairs, null runs, floors, verdicts.

Ours and theirs run in turns, ABBA (ours theirs, theirs ours, …), so that a
machine that slows down slows both. Each pair gives one ratio, theirs over
ours; its median says how many times as fast ours is. The same with ours
against itself, the A/A null run, says what ratios the noise of this machine
alone makes. Only a ratio that stands clear of those is called a difference.

Nothing here knows a backend.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

SEED = 1302  # of the inputs, the weights and the resampling
WARM_UPS = 5
MIN_PAIRS = 15
RESAMPLES = 2000
FASTER, SAME, SLOWER = "faster", "same within noise", "slower"


class NumericsError(ArithmeticError):
    """Ours and theirs do not compute the same, so their times mean nothing."""


@dataclass(frozen=True)
class Step:
    """A part of a case's work, for the floor.

    Attributes:
        flops: Operations, a multiplication and an addition counted as two.
        bytes: Bytes that must be read or written at least once.
        product: (batch, rows, inner, columns) of the matrix product that does
            these operations, at whose rate they are charged; None where they
            are no product and cost their bytes alone.
    """

    flops: float
    bytes: float
    product: tuple[int, int, int, int] | None = None


@dataclass(frozen=True)
class Contestants:
    """What a case lets run against each other, ready to be called.

    Attributes:
        calls: Functions without arguments by name, ours under "ours". Each
            returns its result, a tensor or a (nested) dict or list of them.
        check: A function that returns, for each peer, the largest difference
            from ours, and raises `NumericsError` where it is too large. By
            default the results of one call each are compared.
        memory: Functions that return a compiled call's scratch bytes, by name,
            where the compiler tells.
    """

    calls: Mapping[str, Callable[[], Any]]
    check: Callable[[], dict[str, float]] | None = None
    memory: Mapping[str, Callable[[], int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One thing to time, at one size.

    Attributes:
        name: The name on the command line; many sizes share it.
        sizes: What tells this case from others of its name.
        make: Given the backend's name, builds the contestants.
        steps: The work at the least, for the floor.
        tolerance: How far results may differ, relative to the largest of
            theirs or to 1, whichever is more.
        quick: Whether the case is part of a quick run.
        needs: Modules that peers need besides the backend.
        backends: Those on which the case says something of its own.
    """

    name: str
    sizes: Mapping[str, int | str]
    make: Callable[[str], Contestants]
    steps: tuple[Step, ...]
    tolerance: float
    quick: bool = False
    needs: tuple[str, ...] = ()
    backends: tuple[str, ...] = ("jax", "torch", "tensorflow")

    @property
    def flops(self) -> float:
        """All operations of one call."""
        return sum(step.flops for step in self.steps)

    @property
    def bytes(self) -> float:
        """All bytes one call must move."""
        return sum(step.bytes for step in self.steps)

    @property
    def label(self) -> str:
        """Name and sizes in one line."""
        return " ".join([self.name, *(f"{k}={v}" for k, v in self.sizes.items())])


@dataclass(frozen=True)
class Spread:
    """How ratios spread: percentiles, and a 95 % interval of their median."""

    median: float
    q1: float
    q3: float
    p5: float
    p95: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        """As a dict of floats."""
        return asdict(self)


def abba(pairs: int) -> Iterator[tuple[int, int]]:
    """The order within each pair, 0 for ours: (0, 1), (1, 0), (0, 1), …"""
    for pair in range(pairs):
        yield (0, 1) if pair % 2 == 0 else (1, 0)


def time_pairs(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    pairs: int,
    calls: tuple[int, int] = (1, 1),
    clock: Callable[[], float] = time.perf_counter,
    between: Callable[[], Any] | None = None,
) -> np.ndarray:
    """Times two functions in turns.

    Args:
        ours: A function that returns when its work is done.
        theirs: Another.
        pairs: How many times each is timed.
        calls: How many calls of each one timing spans.
        clock: Returns the time in seconds.
        between: What is done before each timing, and not timed; or None.

    Returns:
        Seconds a call, (pairs, 2): ours, theirs.
    """
    contestants = (ours, theirs)
    seconds = np.empty((pairs, 2))
    for pair, order in enumerate(abba(pairs)):
        for which in order:
            if between is not None:
                between()
            start = clock()
            for _ in range(calls[which]):
                contestants[which]()
            seconds[pair, which] = (clock() - start) / calls[which]
    return seconds


def calls_to_last(seconds_a_call: float, at_least: float) -> int:
    """How many calls one timing must span to last `at_least` seconds."""
    return max(1, math.ceil(at_least / max(seconds_a_call, 1e-9)))


def pair_ratios(seconds: np.ndarray) -> np.ndarray:
    """Theirs over ours, pair by pair, from what `time_pairs` returns."""
    return seconds[:, 1] / seconds[:, 0]


def spread(ratios: Sequence[float] | np.ndarray, seed: int = SEED) -> Spread:
    """Percentiles of the ratios and a bootstrap interval of their median.

    Args:
        ratios: One a pair.
        seed: Of the resampling.

    Returns:
        A `Spread`; `low` and `high` hold 95 % of the medians of samples drawn
        from the ratios with replacement.
    """
    ratios = np.asarray(ratios, dtype="float64")
    generator = np.random.default_rng(seed)
    samples = generator.choice(ratios, size=(RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(samples, axis=1), [2.5, 97.5])
    p5, q1, median, q3, p95 = np.percentile(ratios, [5, 25, 50, 75, 95])
    numbers = (median, q1, q3, p5, p95, low, high)
    return Spread(*(float(number) for number in numbers))


def verdict(ratio: Spread, null: Spread) -> str:
    """Whether ours is faster, slower, or the same within noise.

    There is a difference if the interval of the median ratio lies wholly above
    or wholly below both 1 and the interval of the null run's median.
    """
    if ratio.low > max(null.high, 1.0):
        return FASTER
    if ratio.high < min(null.low, 1.0):
        return SLOWER
    return SAME


def floor_seconds(
    steps: Sequence[Step],
    product_rate: Callable[[tuple[int, int, int, int]], float],
    copy_rate: Callable[[float], float],
) -> float:
    """The least time the steps could take: Σ max(flops/rate, bytes/rate).

    Args:
        steps: The work.
        product_rate: Operations a second of a matrix product of given shape.
        copy_rate: Bytes a second of a copy of a given number of bytes.

    Returns:
        Seconds.
    """
    total = 0.0
    for step in steps:
        compute = step.flops / product_rate(step.product) if step.product else 0.0
        move = step.bytes / copy_rate(step.bytes) if step.bytes else 0.0
        total += max(compute, move)
    return total


def largest_difference(
    ours: Mapping[str, np.ndarray],
    theirs: Mapping[str, np.ndarray],
    tolerance: float,
) -> float:
    """Compares two results by name, where both hold the name.

    Args:
        ours: Arrays by name.
        theirs: Arrays by name; it may lack some (a fused peer has no weights).
        tolerance: See `Case`.

    Returns:
        The largest difference, relative to theirs or to 1.

    Raises:
        NumericsError: If they differ by more than the tolerance, in shape, or
            if they have no name in common.
    """
    common = sorted(set(ours) & set(theirs))
    if not common:
        raise NumericsError(
            f"nothing to compare: {sorted(ours)} against {sorted(theirs)}"
        )
    worst = 0.0
    for name in common:
        mine, other = np.asarray(ours[name]), np.asarray(theirs[name])
        if mine.shape != other.shape:
            raise NumericsError(
                f"`{name}` has shape {mine.shape}, theirs {other.shape}"
            )
        scale = max(1.0, float(np.max(np.abs(other), initial=0.0)))
        difference = float(np.max(np.abs(mine - other), initial=0.0)) / scale
        if not difference <= tolerance:  # also if it is NaN
            raise NumericsError(
                f"`{name}` differs by {difference:.3g}, more than {tolerance:.3g}"
            )
        worst = max(worst, difference)
    return worst
