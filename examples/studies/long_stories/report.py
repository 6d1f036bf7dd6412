"""The tables and the curves of the command `long_stories`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from studies import reports
from studies.long_stories.models import FAMILIES
from studies.store import Run

Row = dict[str, Any]
HASH = ", word hash"  # after the name of a memory whose costs include the hash
LABELS = {"title": "One supporting fact (qa1): accuracy and memory over length"}


def line(run: Run) -> str:
    """Returns one line about a run."""
    cells = [
        f"{row['length']:,}: {accuracy([row]) or row['skipped']}"
        for row in run["result"]["tests"]
    ]
    return f"{run['model']}, task {run['task']}, seed {run['seed']}: {'; '.join(cells)}"


def runs_of(raw: dict[str, Any]) -> list[Run]:
    """Returns the runs of all raw files."""
    return [run for results in raw.values() for run in results["runs"]]


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/long-stories.md."""
    runs = runs_of(raw)
    lengths = sorted({row["length"] for run in runs for row in run["result"]["tests"]})
    columns = [f"{length:,}" for length in lengths]
    shares, costs = [], []
    for (task, model), group in groups(runs).items():
        rows = [at(group, length) for length in lengths]
        name, seeds = FAMILIES[model].name, str(len(group))
        shares.append([f"qa{task}", name, seeds, *map(accuracy, rows)])
        if "accuracy_hash" in rows[0][0]:
            name += HASH
            cells = [accuracy(row, "accuracy_hash") for row in rows]
            shares.append([f"qa{task}", name, seeds, *cells])
        if task == min(run["task"] for run in runs):
            means = (
                f"{np.mean([run['result'][key] for run in group]):,.0f}"
                for key in ("weights", "steps")
            )
            costs.append([name, *means, *map(cost, rows)])
    return {
        "accuracy": reports.table(["task", "memory", "seeds", *columns], shares),
        "cost": reports.table(["memory", "weights", "steps", *columns], costs),
    }


def accuracy(rows: Sequence[Row], name: str = "accuracy") -> str:
    """Formats the mean accuracy of some tests, with their range if they differ."""
    values = [100 * row[name] for row in rows if name in row]
    if not values:
        return ""
    text = f"{np.mean(values):.0f}"
    if round(min(values)) != round(max(values)):
        text += f" ({min(values):.0f}–{max(values):.0f})"
    return text


def cost(rows: Sequence[Row]) -> str:
    """Formats the CPU time and the peak of memory of a story, or why there is none."""
    reasons = [row["skipped"] for row in rows if "skipped" in row]
    rows = [row for row in rows if "seconds" in row]
    if not rows:
        return f"*{reasons[0]}*" if reasons else ""
    seconds = np.mean([row["seconds"] for row in rows])
    return f"{seconds:.2g} s, {max(map(megabytes, rows)):,.1f} MB"


def megabytes(row: Row) -> float:
    """Returns the peak of memory of a story: that of a batch, divided by its size."""
    batch = 1 if "accuracy_hash" in row else row["batch"]  # a memory has one story
    return float(row["megabytes"]) / batch


def groups(runs: Sequence[Run]) -> dict[tuple[int, str], list[Run]]:
    """Returns the runs of each task and model, in the order of `FAMILIES`."""
    groups: dict[tuple[int, str], list[Run]] = {}
    for task in sorted({run["task"] for run in runs}):
        for model in FAMILIES:
            wanted = (task, model)
            group = [run for run in runs if (run["task"], run["model"]) == wanted]
            if group:
                groups[wanted] = group
    return groups


def at(runs: Sequence[Run], length: int) -> list[Row]:
    """Returns the tests of some runs at a length."""
    tests = [row for run in runs for row in run["result"]["tests"]]
    return [row for row in tests if row["length"] == length]


def series(raw: dict[str, Any], task: int = 1) -> list[dict[str, Any]]:
    """Returns the input of `plot_lengths`: mean accuracies and largest peaks."""
    curves = []
    for (number, model), group in groups(runs_of(raw)).items():
        rows = [row for run in group for row in run["result"]["tests"]]
        rows = [row for row in rows if "accuracy" in row]
        lengths = sorted({row["length"] for row in rows})
        if number != task or not lengths:
            continue
        tests = [[row for row in rows if row["length"] == n] for n in lengths]
        sizes = [max(map(megabytes, some)) for some in tests]
        has_hash = "accuracy_hash" in rows[0]
        for share, suffix in (("accuracy", ""), ("accuracy_hash", HASH)):
            if share in rows[0]:
                means = [np.mean([row[share] for row in some]) for some in tests]
                curves.append(
                    {
                        "name": FAMILIES[model].name + suffix,
                        "x": lengths,
                        "y": np.round(means, 4).tolist(),
                        # 0.1 MB is the smallest peak that the raw files can tell.
                        # The memory without a hash was not measured.
                        "size": None
                        if has_hash and not suffix
                        else np.maximum(np.round(sizes, 2), 0.1).tolist(),
                    }
                )
    return curves
