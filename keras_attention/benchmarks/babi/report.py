"""Tables of errors: ours beside the published ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.benchmarks.babi import published
from keras_attention.benchmarks.babi.recipes import Recipe
from keras_attention.datasets.babi import TASKS

FAILED = 5.0  # a task with a greater error, in per cent, has failed

Run = dict[str, Any]


def best(runs: list[Run]) -> Run:
    """The run of lowest training error, the lowest loss among equals: never by test."""
    return min(runs, key=lambda run: (run["train_error"], run["train_loss"]))


def errors_of_best(runs: list[Run]) -> dict[int, float]:
    """For each task the test error of the run that was best in training."""
    found: dict[int, float] = {}
    for group in _groups(runs):
        found |= {int(k): error for k, error in best(group)["errors"].items()}
    return dict(sorted(found.items()))


def errors(runs: list[Run]) -> dict[int, list[float]]:
    """For each task the test errors of all runs, by seed."""
    found: dict[int, list[float]] = {}
    for run in sorted(runs, key=lambda run: run["seed"]):
        for task, error in run["errors"].items():
            found.setdefault(int(task), []).append(error)
    return dict(sorted(found.items()))


def table(runs: list[Run], recipe: Recipe, size: str) -> str:
    """A row a task: the best run by training error, mean ± sd of all, the paper's."""
    paper = published.columns(size).get(recipe.column)
    chosen, every = errors_of_best(runs), errors(runs)
    seeds = len({run["seed"] for run in runs})
    head = f"test error in % ({seeds} runs)"
    published_as = f"paper's {recipe.column}" if paper else "nothing published"
    lines = [f"{head:30s}    best        mean ± sd   {published_as}"]
    for task, found in every.items():
        theirs = paper[task - 1] if paper else float("nan")
        lines.append(_row(f"{task:2d} {TASKS[task]}", chosen[task], found, theirs))
    means = [float(np.mean(column)) for column in _by_seed(every)]
    theirs = float(np.mean([paper[task - 1] for task in every])) if paper else np.nan
    lines.append(_row("mean", float(np.mean(list(chosen.values()))), means, theirs))
    failed = [float(np.sum(np.array(column) > FAILED)) for column in _by_seed(every)]
    count = sum(paper[task - 1] > FAILED for task in every) if paper else np.nan
    own = sum(error > FAILED for error in chosen.values())
    lines.append(_row(f"failed (above {FAILED:.0f} %)", own, failed, count))
    seconds = sum(run["fit_seconds"] for run in runs)
    lines.append(f"fit took {seconds:.0f} s in all, {seconds / len(runs):.1f} s a run")
    return "\n".join(lines)


def summary(runs: list[Run], recipe: Recipe, size: str) -> dict[str, Any]:
    """What the JSON file holds: the settings once, then the runs."""
    chosen, every = errors_of_best(runs), errors(runs)
    means = [float(np.mean(column)) for column in _by_seed(every)]
    paper = published.columns(size).get(recipe.column)
    return {
        "what": f"bAbI v1-2, {recipe.mode}, {size} training questions a task",
        "training_data": sorted({run["data"] for run in runs}),
        "recipe": recipe.name,
        "settings": runs[0]["settings"],
        "backend": sorted({run["backend"] for run in runs}),
        "keras": sorted({run["keras"] for run in runs}),
        "best_by_training_error": chosen,
        "best_mean": round(float(np.mean(list(chosen.values()))), 2),
        "best_failed": sum(error > FAILED for error in chosen.values()),
        "mean": round(float(np.mean(means)), 2),
        "sd": round(float(np.std(means, ddof=1)), 2) if len(means) > 1 else None,
        "paper": {"column": recipe.column, "errors": paper},
        "runs": [
            {
                k: v
                for k, v in run.items()
                if k not in ("settings", "recipe", "size", "data")
            }
            for run in sorted(runs, key=lambda r: (r["task"] or 0, r["seed"]))
        ],
    }


def _groups(runs: list[Run]) -> list[list[Run]]:
    """Runs that compete with each other: those of one task, or all joint ones."""
    groups: dict[int | None, list[Run]] = {}
    for run in runs:
        groups.setdefault(run["task"], []).append(run)
    return list(groups.values())


def _by_seed(every: dict[int, list[float]]) -> list[tuple[float, ...]]:
    """All tasks' errors with the first seed, with the second, …, while all have one."""
    return list(zip(*every.values()))


def _row(name: str, chosen: float, found: list[float], theirs: float) -> str:
    spread = f"{np.std(found, ddof=1):5.1f}" if len(found) > 1 else "    –"
    beside = "         –" if np.isnan(theirs) else f"{theirs:10.1f}"
    return f"{name:30s}{chosen:8.1f}{np.mean(found):9.1f} ± {spread}{beside}"
