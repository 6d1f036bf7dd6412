"""The tables and the curves of the command `long_stories`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from studies import reports
from studies.long_stories.models import FAMILIES
from studies.store import Run


def line(run: Run) -> str:
    """Returns one line about a run."""
    cells = [f"{row['length']:,}: {_cell([row])}" for row in run["result"]["tests"]]
    return f"{run['model']}, task {run['task']}, seed {run['seed']}: {'; '.join(cells)}"


def _cell(rows: Sequence[dict[str, Any]], name: str = "accuracy") -> str:
    """Formats the mean accuracy of some runs, with their range if they differ."""
    values = [100 * row[name] for row in rows if name in row]
    if not values:
        return ""
    text = f"{np.mean(values):.0f}"
    if round(min(values)) != round(max(values)):
        text += f" ({min(values):.0f}–{max(values):.0f})"
    return text


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/long-stories.md."""
    runs = raw["long-stories"]["runs"]
    lengths = sorted({row["length"] for run in runs for row in run["result"]["tests"]})
    titles = [f"{length:,} tokens" for length in lengths]
    accuracy, cost = [], []
    for (task, model), group in groups(runs).items():
        rows = [at(group, length) for length in lengths]
        name = FAMILIES[model].name
        seeds = str(len(group))
        accuracy.append([f"qa{task}", name, seeds, *map(_cell, rows)])
        if "accuracy_hash" in rows[0][0]:
            cells = [_cell(row, "accuracy_hash") for row in rows]
            accuracy.append([f"qa{task}", f"{name}, word hash", seeds, *cells])
        if task == min(run["task"] for run in runs):
            weights, steps = (
                f"{np.mean([run['result'][key] for run in group]):,.0f}"
                for key in ("weights", "steps")
            )
            cells = [_cost(row) for row in rows]
            cost.append([name, weights, steps, *cells])
    return {
        "accuracy": reports.table(["task", "memory", "seeds", *titles], accuracy),
        "cost": reports.table(["memory", "weights", "steps", *titles], cost),
    }


def _cost(rows: Sequence[dict[str, Any]]) -> str:
    """Formats the CPU time of a story and the memory of a batch divided by its size."""
    rows = [row for row in rows if "seconds" in row]
    if not rows:
        return ""
    seconds = np.mean([row["seconds"] for row in rows])
    return f"{seconds:.2g} s, {np.mean([megabytes(row) for row in rows]):,.0f} MB"


def megabytes(row: dict[str, Any]) -> float:
    """Returns the peak of memory of a story; that of a memory holds one story."""
    batch = 1 if "accuracy_hash" in row else row["batch"]
    return float(row["megabytes"]) / batch


def groups(runs: Sequence[Run]) -> dict[tuple[int, str], list[Run]]:
    """Returns the runs of each task and model, in the order of `FAMILIES`."""
    found: dict[tuple[int, str], list[Run]] = {}
    for task in sorted({run["task"] for run in runs}):
        for model in FAMILIES:
            some = [r for r in runs if (r["task"], r["model"]) == (task, model)]
            if some:
                found[task, model] = some
    return found


def at(runs: Sequence[Run], length: int) -> list[dict[str, Any]]:
    """Returns the tests of some runs at a length."""
    tests = [row for run in runs for row in run["result"]["tests"]]
    return [row for row in tests if row["length"] == length]
