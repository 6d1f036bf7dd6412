"""Comparison of run times: interleaved pairs, null runs, floors, verdicts.

Our function ("ours") and the peer's function ("theirs") are called alternately in ABBA
order (ours theirs, theirs ours, …). A slowdown of the machine thus affects both
functions. Each pair of times gives one ratio, theirs over ours. The median ratio is our
speedup. In the null run (A/A), our function is compared with itself, which shows the
noise of the machine. Only a ratio clearly outside this noise counts as a difference.
The module does not depend on a backend.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

SEED = 1302  # seed of the inputs, the weights and the resampling
WARM_UPS = 5
MIN_PAIRS = 15
RESAMPLES = 2000
FASTER, SAME, SLOWER = "faster", "same within noise", "slower"


class NumericsError(ArithmeticError):
    """Ours and theirs compute different results, so their times are not comparable."""


@dataclass(frozen=True)
class Step:
    """A part of a case's work, for the floor.

    Attributes:
        flops: Number of operations; a multiplication with an addition counts as two.
        bytes: Minimum number of bytes that are read or written.
        product: (batch, rows, inner, columns) of the matrix product whose rate applies.
            None if the operations are not a matrix product; then only the bytes count.
    """

    flops: float
    bytes: float
    product: tuple[int, int, int, int] | None = None


@dataclass(frozen=True)
class Contestants:
    """The functions that a case compares.

    Attributes:
        calls: Functions without arguments, by name. Our function has the name "ours".
            Each function returns a tensor or a nested dict or list of tensors.
        check: A function that returns, for each peer, the largest difference from our
            result. It raises `NumericsError` if a difference is too large. By default,
            each function is called once, and the results are compared.
        memory: Functions by name. Each returns the scratch bytes of a compiled call,
            if the compiler reports them.
    """

    calls: Mapping[str, Callable[[], Any]]
    check: Callable[[], dict[str, float]] | None = None
    memory: Mapping[str, Callable[[], int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A benchmark case at one size.

    Attributes:
        name: The name on the command line, shared by all sizes.
        sizes: The sizes that identify this case among cases with the same name.
        make: A function that builds the `Contestants` for the name of a backend.
        steps: The minimum work, for the floor.
        tolerance: Maximum difference between the results, relative to the largest
            magnitude in the peer's result or to 1, whichever is larger.
        quick: Whether a quick run includes the case.
        needs: Modules that peers need in addition to the backend.
        backends: The backends on which the case is meaningful.
        amount: How many of what a call processes, for instance (1024, "tokens"); None
            if the time is what a user wants to know.
    """

    name: str
    sizes: Mapping[str, int | str]
    make: Callable[[str], Contestants]
    steps: tuple[Step, ...]
    tolerance: float
    quick: bool = False
    needs: tuple[str, ...] = ()
    backends: tuple[str, ...] = ("jax", "torch", "tensorflow")
    amount: tuple[int, str] | None = None

    @property
    def flops(self) -> float:
        """Returns the number of operations of one call."""
        return sum(step.flops for step in self.steps)

    @property
    def bytes(self) -> float:
        """Returns the number of bytes that one call must move."""
        return sum(step.bytes for step in self.steps)

    @property
    def label(self) -> str:
        """Returns the name and the sizes as one line."""
        return " ".join([self.name, *(f"{k}={v}" for k, v in self.sizes.items())])


@dataclass(frozen=True)
class Spread:
    """The spread of ratios: percentiles and a 95 % interval of their median."""

    median: float
    q1: float
    q3: float
    p5: float
    p95: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        """Returns the fields as a dict of floats."""
        return asdict(self)


def abba(pairs: int) -> Iterator[tuple[int, int]]:
    """Yields the order of each pair, with 0 for ours: (0, 1), (1, 0), (0, 1), …"""
    for pair in range(pairs):
        yield (0, 1) if pair % 2 == 0 else (1, 0)


def time_pairs(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    pairs: int,
    calls: tuple[int, int] = (1, 1),
    clock: Callable[[], Any] = time.perf_counter,
    between: Callable[[], Any] | None = None,
) -> np.ndarray:
    """Measures the times of two functions in alternation.

    Args:
        ours: A function that blocks until its work is done.
        theirs: The peer's function. It blocks in the same way.
        pairs: Number of timings of each function.
        calls: Number of calls per timing, of ours and of theirs.
        clock: Returns the time in seconds, or an array with that of several clocks.
        between: An untimed function to call before each timing, or None.

    Returns:
        Seconds per call, (pairs, 2). Column 0 is ours, column 1 is theirs. A last axis
        has several clocks.
    """
    contestants = (ours, theirs)
    seconds: list[list[Any]] = [[None, None] for _ in range(pairs)]
    for pair, order in enumerate(abba(pairs)):
        for which in order:
            if between is not None:
                between()
            start = clock()
            for _ in range(calls[which]):
                contestants[which]()
            seconds[pair][which] = (clock() - start) / calls[which]
    return np.array(seconds)


def calls_to_last(seconds_a_call: float, at_least: float) -> int:
    """Returns the number of calls that together take at least `at_least` seconds."""
    return max(1, math.ceil(at_least / max(seconds_a_call, 1e-9)))


def pair_ratios(seconds: np.ndarray) -> np.ndarray:
    """Returns theirs over ours for each pair, from the output of `time_pairs`."""
    return seconds[:, 1] / seconds[:, 0]


def spread(ratios: Sequence[float] | np.ndarray, seed: int = SEED) -> Spread:
    """Returns percentiles of the ratios and a bootstrap interval of their median.

    Args:
        ratios: One ratio per pair.
        seed: Seed for the resampling.

    Returns:
        A `Spread`. 95 % of the bootstrap medians lie between `low` and `high`.
    """
    ratios = np.asarray(ratios, dtype="float64")
    generator = np.random.default_rng(seed)
    samples = generator.choice(ratios, size=(RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(samples, axis=1), [2.5, 97.5])
    p5, q1, median, q3, p95 = np.percentile(ratios, [5, 25, 50, 75, 95])
    numbers = (median, q1, q3, p5, p95, low, high)
    return Spread(*(float(number) for number in numbers))


def verdict(ratio: Spread, null: Spread) -> str:
    """Returns whether ours is faster, slower, or the same within noise.

    Ours is faster if the interval of the median ratio is entirely above 1 and above the
    interval of the null run's median. It is slower if the interval is below both.
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
    """Returns the minimum time of the steps: Σ max(flops/rate, bytes/rate).

    Args:
        steps: The steps of the work.
        product_rate: Operations per second of a matrix product of given shape.
        copy_rate: Bytes per second of a copy of a given number of bytes.

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
    """Compares the arrays that two results have under the same names.

    Args:
        ours: Arrays by name.
        theirs: Arrays by name. Some of them may be missing; a fused peer, for example,
            returns no attention weights.
        tolerance: See `Case`.

    Returns:
        The largest difference, relative to the largest magnitude in the array of
        `theirs` or to 1, whichever is larger.

    Raises:
        NumericsError: If two arrays differ in shape or by more than the tolerance, or
            if no name is common.
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
        if not difference <= tolerance:  # also true for NaN
            raise NumericsError(
                f"`{name}` differs by {difference:.3g}, more than {tolerance:.3g}"
            )
        worst = max(worst, difference)
    return worst
