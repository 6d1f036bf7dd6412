"""Tables of the networks that are trained on all bAbI tasks."""

from __future__ import annotations

import statistics
from typing import Any

from keras_attention.datasets import babi
from studies import reports
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


def parts_table(runs: list[Run]) -> str:
    """Formats the mean validation error at the end of each part of the budget."""
    rows = []
    for run in runs:
        errors = [
            100 * (1 - statistics.fmean(part[n] for n in part if n.startswith("task ")))
            for part in run["result"]["parts"]
        ]
        rows.append([f"seed {run['seed']}", *(f"{error:.1f}" for error in errors)])
    shares = [p["part"] / p["of_parts"] for p in runs[0]["result"]["parts"]]
    return reports.table(["", *(f"{100 * share:.0f} %" for share in shares)], rows)


def table(runs: list[Run], training: str) -> str:
    """Formats all tables of the joint network.

    Args:
        runs: the runs, seed by seed.
        training: the table of their training.
    """
    parts = [training, errors_table(runs)]
    if all(run["result"].get("parts") for run in runs):
        parts.append("Mean validation error in the course of the budget:")
        parts.append(parts_table(runs))
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
    rows = [
        [str(name), *(f"{column[name]:.1f}" for column in columns.values())]
        for name in [*babi.TASKS, MEAN]
    ]
    return reports.table(["task", *columns], rows)
