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
    "memnn": "MemNN, 2 facts",
    "memnn-k1": "MemNN, 1 fact",
    "memnn-no-time": "MemNN, 2 facts, no time",
    "memnn-k1-no-time": "MemNN, 1 fact, no time",
    "rnn": "RNN",
    "lstm": "LSTM",
}
LARGE = """\
| 14 million facts | measured |
|---|---|
| build, with the index | {build[seconds]:.0f} s |
| peak memory of the build ¹ | {build[peak_megabytes]:,} MB |
| on the disk | {build[bytes_a_fact]} bytes per fact |
| open, and compare checksums | {ask[open_seconds]:.1f} s |
| peak memory of 1,000 questions ¹ | {ask[peak_megabytes]:,} MB |
| a question, median | {ask[median_milliseconds]:.1f} ms |
| a question, 99th percentile | {ask[percentile_99_milliseconds]:.0f} ms |
| right, of 1,000 questions | {ask[right]} % |
| right, objects in proportion to their facts | {ask[right_by_frequency]} % |
| right, all objects evenly | {ask[right_evenly]} % |
| without index, 200 questions: same answer | {compare[same_words]} % |
| without index: a question, median | {compare[median_milliseconds]:.0f} ms |"""
REAL = """\
| {facts:,} facts of two knowledge bases | measured |
|---|---|
| build, then append {appended:,} facts | {build_seconds} s, {append_seconds} s |
| open | {open_seconds} s |
| same facts found as before the append, 100 questions | {same_after_append} % |
| same facts found as in a memory built at once, 200 questions | \
{same_as_built_at_once} % |
| right, 100 questions about old facts | {right} % |
| right, 100 questions about appended facts | {right_in_appended} % |
| a question, median CPU time | {median_processor_milliseconds} ms |"""
STORIES = {
    "babi-1": "bAbI task 1",
    "world-actor": "world, actor",
    "world-actor+object": "world, actor and object",
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
    """Formats the right answers in per cent: a row per world, a column per model."""
    models = [m for m in MODELS if any(row["model"] == m for row in rows)]
    lines = [
        [f"{world[0]}, {world[1].replace('+', ', ')}"]
        + [_right(rows, model, *world) for model in models]
        for world in WORLDS
    ]
    return table(["difficulty, questions", *(NAMES[m] for m in models)], lines)


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
    titles = ["index", "recall, hop 1", "recall, hop 2", "time", "size", "same answer"]
    lines = [
        [
            ", ".join(
                [row["kind"]] + [f"{k} {v}" for k, v in settings[row["kind"]].items()]
            ),
            *(f"{recall:.2f}" for recall in row["recall_of_hops"]),
            f"{row['milliseconds']:.2f} ms",
            f"{row['megabytes']:.0f} MB",
            f"{row['answers']['same']:.0f} %",
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
