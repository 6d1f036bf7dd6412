"""Text lines, a table and the JSON report of MetaQA runs."""

from __future__ import annotations

import datetime
import functools
import math
import operator
import pathlib
import platform
from typing import Any

import numpy as np

from keras_attention.version import __version__
from studies import reports
from studies.store import Run

RECIPE: dict[str, Any] = {"embedding_dim": 64, "encoding": "position"}
MEMORY_SIZE = {1: 64, 2: 128, 3: 128}  # three hops: of each hop
# Rows of the table, and where a run has their figures.
ROWS = {
    "`KeyValueMemNN`": ("network",),
    "regression on word bigrams": ("regression",),
    "known relations, random value": ("ceiling",),
    "`KeyValueMemNN`, any value of the right relations": ("right_path", "network"),
    "regression, any value of the right relations": ("right_path", "regression"),
    "`KeyValueMemNN`, where guessing hits all": ("one_set", "network"),
    "regression, where guessing hits all": ("one_set", "regression"),
}

SHOWN = [*ROWS][:5]  # the rows of the page

FILES = {
    "metaqa-1hop": "1 hop",
    "metaqa-2hop": "2 hops",
    "metaqa-3hop": "3 hops",
    "metaqa-1hop-names": "1 hop, without brackets",
}


def percent(right: np.ndarray) -> float:
    """Returns the share of true values in `right`, in per cent; NaN for none at all."""
    return round(100 * float(right.mean()), 2) if len(right) else math.nan


def model_of(hops: int) -> dict[str, Any]:
    """Returns the network's arguments, except those that depend on the data."""
    return {**RECIPE, "hops": hops, "memory_size": MEMORY_SIZE[hops]}


def facts_of(data: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Returns statistics of the memories of each split."""
    return {name: data[name].facts for name in ("dev", "test") if name in data}


def summary(result: dict[str, Any]) -> str:
    """Formats a run as a line of text."""
    return (
        f"seed {result['seed']}: hits@1 {result['network']:.2f} %, regression "
        f"{result['regression']:.2f} %, fit took {result['fit_seconds']:.0f} s"
    )


def table(
    runs: list[dict[str, Any]], hops: int, own: pathlib.Path | None = None
) -> str:
    """Formats the hits@1 of the network and the regression."""
    split = {1: "test", 2: "held-back dev", 3: "part of dev"}[hops]
    split = split if own is None else own.name
    seeds = "".join(f"  seed {run['seed']:<2d}" for run in runs)
    lines = [f"{f'hits@1 in %, {hops}-hop {split}':52s}{seeds}    mean"]
    for name, keys in ROWS.items():
        numbers = _numbers(runs, keys)
        each = "".join(f"{number:9.2f}" for number in numbers)
        lines.append(f"{name:52s}{each}{np.mean(numbers):8.2f}")
    return "\n".join(lines)


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the table of docs/results/metaqa.md: mean ± sd of the seeds."""
    rows = []
    for name in SHOWN:
        row = [name]
        for title in FILES:
            numbers = _numbers(raw[title]["runs"], ROWS[name])
            spread = f" ± {np.std(numbers, ddof=1):.2f}" if len(numbers) > 1 else ""
            row.append(f"{np.mean(numbers):.2f}{spread}" if numbers else "")
        rows.append(row)
    return {"hits": reports.table(["hits@1 in %", *FILES.values()], rows)}


def _numbers(runs: list[Any], keys: tuple[str, ...]) -> list[float]:
    """Returns a figure of each run; nothing if they lack it, as old results may."""
    if keys[0] not in runs[0]:
        return []
    return [functools.reduce(operator.getitem, keys, run) for run in runs]


def report(
    lines: list[Run],
    data: dict[str, Any],
    hops: int,
    brackets: bool,
    training: dict[str, Any],
    own: pathlib.Path | None = None,
) -> dict[str, Any]:
    """Returns the JSON report of `lines`, the lines of the runs file.

    Other processes may have written some of these lines.
    """
    runs = [line["result"] for line in lines]
    return {
        "what": f"MetaQA, {hops}-hop questions, hits@1 in per cent",
        "entities": "given by brackets" if brackets else "found by their names",
        "model": {"class": "KeyValueMemNN", **model_of(hops)},
        "training": training,
        "data": facts_of(data),
        **({} if own is None else {"questions": str(own)}),
        "runs": runs,
        "mean": {
            name: round(float(np.mean([r[name] for r in runs])), 2)
            for name in ("network", "regression", "ceiling")
        },
        "versions": {
            "keras_attention": __version__,
            "keras": sorted({line["keras"] for line in lines}),
            "backend": sorted({line["backend"] for line in lines}),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "date": datetime.date.today().isoformat(),
    }
