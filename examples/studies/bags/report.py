"""Text lines, a table and the JSON report."""

from __future__ import annotations

from typing import Any

import numpy as np

from studies import reports
from studies.store import Run

# AUC in per cent: Ramsauer et al. (2021), table 1.
PUBLISHED = {"tiger": (91.3, 0.5), "elephant": (94.9, 0.3)}
# Accuracy as read from the plots in the authors' example notebooks.
EXAMPLES = {"bits": 0.85, "latch": 1.0}
DRAWS = 10_000  # number of bootstrap samples for the interval


def line(run: Run) -> str:
    """Formats a finished run as a line of text."""
    result = run["result"]
    if "auc" in result:
        return (
            f"{run['data']}, repeat {run['seed']}: AUC {np.mean(result['auc']):.2f}, "
            f"{result['cpu_seconds']} s of CPU time"
        )
    return (
        f"{run['data']}, seed {run['seed']}: accuracy {result['accuracy']:.4f}, "
        f"{result['fit_cpu_seconds']} s of CPU time"
    )


def summary(runs: list[Run]) -> dict[str, Any]:
    """Summarizes the repeats on one data set.

    Args:
        runs: the runs on one data set from a file.

    Returns:
        `mean`, the mean AUC over all folds and repeats; `interval`, its 95 % bootstrap
        interval over repeats and folds; `deviation`, the standard deviation of the
        repeats' means; `of_five`, the mean AUC of five averaged networks; `each`, the
        mean AUC of each setting; `chosen`, how often each setting was selected.
    """
    folds = np.array([run["result"]["auc"] for run in runs])  # (R, folds)
    random = np.random.default_rng(0)
    count, width = folds.shape
    repeats = random.integers(0, count, (DRAWS, count))
    samples = random.integers(0, width, (DRAWS, count, width))
    means = folds[repeats[..., None], samples].mean((1, 2))
    outer = np.array([run["result"]["outer"] for run in runs])  # (R, settings, folds)
    chosen = np.concatenate([run["result"]["chosen"] for run in runs])
    of_repeats = folds.mean(1)
    return {
        "mean": round(float(folds.mean()), 2),
        "interval": [round(float(x), 2) for x in np.percentile(means, [2.5, 97.5])],
        "deviation": round(float(of_repeats.std(ddof=1)), 2) if count > 1 else None,
        "of_five": round(
            float(np.mean([run["result"]["auc_of_five"] for run in runs])), 2
        ),
        "repeats": np.round(of_repeats, 2).tolist(),
        "each": np.round(outer.mean((0, 2)), 2).tolist(),
        "chosen": np.bincount(chosen, minlength=outer.shape[1]).tolist(),
        "cpu_seconds": round(sum(run["result"]["cpu_seconds"] for run in runs), 1),
        "seconds": round(sum(run["result"]["seconds"] for run in runs), 1),
    }


def summaries(runs: list[Run]) -> dict[str, Any]:
    """Returns the `summary` of each cross-validated data set."""
    names = dict.fromkeys(run["data"] for run in runs if "auc" in run["result"])
    return {n: summary([run for run in runs if run["data"] == n]) for n in names}


def table(runs: list[Run]) -> str:
    """Formats our results next to the published results."""
    lines = []
    width = max([10, *(len(run["data"]) + 2 for run in runs)])
    for name, found in summaries(runs).items():
        low, high = found["interval"]
        line = (
            f"{name:{width}}AUC {found['mean']:6.2f}  (95 %: {low:.2f} to {high:.2f})"
        )
        if name in PUBLISHED:
            mean, deviation = PUBLISHED[name]
            line += f"   published {mean} ± {deviation}"
        lines.append(line)
    for run in runs:
        if run["data"] in EXAMPLES:
            lines.append(
                f"{run['data']:{width}}accuracy {run['result']['accuracy']:.4f}, seed "
                f"{run['seed']}   published {EXAMPLES[run['data']]}"
            )
    return "\n".join(lines)


def whole(runs: list[Run]) -> dict[str, Any]:
    """Returns the JSON report."""
    return {
        **reports.head("bags"),
        "summaries": summaries(runs),
        "runs": runs,
    }


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/hopfield.md."""
    summary_of, runs = raw["bags"]["summaries"], raw["bags"]["runs"]
    auc = [
        [
            name.capitalize(),
            f"{one['mean']:.2f}",
            "{:.2f} to {:.2f}".format(*one["interval"]),
            "{} ± {}".format(*PUBLISHED[name]),
        ]
        for name, one in summary_of.items()
    ]
    settings = []
    for n, setting in enumerate(runs[0]["settings"]["chosen_from"]):
        row = [
            f"width {setting['dims'][0]}, instance dropout "
            f"{setting['instance_dropout']:g}, rate {setting['rate']:g}"
        ]
        settings.append(row + [f"{one['each'][n]:.2f}" for one in summary_of.values()])
    examples = []
    for name, published in EXAMPLES.items():
        same_data = [run for run in runs if run["data"] == name]
        shares = [f"{run['result']['accuracy']:.3f}" for run in same_data]
        epochs = str(same_data[0]["settings"]["epochs"])
        examples.append([name, epochs, *shares, str(published)])
    names = [name.capitalize() for name in summary_of]
    titles = ["data", "ours", "95 % interval", "Ramsauer et al."]
    return {
        "auc": reports.table(titles, auc),
        "settings": reports.table(["one setting for all folds", *names], settings),
        "examples": reports.table(
            ["", "epochs", "seed 0", "seed 1", "the authors' example"], examples
        ),
    }
