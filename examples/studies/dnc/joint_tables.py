"""Tables of the networks that are trained on all bAbI tasks."""

from __future__ import annotations

import statistics
from typing import Any

from keras_attention.datasets import babi
from studies.babi import published
from studies.store import Run

# Columns of `babi/published_10k.csv`, with their titles.
PAPERS = {
    "DNC1_mean": "DNC, mean of 20",
    "DNC2_best": "DNC, best of 20",
    "DNC_MD_mean": "masks, deallocation, mean",
    "ADNC_mean": "ADNC, mean",
    "BiADNC_aug16_mean": "bidirectional, task 16 augmented, mean",
}
MEAN = "mean"


def errors_table(runs: list[Run]) -> str:
    """Formats the test error of each task in per cent, beside the papers'."""
    columns = {f"seed {run['seed']}": _errors(run["result"]["tests"]) for run in runs}
    if len(runs) > 1:
        columns["mean of seeds"] = {
            name: statistics.fmean(column[name] for column in columns.values())
            for name in next(iter(columns.values()))
        }
    for column, title in PAPERS.items():
        errors = published.columns("10k")[column]
        columns[title] = _with_mean(dict(zip(babi.TASKS, errors)))
    return _table(columns)


def parts_table(run: Run) -> str:
    """Formats the validation errors at the end of each part of the budget."""
    columns = {}
    for entry in run["result"]["parts"]:
        share = 100 * entry["part"] / entry["of_parts"]
        right = {
            number: entry[f"task {number}"]
            for number in babi.TASKS
            if f"task {number}" in entry
        }
        columns[f"{share:.0f} %, {entry['steps']:,} steps"] = _with_mean(
            {number: 100 * (1 - share) for number, share in right.items()}
        )
    return _table(columns)


def table(runs: list[Run], training: Any) -> str:
    """Formats all tables of the joint network.

    Args:
        runs: the runs, seed by seed.
        training: the table of their training.
    """
    parts = [training, errors_table(runs)]
    for run in runs:
        if run["result"].get("parts"):
            parts.append(
                f"Validation error of seed {run['seed']} in the course of its budget, "
                "on all held-out stories:"
            )
            parts.append(parts_table(run))
    return "\n\n".join(parts)


def mean_error(tests: dict[str, dict[str, float]]) -> float:
    """Returns the mean test error of all tasks in per cent."""
    return _errors(tests)[MEAN]


def _errors(tests: dict[str, dict[str, float]]) -> dict[Any, float]:
    return _with_mean(
        {
            number: 100 * (1 - tests[f"task {number}"]["answers"])
            for number in babi.TASKS
        }
    )


def _with_mean(errors: dict[Any, float]) -> dict[Any, float]:
    return {**errors, MEAN: statistics.fmean(errors.values())}


def _table(columns: dict[str, dict[Any, float]]) -> str:
    """Formats a row per task, and the means."""
    lines = [["task", *columns], ["---"] * (1 + len(columns))]
    for name in [*babi.TASKS, MEAN]:
        cells = [column.get(name) for column in columns.values()]
        lines.append([str(name), *("" if c is None else f"{c:.1f}" for c in cells)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
