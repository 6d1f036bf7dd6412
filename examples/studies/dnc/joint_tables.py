"""Tables of the networks that are trained on all bAbI tasks."""

from __future__ import annotations

import statistics
from typing import Any

from keras_attention.datasets import babi
from studies import reports
from studies.babi import published
from studies.store import Run

# Columns of `babi/published_10k.csv`, with their titles: means of the papers' runs.
PAPERS = {
    "DNC1_mean": "DNC",
    "DNC_MD_mean": "masks, deallocation",
    "ADNC_mean": "ADNC",
}
MEAN = "mean"


def errors_table(runs: list[Run]) -> str:
    """Formats the test error of each task in per cent, beside the papers'."""
    columns = {f"seed {run['seed']}": _errors(run["result"]["tests"]) for run in runs}
    for column, title in PAPERS.items():
        errors = published.columns("10k")[column]
        columns[title] = _with_mean(dict(zip(babi.TASKS, errors)))
    return _table(columns)


def table(runs: list[Run], training: str) -> str:
    """Formats both tables of the joint network.

    Args:
        runs: the runs, seed by seed.
        training: the table of their training.
    """
    return f"{training}\n\n{errors_table(runs)}"


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
