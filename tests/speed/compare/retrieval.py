"""One step of an `AssociativeMemory` with very many patterns, and its floor.

The peer ("two products") is a lower bound of the work. It computes two matrix products:
all scores, and a sum of patterns with given weights. It does not compute the weights.
Our function reads the patterns in chunks. In the report, "memory" is the additional
memory of a call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from speed.compare import backends
from speed.harness import SEED, Case, Contestants, NumericsError, Step

FLOAT, WIDTH, QUERIES = 4, 64, 64
PATTERNS = (100_000, 1_000_000)
PEER = "two products"
TOLERANCE = 1e-4
PART = 100_000  # patterns in float64 at once


def cases() -> tuple[Case, ...]:
    """Returns cases with 64 queries and patterns of width 64."""
    return tuple(_case({"T": QUERIES, "S": count, "D": WIDTH}) for count in PATTERNS)


def _case(sizes: dict[str, Any]) -> Case:
    return Case(
        name="retrieval",
        sizes=sizes,
        make=lambda backend: _make(sizes, backend),
        steps=_steps(sizes),
        tolerance=TOLERANCE,
        quick=sizes["S"] == PATTERNS[0],
        amount=(sizes["T"], "queries"),
    )


def _steps(sizes: dict[str, Any]) -> tuple[Step, ...]:
    queries, patterns, width = (sizes[name] for name in "TSD")
    flops, read = 2 * queries * patterns * width, FLOAT * patterns * width
    return (
        Step(flops, read, (1, queries, width, patterns)),
        Step(flops, read, (1, queries, patterns, width)),
    )


def _make(sizes: dict[str, Any], backend: str) -> Contestants:
    from keras import ops

    from keras_attention.models import AssociativeMemory

    queries, count, width = (sizes[name] for name in "TSD")
    rng = np.random.default_rng(SEED)
    patterns = rng.standard_normal((count, width), dtype="float32")
    states = rng.standard_normal((queries, width), dtype="float32")
    beta = width**-0.5
    memory = AssociativeMemory(beta=beta)
    memory.store(patterns)
    asked = ops.convert_to_tensor(states)
    columns = ops.convert_to_tensor(np.ascontiguousarray(patterns.T))  # (D, S)
    rows = ops.convert_to_tensor(patterns)
    weights = rng.random((queries, count), dtype="float32")
    first, _ = backends.compiled(ops.matmul, (asked, columns), backend)
    second, _ = backends.compiled(
        ops.matmul, (ops.convert_to_tensor(weights), rows), backend
    )

    def ours() -> dict[str, Any]:
        return {"output": memory.retrieve(asked, steps=1)}

    def check() -> dict[str, float]:
        """Compares the first, middle and last query with NumPy's result in float64."""
        few = [0, queries // 2, queries - 1]
        scaled = beta * states[few].astype("float64")
        total, right = np.zeros((3, 1)), np.zeros((3, width))
        for n in range(0, count, PART):
            part = patterns[n : n + PART].astype("float64")
            share = np.exp(scaled @ part.T)  # finite: the scores are about 1
            total += share.sum(1, keepdims=True)
            right += share @ part
        output = backends.to_numpy(ours())["output"][few]
        worst = float(np.abs(output - right / total).max())
        if not worst <= TOLERANCE:
            raise NumericsError(f"ours differs from NumPy by {worst:.3g}")
        return {PEER: worst}

    return Contestants(
        calls={"ours": ours, PEER: lambda: [first(), second()]}, check=check
    )
