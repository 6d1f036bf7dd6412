"""Text lines, the JSON report and the tables of the block puzzles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from studies import reports
from studies.reports import table
from studies.store import Run

NAMES = {
    "dnc": "DNC",
    "lstm": "LSTM",
    "random": "random",
    "random that stops": "random, stops at the goal",
}


def line(run: Run) -> str:
    """Formats a finished run as a line of text."""
    tests = run["result"]["tests"]
    shares = ", ".join(
        f"{what} {100 * _mean(tests, what):.1f}"
        for what in ("met", "fewest", "satisfied")
    )
    return f"{NAMES[run['model']]}, seed {run['seed']}: {shares}"


def whole(runs: list[Run]) -> dict[str, Any]:
    """Returns the JSON report."""
    order = [*NAMES]
    return {
        **reports.head("blocks"),
        "runs": sorted(runs, key=lambda run: (order.index(run["model"]), run["seed"])),
    }


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/blocks.md, and the commands."""
    runs = raw["blocks"]["runs"]
    texts = {"players": summary(runs)}
    for by in ("constraints", "goals"):
        texts[f"met by {by}"] = shares_table(runs, by, "met")
    return {**texts, "commands": commands(runs)}


def summary(runs: list[Run]) -> str:
    """Formats one row per run with its mean shares and its training."""
    rows = []
    for run in runs:
        result, tests = run["result"], run["result"]["tests"]
        trained = "history" in result
        rows.append(
            [
                _label(run),
                *(_percent(_mean(tests, w)) for w in ("met", "fewest", "satisfied")),
                f"{result['episodes']:,}" if trained else "",
                f"{result['used'] / 60:.0f} min" if trained else "",
            ]
        )
    titles = ["player", "met", "fewest moves", "constraints", "episodes", "CPU time"]
    return table(titles, rows)


def _label(run: Run) -> str:
    """Returns the name of the player, with the seed of a network."""
    name = NAMES[run["model"]]
    return f"{name}, seed {run['seed']}" if "history" in run["result"] else name


def shares_table(runs: list[Run], by: str, what: str) -> str:
    """Formats one row per run and one column per number of goals or constraints."""
    numbers = sorted({row[by] for run in runs for row in run["result"]["tests"]})
    rows = [
        [
            _label(run),
            *(
                _percent(_mean(run["result"]["tests"], what, _having(by, number)))
                for number in numbers
            ),
        ]
        for run in runs
    ]
    return table([by, *map(str, numbers)], rows)


def commands(runs: list[Run]) -> str:
    """Returns the commands that repeat these runs."""
    lines = []
    for run in runs:
        backend, settings = run["backend"], run["settings"]
        parts = [f"KERAS_BACKEND={backend}"] if backend else []
        model = f'"{run["model"]}"' if " " in run["model"] else run["model"]
        parts += ["python examples/studies/blocks --model", model]
        parts += ["--seeds", str(run["seed"])]
        if "minutes" in settings:
            parts += ["--minutes", f"{settings['minutes']:g}"]
        lines.append(" ".join(parts))
    versions = sorted(
        {f"Keras {run['keras']} on {run['backend']}" for run in runs if run["backend"]}
    )
    found = ["```bash", *lines, "```"]
    if versions:
        found += ["", f"The networks used {', '.join(versions)}."]
    return "\n".join(found)


def _having(by: str, number: int) -> Callable[[dict[str, Any]], bool]:
    return lambda row: bool(row[by] == number)


def _mean(
    tests: list[dict[str, Any]],
    what: str,
    chosen: Callable[[dict[str, Any]], bool] = lambda row: True,
) -> float:
    return float(np.mean([row[what] for row in tests if chosen(row)]))


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
