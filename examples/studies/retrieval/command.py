"""Retrieval of half-hidden digits by a modern memory, in one step and at convergence.

    python examples/studies/retrieval --json results.json
    python examples/studies/retrieval --count 100 --json index.json

The memory stores MNIST test digits in random order, as 28 × 28 numbers from −1 to 1.
Each query is a digit with the lower half set to 0. β = b/28 = b/√d for width d. A digit
counts as retrieved if the distance between the result and the digit is below a tenth of
the digit's norm. Further steps can also lead away from the digit, to a mixture of
digits with lower energy.

With `--count`, one step over the candidates of a flat `VectorIndex` is compared with a
step over all digits, instead.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.datasets import DataNotFoundError, mnist
from keras_attention.models import AssociativeMemory, VectorIndex
from keras_attention.models.base import vector_index
from studies import reports
from studies.command_line import UsageError

SEED = 0  # seed of the order of the digits
STORED = (24, 1000, 10_000)
SHARPNESS = (1, 2, 5, 8, 20)  # b
WITHIN = 0.1  # maximum distance of a retrieved pattern, relative to its norm
STEPS = 50  # maximum number of steps


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `retrieval`."""
    add = parser.add_argument
    add("--stored", type=int, nargs="+", default=list(STORED), help="how many digits")
    add("--queries", type=int, default=200, help="at most")
    add("--count", type=int, help="of candidates of an index")
    add("--json", type=pathlib.Path, help="where to write the results")


def main(args: argparse.Namespace) -> int:
    """Measures the retrieval, prints the results and writes them to the file."""
    if min(args.stored) < 1 or args.queries < 1:
        raise UsageError("--stored and --queries must be at least 1.")
    if args.count is not None and args.count < 1:
        raise UsageError(f"--count must be at least 1. Received: {args.count}")
    try:
        if args.count:
            vector_index.faiss()
        images = mnist.load("test").images
    except (DataNotFoundError, ImportError) as error:
        raise UsageError(str(error)) from error
    if max(args.stored) > len(images):
        raise UsageError(
            f"--stored must be at most {len(images)}, as many as there are"
        )
    digits = images.reshape(len(images), -1).astype("float32") / 127.5 - 1
    digits = digits[np.random.default_rng(SEED).permutation(len(digits))]
    start, cpu = time.perf_counter(), time.process_time()
    runs = []
    for count in args.stored:
        for b in SHARPNESS:
            if args.count:
                given = digits[:count], b, args.queries, args.count
                runs.append(measure_index(*given))
                print(index_line(runs[-1]), flush=True)
                continue
            runs.append(measure(digits[:count], b, args.queries))
            print(line(runs[-1]), flush=True)
    if args.json:
        results = {
            **reports.head("retrieval"),
            "seed": SEED,
            "backend": keras.config.backend(),
            "seconds": round(time.perf_counter() - start, 1),
            "cpu_seconds": round(time.process_time() - cpu, 1),
            "runs": runs,
        }
        text = json.dumps(results, indent=1)
        args.json.write_text(text + "\n", encoding="utf-8")
    return 0


def half_hidden(patterns: np.ndarray) -> np.ndarray:
    """Sets the second half of each row to 0."""
    queries = patterns.copy()
    queries[:, patterns.shape[1] // 2 :] = 0
    return queries


def measure(patterns: np.ndarray, b: float, most: int) -> dict[str, Any]:
    """Measures the shares of retrieved half-hidden patterns.

    Args:
        patterns: the stored patterns, (N, D).
        b: β √D.
        most: the maximum number of queries. They are made from the first patterns.

    Returns:
        "stored", the number of patterns; "b"; "queries", the number of queries; "one",
        the share after one step; and "rest", the share at convergence or after `STEPS`
        steps.
    """
    count, width = patterns.shape
    memory = AssociativeMemory(beta=b / width**0.5)
    memory.store(patterns)
    targets = patterns[:most]
    queries = half_hidden(targets)
    shares = {}
    for name, steps in (("one", 1), ("rest", None)):
        found = memory.retrieve(queries, steps, max_steps=STEPS)
        found = ops.convert_to_numpy(found)
        off = np.linalg.norm(found - targets, axis=1)
        near = off < WITHIN * np.linalg.norm(targets, axis=1)
        shares[name] = round(float(near.mean()), 4)
    return {"stored": count, "b": b, "queries": len(targets), **shares}


def measure_index(
    patterns: np.ndarray, b: float, most: int, count: int
) -> dict[str, Any]:
    """Compares a step over the candidates of an index with a step over all patterns.

    Args:
        patterns: the stored patterns, (N, D).
        b: β √D.
        most: the maximum number of queries. They are made from the first patterns.
        count: the number of candidates.

    Returns:
        "stored", "b" and "queries" as in `measure`; "count"; "bound", the median and
        the largest bound of the left-out weight; "left_out", the median and the largest
        left-out weight; and "error", the median and the largest ‖difference‖ of the
        states, relative to the norm of the state of all patterns.
    """
    beta = b / patterns.shape[1] ** 0.5
    memory = AssociativeMemory(beta=beta)
    memory.store(patterns)
    queries = half_hidden(patterns[:most])
    index = VectorIndex(patterns, count=count)
    scores = beta * queries.astype("float64") @ patterns.T.astype("float64")
    weights = np.sort(np.exp(scores - scores.max(1, keepdims=True)))
    left = weights[:, : max(len(patterns) - count, 0)].sum(1) / weights.sum(1)
    whole = ops.convert_to_numpy(memory.retrieve(queries, steps=1))
    found = memory.retrieve(queries, steps=1, index=index, max_left_out=1)
    off = np.linalg.norm(ops.convert_to_numpy(found) - whole, axis=1)
    measured = {
        "bound": ops.convert_to_numpy(memory.left_out_weight(queries, index)),
        "left_out": left,
        "error": off / np.linalg.norm(whole, axis=1),
    }
    return {
        **{"stored": len(patterns), "b": b, "queries": len(queries), "count": count},
        **{
            name: [float(f"{part:.3g}") for part in (np.median(x), x.max())]
            for name, x in measured.items()
        },
    }


def index_line(run: dict[str, Any]) -> str:
    """Formats a result of `measure_index` as a line of text."""
    cells = ", ".join(
        f"{name} {100 * run[name][0]:.3g} % (at most {100 * run[name][1]:.3g} %)"
        for name in ("bound", "left_out", "error")
    )
    return (
        f"{run['stored']:6} digits, b = {run['b']:2}, {run['count']} candidates: "
        f"{cells}"
    )


def line(run: dict[str, Any]) -> str:
    """Formats a result as a line of text."""
    return (
        f"{run['stored']:6} digits, b = {run['b']:2}: one step {run['one']:.3f}, "
        f"at rest {run['rest']:.3f} ({run['queries']} queries)"
    )


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/hopfield.md."""
    cells: dict[int, list[str]] = {}
    for run in raw["retrieval"]["runs"]:
        shares = f"{run['one']:.3f} → {run['rest']:.3f}"
        cells.setdefault(run["stored"], []).append(shares)
    rows = [[f"{stored:,}", *shares] for stored, shares in cells.items()]
    indexed = [
        [f"{run['stored']:,}", str(run["b"])]
        + [" / ".join(map(_percent, run[x])) for x in ("bound", "left_out", "error")]
        for run in raw["retrieval-index"]["runs"]
        if run["stored"] == max(STORED)
    ]
    return {
        "digits": reports.table(["N", *(f"b = {b}" for b in SHARPNESS)], rows),
        "index": reports.table(["N", "b", "bound", "left out", "error"], indexed),
    }


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share >= 1e-6 else "< 0.0001 %"
