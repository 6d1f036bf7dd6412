"""The tables of the command `copying`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from studies import reports
from studies.store import Run

KINDS = {
    "copy": "`copy=8`",
    "none": "without copying",
    "replaced": "unknown words replaced by attention",
}
MEASURES = {
    "dates": (("names", "names", "names right"), ("names", "exact", "exact")),
    "tatoeba": (("names", "names", "names right"), ("plain", "bleu", "BLEU")),
}


def values(runs: Sequence[Run], kind: str, test: str, measure: str) -> list[float]:
    """Returns a measure of one way to write names, for each seed that has it."""
    results = [run["result"]["tests"][test].get(kind) for run in runs]
    return [result[measure] for result in results if result is not None]


def table(runs: Sequence[Run]) -> str:
    """Formats the measures of all seeds, one line for each way to write names."""
    measures = MEASURES[runs[0]["data"]]
    lines = []
    for kind, name in KINDS.items():
        cells = [
            f"{title} {' '.join(f'{x:g}' for x in values(runs, kind, test, measure))}"
            for test, measure, title in measures
        ]
        lines.append(f"{name:36}{'; '.join(cells)}")
    return "\n".join(lines)


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/copying.md."""
    return {
        name: _table(raw[name]["runs"], MEASURES[name])
        for name in MEASURES
        if name in raw
    }


def _table(runs: Sequence[Run], measures: Sequence[tuple[str, str, str]]) -> str:
    titles = ["", "seeds"]
    for _, _, title in measures:
        titles += [f"{title}, mean", "lowest"]
    rows = []
    for kind, name in KINDS.items():
        counts = values(runs, kind, "names", "names")
        cells = [name, str(len(counts))]
        for test, measure, _ in measures:
            found = values(runs, kind, test, measure)
            for x in (np.mean(found), min(found)) if found else ():
                cells.append(f"{x:.2f}" if measure == "bleu" else f"{100 * x:.1f} %")
        if counts:
            rows.append(cells)
    return reports.table(titles, rows)
