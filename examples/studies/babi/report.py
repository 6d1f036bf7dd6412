"""Tables of our errors and the published ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_attention.datasets.babi import TASKS
from studies import reports
from studies.babi import published
from studies.babi.recipes import QUESTIONS, Recipe

FAILED = 5.0  # a task counts as failed if its error in per cent is larger

Run = dict[str, Any]


def best(runs: list[Run]) -> Run:
    """Selects the run with the lowest training error, or the lowest loss among ties."""
    return min(runs, key=lambda run: (run["train_error"], run["train_loss"]))


def errors_of_best(runs: list[Run]) -> dict[int, float]:
    """Returns the test error of each task in the run with the lowest training error."""
    found: dict[int, float] = {}
    for group in _groups(runs):
        found |= {int(k): error for k, error in best(group)["errors"].items()}
    return dict(sorted(found.items()))


def errors(runs: list[Run]) -> dict[int, list[float]]:
    """Returns the test errors of all runs for each task, in the order of the seeds."""
    found: dict[int, list[float]] = {}
    for run in sorted(runs, key=lambda run: run["seed"]):
        for task, error in run["errors"].items():
            found.setdefault(int(task), []).append(error)
    return dict(sorted(found.items()))


def table(runs: list[Run], recipe: Recipe, size: str) -> str:
    """Formats a row per task: error of the best run, mean ± sd, published error.

    The best run has the lowest training error. Tasks with incomplete training data are
    listed below the means.
    """
    paper = published.columns(size).get(recipe.column_for(size))
    chosen, every = errors_of_best(runs), errors(runs)
    short = incomplete(runs, size)
    whole = [task for task in every if task not in short]
    seeds = len({run["seed"] for run in runs})
    head = f"test error in % ({seeds} runs)"
    column = recipe.column_for(size)
    published_as = f"paper's {column}" if paper else "no published column"
    lines = [f"{head:30s}    best        mean ± sd   {published_as}"]

    def row(task: int) -> str:
        theirs = paper[task - 1] if paper else float("nan")
        return _row(f"{task:2d} {TASKS[task]}", chosen[task], every[task], theirs)

    lines += [row(task) for task in whole]
    if whole:
        lines += _means(chosen, every, whole, paper)
    for task, count in short.items():
        lines.append(f"{row(task)}   trained on {count:,} questions")
    seconds = sum(run["fit_seconds"] for run in runs)
    lines.append(f"fit took {seconds:.0f} s in all, {seconds / len(runs):.1f} s a run")
    return "\n".join(lines)


def summary(runs: list[Run], recipe: Recipe, size: str) -> dict[str, Any]:
    """Returns the JSON report, with the settings once and all runs.

    The means cover the tasks with complete training data.
    """
    short = incomplete(runs, size)
    chosen, every = errors_of_best(runs), errors(runs)
    whole = [task for task in every if task not in short]
    means = [float(np.mean(column)) for column in _by_seed(every, whole)]
    best_of = [chosen[task] for task in whole]
    paper = published.columns(size).get(recipe.column_for(size))
    return {
        "what": f"bAbI v1-2, {recipe.mode}, {size} training questions a task",
        "training_data": sorted({run["data"] for run in runs}),
        "trained_on_less": short,
        "recipe": recipe.name,
        "settings": runs[0]["settings"],
        "backend": sorted({run["backend"] for run in runs}),
        "keras": sorted({run["keras"] for run in runs}),
        "best_by_training_error": chosen,
        "best_mean": round(float(np.mean(best_of)), 2) if whole else None,
        "best_failed": sum(error > FAILED for error in best_of),
        "mean": round(float(np.mean(means)), 2) if whole else None,
        "sd": round(float(np.std(means, ddof=1)), 2) if len(means) > 1 else None,
        "paper": {"column": recipe.column_for(size), "errors": paper},
        "runs": [
            {
                k: v
                for k, v in run.items()
                if k not in ("settings", "recipe", "size", "data")
            }
            for run in sorted(runs, key=lambda r: (r["task"] or 0, r["seed"]))
        ],
    }


def incomplete(runs: list[Run], size: str) -> dict[int, int]:
    """Returns the number of training questions of each task with too few of them."""
    found = {}
    for run in runs:
        for task, count in run.get("questions", {}).items():
            if count < QUESTIONS[size]:
                found[int(task)] = count
    return dict(sorted(found.items()))


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/babi.md."""
    papers = published.columns("1k")
    results = raw["babi-joint-1k"]
    joint = [
        ("ours, best of 10", _best_cells(results)),
        ("ours, mean ± sd", _mean_cells(results["runs"])),
        ("paper, best of 10", _cells(papers["joint_PE_LS_RN"])),
    ]
    exchanging = [
        (f"`{name}`", _mean_cells(raw[f"babi-{name}-1k"]["runs"], easier=True))
        for name in ("joint-renamed", "joint-lessons")
    ]
    theirs = ("Universal Transformer", _cells(papers["UT_joint"], easier=True))

    results = raw["babi-single-pe-ls-rn"]
    single = [
        ("ours, best of 10", _best_cells(results)),
        ("paper, best of 10", _cells(papers["PE_LS_RN"])),
    ]
    encodings = []
    for title in ("BoW", "PE", "PE LS", "PE LS RN"):
        results = raw[f"babi-single-{title.lower().replace(' ', '-')}"]
        column = papers[title.replace(" ", "_")]
        every = _mean_cells(results["runs"])[-2]
        means = (_best_cells(results)[-2], _cells(column)[-2], every)
        encodings.append([title, *(mean.strip("*") for mean in means)])

    results = raw["babi-single-exchanged-1k"]
    exchanged = [
        ("best of 3", _best_cells(results, easier=True)),
        ("mean ± sd", _mean_cells(results["runs"], easier=True)),
        ("Universal Transformer", _cells(papers["UT_single"], easier=True)),
    ]

    results = raw["babi-single-10k"]
    short = {int(task): count for task, count in results["trained_on_less"].items()}
    chosen = {int(k): error for k, error in results["best_by_training_error"].items()}
    paper = dict(zip(TASKS, results["paper"]["errors"]))
    whole = [task for task in TASKS if task not in short]
    many = [
        (title, _cells([c[t] for t in whole]) + [f"{c[t]:.1f}" for t in short])
        for title, c in (("ours, one run", chosen), ("paper, best of 10", paper))
    ]
    less = [f"{t} {TASKS[t]}, trained on {count:,}" for t, count in short.items()]

    simulated = []
    for name in ("real", "simulated"):
        file = "pe-ls-rn" if name == "real" else name
        three = [r for r in raw[f"babi-single-{file}"]["runs"] if r["seed"] < 3]
        mean, failed = _mean_cells(three, 1)[-2:]
        simulated.append([name, mean.strip("*"), failed])
    return {
        "joint": _task_table(joint),
        "exchanging": _task_table([*exchanging, theirs], easier=True),
        "single": _task_table(single),
        "encodings": reports.table(
            ["network", "ours, best", "paper, best of 10", "ours, mean ± sd"], encodings
        ),
        "exchanged": _task_table(exchanged, easier=True),
        "10k": _task_table(many, whole, less),
        "simulated": reports.table(["stories", "mean error", FAILED_ROW], simulated),
    }


# With 1,000 questions, only networks that train on exchanged words learn these tasks.
SOLVED_BY_EXCHANGES = (17, 19)
FAILED_ROW = f"tasks above {FAILED:.0f} %"


def _task_table(
    columns: list[tuple[str, list[str]]],
    tasks: Iterable[int] = TASKS,
    more: Sequence[str] = (),
    easier: bool = False,
) -> str:
    """Formats a row per task, the mean, the number of failed tasks, and `more` rows."""
    names = [f"{task} {TASKS[task]}" for task in tasks]
    if easier:
        names.append(f"mean without {' and '.join(map(str, SOLVED_BY_EXCHANGES))}")
    names += ["**mean**", FAILED_ROW, *more]
    titles, cells = zip(*columns)
    return reports.table(["task", *titles], list(zip(names, *cells, strict=True)))


def _cells(
    numbers: Sequence[float], digits: int = 2, easier: bool = False
) -> list[str]:
    """Formats the error of each task, their mean, and the number of failed tasks.

    Args:
        numbers: the errors.
        digits: the decimal places of the means.
        easier: whether to add the mean without `SOLVED_BY_EXCHANGES`.
    """
    cells = [f"{error:.1f}" for error in numbers]
    if easier:
        cells.append(f"{np.mean(_without(np.array(numbers))):.{digits}f}")
    failed = sum(error > FAILED for error in numbers)
    return [*cells, f"**{np.mean(numbers):.{digits}f}**", str(failed)]


def _without(errors_of_tasks: np.ndarray) -> np.ndarray:
    """Removes the rows of `SOLVED_BY_EXCHANGES` from errors (20, ...)."""
    return np.delete(errors_of_tasks, [t - 1 for t in SOLVED_BY_EXCHANGES], axis=0)


def _best_cells(
    results: dict[str, Any], digits: int = 2, easier: bool = False
) -> list[str]:
    return _cells([*results["best_by_training_error"].values()], digits, easier)


def _mean_cells(runs: list[Run], digits: int = 2, easier: bool = False) -> list[str]:
    """Formats mean ± sd over the runs: of each task's error, and of the mean error."""
    grid = np.array(list(errors(runs).values()))  # (tasks, seeds)

    def spread(numbers: np.ndarray, digits: int = 1) -> str:
        return f"{numbers.mean():.{digits}f} ± {numbers.std(ddof=1):.{digits}f}"

    cells = [spread(numbers) for numbers in grid]
    if easier:
        cells.append(spread(_without(grid).mean(0), digits))
    failed = f"{(grid > FAILED).sum(0).mean():.1f}"
    return [*cells, f"**{spread(grid.mean(0), digits)}**", failed]


def _means(
    chosen: dict[int, float],
    every: dict[int, list[float]],
    tasks: list[int],
    paper: tuple[float, ...] | None,
) -> list[str]:
    """Formats two rows: the mean error and the number of failed tasks."""
    columns = _by_seed(every, tasks)
    best_of = [chosen[task] for task in tasks]
    theirs = [paper[task - 1] for task in tasks] if paper else [np.nan]
    beside = float(sum(error > FAILED for error in theirs)) if paper else float(np.nan)
    failed = [float(np.sum(np.array(column) > FAILED)) for column in columns]
    return [
        _row(
            "mean" if len(tasks) == len(every) else f"mean of these {len(tasks)}",
            float(np.mean(best_of)),
            [float(np.mean(column)) for column in columns],
            float(np.mean(theirs)),
        ),
        _row(
            f"failed (above {FAILED:.0f} %)",
            float(sum(error > FAILED for error in best_of)),
            failed,
            beside,
        ),
    ]


def _groups(runs: list[Run]) -> list[list[Run]]:
    """Groups comparable runs: runs of one task, or all joint runs."""
    groups: dict[int | None, list[Run]] = {}
    for run in runs:
        groups.setdefault(run["task"], []).append(run)
    return list(groups.values())


def _by_seed(
    every: dict[int, list[float]], tasks: list[int]
) -> list[tuple[float, ...]]:
    """Returns the errors of the given tasks, one tuple for each run of all tasks."""
    return list(zip(*(every[task] for task in tasks)))


def _row(name: str, chosen: float, found: list[float], theirs: float) -> str:
    spread = f"{np.std(found, ddof=1):5.1f}" if len(found) > 1 else "    –"
    beside = "         –" if np.isnan(theirs) else f"{theirs:10.1f}"
    return f"{name:30s}{chosen:8.1f}{np.mean(found):9.1f} ± {spread}{beside}"
