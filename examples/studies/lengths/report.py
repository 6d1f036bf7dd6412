"""The tables and the curves of the command `lengths`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from studies import reports
from studies.store import Run

KINDS = {"bahdanau": "with attention", "none": "without attention"}
LABELS = {
    "x_label": "words in the source sentence",
    "y_label": "BLEU, in per cent",
    "title": "Dutch to English: quality over sentence length",
}
TITLES = {"bleu": "BLEU", "exact": "exact"}


def table(runs: Sequence[Run]) -> str:
    """Formats BLEU by the number of source words."""
    groups = runs[0]["result"]["groups"]
    lines = [f"{'words':20}{'seed':>5}" + "".join(f"{_range(g):>8}" for g in groups)]
    for run in runs:
        result = run["result"]
        scores = "".join(f"{group['bleu']:8.1f}" for group in result["groups"])
        lines.append(f"{KINDS[run['attention']]:20}{run['seed']:5}{scores}")
    return "\n".join(lines)


def _range(group: dict[str, Any]) -> str:
    """Formats the least and the largest number of words of a group."""
    least, most = group["range"]
    return f"{least}" if least == most else f"{least}–{most}"


def series(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Returns the input of `plot_curves`: means with their ranges."""
    curves = []
    for kind in dict.fromkeys(run["attention"] for run in runs):
        of_kind = [run["result"]["groups"] for run in runs if run["attention"] == kind]
        scores = (
            np.array([[group["bleu"] for group in groups] for groups in of_kind]) / 100
        )
        curves.append(
            {
                "name": KINDS[kind],
                "x": [group["words"] for group in of_kind[0]],
                "y": scores.mean(0).round(4).tolist(),
                "low": scores.min(0).round(4).tolist(),
                "high": scores.max(0).round(4).tolist(),
            }
        )
    return curves


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/lengths.md."""
    runs = raw["lengths"]["runs"]
    groups = runs[0]["result"]["groups"]
    columns = [("sentences", [str(group["sentences"]) for group in groups])]
    for name, scale, form in (("bleu", 1, "{:.1f}"), ("exact", 100, "{:.0f} %")):
        for run in runs:
            title = f"{TITLES[name]} {KINDS[run['attention']]}"
            if len(runs) > len(KINDS):
                title += f", seed {run['seed']}"
            cells = [
                form.format(scale * group[name]) for group in run["result"]["groups"]
            ]
            columns.append((title, cells))
    titles = [title for title, _ in columns]
    rows = list(zip(map(_range, groups), *(column for _, column in columns)))
    training = [
        [
            KINDS[run["attention"]],
            str(run["seed"]),
            f"{run['result']['parameters']:,}",
            f"{run['result']['loss']:.2f}",
            f"{run['result']['bleu']:.1f}",
            f"{run['result']['fit_cpu_seconds']:.0f} s",
        ]
        for run in runs
    ]
    about = ["", "seed", "weights", "loss", "BLEU, all", "CPU time"]
    return {
        "bleu": reports.table(["source words", *titles], rows),
        "training": reports.table(about, training),
    }
