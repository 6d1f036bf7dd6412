"""Text lines, tables and the JSON report of the MemNN benchmark."""

from __future__ import annotations

import datetime
import os
import platform
from typing import Any

import numpy as np

from keras_attention.version import __version__
from studies.memnn.tasks import MODELS, PAPER, WORLDS
from studies.reports import table
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
LARGE = """\
| | bar | seen |
|---|---|---|
| build, with the index | ≤ 20 min | {build[seconds]:.0f} s \
({build[processor_seconds]} s of the processor) |
| peak memory of the build, above what importing takes | ≤ 1.5 GB | \
{build[peak_megabytes]:,} MB |
| bytes per fact on the disk | ≤ 120 | {build[bytes_a_fact]} |
| open, with a comparison of checksums | ≤ 5 s | {ask[open_seconds]:.1f} s |
| peak memory of 1,000 questions, above what importing takes | ≤ 1.5 GB | \
{ask[peak_megabytes]:,} MB |
| median time per question | ≤ 25 ms | {ask[median_milliseconds]:.1f} ms \
({ask[median_processor_milliseconds]:.1f} ms of the processor) |
| 99th percentile | ≤ 100 ms | {ask[percentile_99_milliseconds]:.0f} ms \
({ask[percentile_99_processor_milliseconds]:.1f} ms of the processor) |
| same answer as from the scores of all facts, 200 questions | ≥ 99 % | \
{compare[same_words]} % |
| right, of 1,000 questions | | {ask[right]} % ({ask[right_by_frequency]} % by \
frequency, {ask[right_evenly]} % evenly) |"""
REAL = """\
| | bar | seen |
|---|---|---|
| append {appended:,} facts, to have {facts:,} | ≤ 5 s | {append_seconds} s |
| same facts found after the append, 100 questions to which no new fact is an answer \
| all | {same_after_append} % |
| same facts found as in a memory of all facts built at once, 200 questions | all | \
{same_as_built_at_once} % |
| right, 100 questions about old facts, 100 about new ones | | {right} %, \
{right_in_appended} % |
| build, open | | {build_seconds} s, {open_seconds} s |
| median time per question, of the processor | | {median_processor_milliseconds} ms |"""
STORIES = {
    "babi-1": "bAbI task 1",
    "world-actor": "simulated world, difficulty 5, actor",
    "world-actor+object": "simulated world, difficulty 5, actor and object",
}
NETWORKS = {
    "memnn": "`MemNN`, new words",
    "memnn-plain": "`MemNN` without new words",
    "memn2n": "`MemN2N`, new words",
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
    """Formats the right answers in per cent, and the paper's for the same models."""
    models = [m for m in MODELS if any(row["model"] == m for row in rows)]
    lines = [[NAMES[m], *(_right(rows, m, *world) for world in WORLDS)] for m in models]
    for model in [m for m in PAPERS_WORLD if m in models]:
        said = dict(zip(PAPERS_COLUMNS, PAPERS_WORLD[model]))
        cells = [f"{said[world]:.1f}" if world in said else "" for world in WORLDS]
        lines.append([f"paper: {NAMES[model]}", *cells])
    return table(["right in %", *(f"{d}, {kind}" for d, kind in WORLDS)], lines)


def _right(rows: list[Row], model: str, difficulty: int, kind: str) -> str:
    world = (model, difficulty, kind)
    errors = [
        row["error"]
        for row in rows
        if (row["model"], row["difficulty"], row["questions"]) == world
    ]
    return f"{100 - np.mean(errors):.1f}" if errors else ""


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/memnn.md."""
    names = ("babi", "names", "indexes", "large")
    babi, new_names, indexes, large = (raw[f"memnn-{name}"] for name in names)
    return {
        "babi": _babi_table(babi["babi"]),
        "world": world_table(
            raw["memnn-world"]["world"] + raw["memnn-before"]["world"]
        ),
        "names": _names_table(new_names["names"]),
        "large": LARGE.format(**large["large"][0]),
        "real": REAL.format(**large["real"][0]),
        "indexes": _indexes_table(
            indexes["indexes"], indexes["settings"]["indexes"]["indexes"]
        ),
    }


def _babi_table(rows: list[Row]) -> str:
    lines = [
        [
            f"{row['task']} {row['name']}",
            f"{row['error']:.1f}",
            row["recipe"],
            f"{row['paper']:g}",
        ]
        for row in rows
    ]
    means = [f"**{np.mean([row[k] for row in rows]):.2f}**" for k in ("error", "paper")]
    lines.append(["**mean**", means[0], "", means[1]])
    return table(["task", "error", "recipe", "paper"], lines)


def _names_table(rows: list[Row]) -> str:
    lines = [
        [
            STORIES[row["stories"]],
            NETWORKS[row["network"]],
            f"{100 - row['known_error']:.1f}",
            f"{100 - row['new_error']:.1f}",
        ]
        for row in rows
    ]
    return table(["stories", "network", "known names", "new names"], sorted(lines))


def _indexes_table(rows: list[Row], settings: dict[str, Any]) -> str:
    titles = ["index", "recall@1, first and second hop", "time per query"]
    titles += ["speed compared with flat", "size", "build"]
    titles += ["scored facts per question", "same answer as without index"]
    titles += ["time per question"]
    lines = [
        [
            ", ".join(
                [row["kind"]] + [f"{k} {v}" for k, v in settings[row["kind"]].items()]
            ),
            ", ".join(f"{recall:.2f}" for recall in row["recall_of_hops"]),
            f"{row['milliseconds']:.2f} ms",
            f"{row['times_flat']:.0f}×",
            f"{row['megabytes']:.0f} MB",
            f"{row['build_seconds']:.0f} s",
            f"{row['answers']['scored']:,.0f}",
            f"{row['answers']['same']:.0f} %",
            f"{row['answers']['milliseconds']:.0f} ms",
        ]
        for row in rows
    ]
    return table(titles, lines)


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
