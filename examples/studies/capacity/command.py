"""Measures the capacity of associative memories and compares it with theory.

    python examples/studies/capacity --json runs.json --plot capacity.png

An `AssociativeMemory` stores random patterns of −1 and 1. Then each pattern is a query.
One synchronous update follows, and the flipped bits are counted. For the classical and
the polynomial memory, the theory assumes that the crosstalk of the other patterns has a
normal distribution (`ops.retrieval.bit_error` for many neurons; `expected` for a finite
number). In the exponential memory, a bit flips for one of two stored patterns that
differ only in this bit.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import time
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention.models import AssociativeMemory
from keras_attention.ops.hopfield import retrieval
from studies import reports
from studies.command_line import UsageError

SEED = 1982
MOST = 400  # maximum number of pattern sets per point


class Point(NamedTuple):
    """A memory with a given number of patterns.

    Attributes:
        name: the name of its curve.
        kind: the kind of memory.
        dim: d, the number of neurons. It can be a fraction on the theoretical curve of
            the exponential memory.
        degree: n of the polynomial memory; 2 for the classical memory.
        patterns: K, the number of stored patterns. It can be a fraction on theoretical
            curves.
    """

    name: str
    kind: str
    dim: Any
    degree: int
    patterns: Any


CURVES = (  # (kind, d, n, K, …)
    ("classical", 100, 2, (10, 14, 20, 30, 50, 80)),
    ("polynomial", 100, 3, (300, 500, 800, 1500)),
    ("polynomial", 40, 4, (400, 800, 1500, 2500)),
)
POINTS = [
    Point(f"{kind}, n = {n}, d = {d}", kind, d, n, count)
    for kind, d, n, counts in CURVES
    for count in counts
]
POINTS += [
    Point("exponential, d = 12 … 24", "exponential", d, 0, 2 ** (d // 2))
    for d in (12, 16, 20, 24)
]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `capacity`."""
    add = parser.add_argument
    add("--bits", type=int, default=200_000, help="bits looked at, at least, a point")
    add("--json", type=pathlib.Path, help="where to write the results")
    add("--plot", type=pathlib.Path, help="where to draw them (needs matplotlib)")


def main(args: argparse.Namespace) -> int:
    """Measures all points, prints the table and writes the requested files."""
    if args.bits < 1:
        raise UsageError(f"--bits must be at least 1. Received: {args.bits}")
    start, cpu = time.perf_counter(), time.process_time()
    runs = [measure(point, args.bits) for point in POINTS]
    print(table(runs))
    results = {
        **reports.head("capacity"),
        "seed": SEED,
        "backend": keras.config.backend(),
        "bits": args.bits,
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "runs": runs,
    }
    print(f"{results['seconds']} s, of the processors {results['cpu_seconds']} s")
    if args.json:
        text = json.dumps(results, indent=1)
        args.json.write_text(text + "\n", encoding="utf-8")
    if args.plot:
        from studies.capacity.picture import plot_capacity

        plot_capacity(series(runs), **LABELS).savefig(args.plot, dpi=160)
    return 0


def measure(point: Point, bits: int) -> dict[str, Any]:
    """Measures the share of wrong bits over several random pattern sets.

    Args:
        point: the memory to measure.
        bits: the least number of bits to check. At most `MOST` pattern sets are used.

    Returns:
        The fields of the point; "draws", the number of pattern sets; "wrong", the share
        of wrong bits; "error", the standard error of this share; "expected", the
        expected share; and "limit", the expected share for many neurons, or None for
        the exponential memory.
    """
    # Errors within a pattern set are correlated; the sets are independent.
    draws = min(MOST, max(8, -(-bits // (point.patterns * point.dim))))
    rng = np.random.default_rng([SEED, point.dim, point.degree, point.patterns])
    memory = AssociativeMemory(
        point.kind, degree=max(point.degree, 2), order="synchronous"
    )
    wrong = np.empty(draws)
    for draw in range(draws):
        patterns = rng.choice([-1.0, 1.0], (point.patterns, point.dim))
        patterns = patterns.astype("float32")
        memory.forget()
        memory.store(patterns)
        found = ops.convert_to_numpy(memory.retrieve(patterns, steps=1))
        wrong[draw] = np.mean(found != patterns)
    limit = None
    if point.kind != "exponential":
        limit = retrieval.bit_error(point.dim, point.patterns, point.degree)
    return {
        **point._asdict(),
        "draws": draws,
        "wrong": float(wrong.mean()),
        "error": float(wrong.std(ddof=1) / draws**0.5),
        "expected": expected(point),
        "limit": limit,
    }


def expected(point: Point) -> float:
    """Returns the expected share of wrong bits for a finite number of neurons.

    Bit j of a pattern flips if G(d − 1) + Σᵢ ±G(hᵢ) < 0. The sum is over the other
    K − 1 patterns, G(h) = (h + 1)ⁿ − (h − 1)ⁿ, and hᵢ is a sum of d − 1 random signs.
    The sum is assumed to be normally distributed. For n = 2, it changes in steps of
    2 · G(1), and the bit does not flip if the left side is 0.
    """
    dim, degree, others = point.dim, point.degree, point.patterns - 1
    if point.kind == "exponential":
        return others / 2 ** (dim + 1)
    h = np.arange(-(dim - 1), dim, 2.0)
    share = np.array([math.comb(dim - 1, n) / 2 ** (dim - 1) for n in range(dim)])
    growth = (h + 1) ** degree - (h - 1) ** degree
    spread = math.sqrt(others * float(share @ growth**2))
    signal = float(growth[-1]) + (4.0 if degree == 2 else 0.0)
    return math.erfc(signal / spread / math.sqrt(2)) / 2


def table(runs: list[dict[str, Any]]) -> str:
    """Formats a row per point."""
    rows = []
    for run in runs:
        wrong, error, theory = (run[name] for name in ("wrong", "error", "expected"))
        cells = [f"{wrong:.5f} ± {error:.5f}", f"{theory:.5f}"]
        is_exponential = run["kind"] == "exponential"  # its curve has a size per point
        name = f"exponential, d = {run['dim']}" if is_exponential else run["name"]
        rows.append([name, f"{run['patterns']:,}", *cells])
    return reports.table(["memory", "patterns", "wrong bits", "expected"], rows)


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the table of docs/results/hopfield.md."""
    return {"capacity": table(raw["capacity"]["runs"])}


LABELS = {
    "x_label": "patterns stored",
    "y_label": "share of bits that flip in one update",
    "title": "Points: measured, with standard errors. Lines: theory.",
}


def series(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the curves of the runs for `plot_capacity`."""
    found = []
    for name in dict.fromkeys(run["name"] for run in runs):
        own = [run for run in runs if run["name"] == name]
        one: dict[str, Any] = {"name": name}
        one["x"] = [run["patterns"] for run in own]
        one["y"] = [round(run["wrong"], 6) for run in own]
        one["error"] = [round(run["error"], 6) for run in own]
        first = Point(*(own[0][field] for field in Point._fields))
        counts = np.geomspace(one["x"][0], one["x"][-1], 25)
        if first.kind == "exponential":  # d grows with the number of patterns
            curve = [first._replace(dim=2 * math.log2(k), patterns=k) for k in counts]
        else:
            curve = [first._replace(patterns=k) for k in counts]
        one["curve_x"] = [round(float(k), 1) for k in counts]
        one["curve_y"] = [round(float(expected(point)), 6) for point in curve]
        found.append(one)
    return found
