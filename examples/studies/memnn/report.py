"""Text lines, tables and the JSON report of the MemNN benchmark."""

from __future__ import annotations

import datetime
import os
import platform
from typing import Any

import numpy as np

from keras_attention.version import __version__
from studies.memnn.tasks import MODELS, PAPER, WORLDS
from studies.store import Run

Row = dict[str, Any]

NAMES = {
    "memnn": "MemNN, up to 2 facts, time",
    "memnn-k1": "MemNN, the first fact, time",
    "memnn-no-time": "MemNN, up to 2 facts, no time",
    "memnn-k1-no-time": "MemNN, the first fact, no time",
    "rnn": "RNN",
    "lstm": "LSTM",
}
# Weston et al. (2014), section 5.2: accuracy in per cent. Their world differs from ours
# in details (see `datasets.simulated_world`). All values are quoted from memory.
PAPERS_COLUMNS = (
    (1, "actor"),
    (1, "actor+before"),
    (1, "actor+object+before"),
    (5, "actor+before"),
    (5, "actor+object+before"),
)
PAPERS_WORLD = {
    "memnn": (100.0, 100.0, 100.0, 100.0, 99.9),
    "memnn-k1": (99.9, 60.2, 42.5, 60.8, 44.4),
    "memnn-k1-no-time": (97.8, 31.0, 24.0, 21.9, 18.5),
    "rnn": (100.0, 60.9, 27.9, 23.8, 17.8),
    "lstm": (100.0, 64.8, 49.1, 35.2, 29.0),
}
WHAT = {
    "babi": "bAbI v1-2, 1,000 questions a task",
    "world": "simulated world, 3,000 questions to learn from",
    "names": "names that were never trained on",
    "sentences": "responses in sentences",
    "hashing": "hashing of a large memory",
    "large": "a memory on the disk",
    "real": "a memory of real triples",
    "indexes": "vector indexes of a large memory",
}


def babi_line(row: Row) -> str:
    """Formats the result of one bAbI task as a line of text."""
    return (
        f"{row['task']:2d} {row['name']:24s} {row['recipe']:5s} seed {row['seed']}  "
        f"error {row['error']:5.1f} %  paper {row['paper']:3.0f} %  "
        f"facts wrong {row['facts_error']:5.1f} %  "
        f"training error {row['train_error']:5.1f} %  {row['fit_seconds']:5.0f} s"
    )


def world_line(row: Row) -> str:
    """Formats the result of one model on simulated stories as a line of text."""
    return (
        f"simulated world, difficulty {row['difficulty']}, {row['questions']:12s} "
        f"{row['model']:13s} seed {row['seed']}  right {100 - row['error']:6.2f} %  "
        f"in training {100 - row['train_error']:6.2f} %  {row['fit_seconds']:5.0f} s"
    )


def names_line(row: Row) -> str:
    """Formats the result of one network on known and new names as a line of text."""
    return (
        f"new names, {row['stories']:18s} {row['network']:12s} seed {row['seed']}  "
        f"right with known names {100 - row['known_error']:6.2f} %, with new ones "
        f"{100 - row['new_error']:6.2f} %  {row['fit_seconds']:5.0f} s"
    )


def sentences_line(row: Row) -> str:
    """Formats the result of responses in sentences as a line of text."""
    return (
        f"responses, difficulty {row['difficulty']}, {row['questions']:19s} "
        f"seed {row['seed']}  sentences right {100 - row['sentence_error']:6.2f} %, "
        f"rooms {100 - row['error']:6.2f} %  {row['fit_seconds']:5.0f} s"
    )


def mean_of(rows: list[Row]) -> str:
    """Formats the mean over all bAbI tasks as a line of text."""
    ours = np.mean([row["error"] for row in rows])
    paper = np.mean([row["paper"] for row in rows])
    failed = sum(row["error"] > 5 for row in rows)
    return (
        f"mean error of {len(rows)} tasks {ours:.2f} %, paper {paper:.2f} %; {failed} "
        "tasks above 5 %"
    )


def world_table(rows: list[Row]) -> str:
    """Formats one line per model and one column per world, then the paper's results."""
    seeds = sorted({row["seed"] for row in rows})
    head = f"right in %, seed{'s' * (len(seeds) > 1)} {' '.join(map(str, seeds))}"
    titles = "".join(f"{f'{d} {kind}':>22s}" for d, kind in WORLDS)
    lines = [f"{head:36s}{titles}"]
    for model in MODELS:
        cells = [_right(rows, model, *world) for world in WORLDS]
        if any(cells):
            lines.append(f"{NAMES[model]:36s}" + "".join(f"{c:>22s}" for c in cells))
    for model in [m for m in PAPERS_WORLD if any(row["model"] == m for row in rows)]:
        said = dict(zip(PAPERS_COLUMNS, PAPERS_WORLD[model]))
        cells = [f"{said[world]:.1f}" if world in said else "" for world in WORLDS]
        name = f"paper, {NAMES[model]}"
        lines.append(f"{name:36s}" + "".join(f"{c:>22s}" for c in cells))
    return "\n".join(lines)


def _right(rows: list[Row], model: str, difficulty: int, kind: str) -> str:
    found = [
        100 - row["error"]
        for row in rows
        if (row["model"], row["difficulty"], row["questions"])
        == (model, difficulty, kind)
    ]
    return f"{np.mean(found):.2f}" if found else ""


def report(runs: dict[str, list[Run]]) -> dict[str, Any]:
    """Returns the JSON report, with the settings once and all results.

    Args:
        runs: the stored runs of each part. The settings are read from these runs, since
            another process may have written them.
    """
    every = [run for part in runs.values() for run in part]
    done = [WHAT[part] for part in WHAT if runs.get(part)]
    return {
        "what": "; ".join(["MemNN with supporting facts", *done]),
        "settings": {part: _settings(own) for part, own in runs.items()},
        "paper": {
            "errors": PAPER,
            "mean": float(np.mean(PAPER)),
            "world": {
                "columns": PAPERS_COLUMNS,
                "right": PAPERS_WORLD,
                "source": "Weston et al. (2014), quoted from memory",
            },
        },
        **{part: [run["result"] for run in own] for part, own in runs.items()},
        "versions": {
            "keras_attention": __version__,
            "keras": sorted({run["keras"] for run in every}),
            "backend": sorted({run["backend"] for run in every}),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "processors": os.cpu_count(),
        "date": datetime.date.today().isoformat(),
    }


def _settings(runs: list[Run]) -> dict[str, Any]:
    """Returns the settings of a part, by model name if its runs name a model."""
    for key in ("model", "network"):
        if any(key in run for run in runs):
            return {run[key]: run["settings"] for run in runs}
    return runs[0]["settings"] if runs else {}
