"""Tables of docs/results/translation.md from the raw files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from studies import reports

NAMES = {
    "transformer": "ours",
    "torch": "`torch.nn.Transformer`",
    "bahdanau": "with Bahdanau's attention",
    "none": "the same without attention",
}
# A column of the figures of a run: its title, its value, and how to write it.
Column = tuple[str, Callable[[dict[str, Any]], float | None], str]
LOSS: Column = ("validation loss", lambda result: result["valid_loss"], ".3f")
BLEU: tuple[Column, ...] = (
    ("BLEU, greedy", lambda result: result["bleu"]["greedy"], ".2f"),
    ("BLEU, beam of 5", lambda result: result["bleu"].get("beam"), ".2f"),
)
CPU: Column = ("CPU seconds of training", lambda r: r["fit_cpu_seconds"], ",.0f")
WEIGHTS: Column = ("parameters in millions", lambda r: r["parameters"] / 1e6, ".1f")
TIME: Column = ("seconds of training", lambda result: result["fit_seconds"], ",.0f")


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/translation.md."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for report in raw.values():
        for run in report.get("runs", ()):
            kinds.setdefault(run["attention"], []).append(run)
    return {
        "transformer": _table(kinds, ("transformer", "torch"), (LOSS, *BLEU, CPU)),
        "recurrent": _table(kinds, ("bahdanau", "none"), (WEIGHTS, LOSS, *BLEU, TIME)),
    }


def _table(
    kinds: dict[str, list[dict[str, Any]]],
    names: Iterable[str],
    columns: tuple[Column, ...],
) -> str:
    """Formats a row for each run, and the means of a model with several seeds."""
    rows = []
    for name in names:
        runs = sorted(kinds.get(name, ()), key=lambda run: run["seed"])
        values = [
            [value_of(run["result"]) for _, value_of, _ in columns] for run in runs
        ]
        labels = [str(run["seed"]) for run in runs]
        if len(runs) > 1:
            means = [None if None in each else np.mean(each) for each in zip(*values)]
            values.append(means)
            labels.append("mean")
        for label, row in zip(labels, values):
            cells = [
                "" if value is None else format(value, written)
                for value, (_, _, written) in zip(row, columns)
            ]
            rows.append([NAMES[name], label, *cells])
    return reports.table(["", "seed", *(title for title, _, _ in columns)], rows)
