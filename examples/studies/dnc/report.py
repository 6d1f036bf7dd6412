"""Text lines, the JSON report and the tables of the results page."""

from __future__ import annotations

import re
from typing import Any

from studies import reports
from studies.dnc import joint_tables
from studies.dnc.tasks import JOINT, RESIZED, STORIES, TASKS
from studies.store import Run

NAMES = {"dnc": "DNC", "ntm": "NTM", "lstm": "LSTM"}
# Test errors in per cent, one network trained on all tasks together.
# Graves et al. (2016), extended data table 1, mean of 20 runs of DNC1.
BABI_PAPER = {1: 9.0, 2: 39.2, 4: 0.4, 6: 6.9, 15: 27.2}
# Sukhbaatar et al. (2015), one network per task: position encoding, linear start,
# random noise and a nonlinearity.
BABI_MEMN2N = {1: 0.0, 2: 0.3, 4: 0.0, 6: 0.1, 15: 0.0}


def line(run: Run) -> str:
    """Formats a finished run as a line of text."""
    result = run["result"]
    tests = "; ".join(f"{name}: {_scores(s)}" for name, s in result["tests"].items())
    if run["task"] == JOINT:
        tests += f"; mean error {joint_tables.mean_error(result['tests']):.2f} %"
    return (
        f"{run['task']}, {name_of(run)}, seed {run['seed']}: {tests}; lesson "
        f"{result['lesson']} of {result['of_lessons']}"
        f"{', passed' if result['solved'] else ''}"
        f"{', unfinished' if 'share' in result else ''}; {result['steps']} steps, "
        f"{result['seconds']:.0f} s, {result['cpu_seconds']:.0f} s "
        f"{_device(result)}"
    )


def _device(result: dict[str, Any]) -> str:
    """Returns "of CPU time", or "on a GPU" and the like for an accelerator."""
    return f"on a {result['device'].upper()}" if "device" in result else "of CPU time"


def name_of(run: Run) -> str:
    """Returns the network's name in tables."""
    name = NAMES[run["model"]]
    if run["model"] != "dnc" or run["links"] is True:
        return name
    return f"{name}, {run['links'] or 'no'} links"


def whole(runs: list[Run]) -> dict[str, Any]:
    """Returns the JSON report."""
    return {
        **reports.head("dnc"),
        "babi_paper": {
            "Graves et al. (2016), DNC, mean of 20 runs": BABI_PAPER,
            "Sukhbaatar et al. (2015), MemN2N": BABI_MEMN2N,
        },
        "runs": sorted(runs, key=_place),
    }


def _place(run: Run) -> Any:
    name, *number = run["task"].split()
    order = list(TASKS).index(name), *map(int, number)
    links = run["links"] is not True, str(run["links"])
    return order, list(NAMES).index(run["model"]), links, run["seed"]


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/dnc.md, with the commands.

    Each task has a table, and so has each of `TOGETHER`.
    """
    by_task: dict[str, list[Run]] = {}
    for run in raw["dnc"]["runs"]:
        by_task.setdefault(run["task"].split()[0], []).append(run)
    groups = {name: (name,) for name in by_task} | TOGETHER
    texts = {}
    for name, of_group in groups.items():
        runs = [run for task in of_group for run in by_task.get(task, [])]
        if runs:
            table = TABLES.get(name, runs_table)(runs)
            texts[name] = f"{table}\n\n{commands(runs)}"
    return texts


def runs_table(runs: list[Run]) -> str:
    """Formats one row per run and one column per test, with its strictest score."""
    tests = dict.fromkeys(test for run in runs for test in run["result"]["tests"])
    labels = {_label(run) for run in runs}
    several = len(labels) < len(runs)  # the same network on several tasks
    rows = [
        [
            *([run["task"]] if several else []),
            _label(run),
            *(_percent(_strictest(run, test)) for test in tests),
            *_training(run),
        ]
        for run in runs
    ]
    head = ["task", "network"] if several else ["network"]
    titles = ["right" if test == "test" else test for test in tests]
    return reports.table([*head, *titles, *TRAINING], rows)


# From the strictest score of a test to the most lenient one.
SCORES = ("sequences", "walks", "shortest", "solved", "answers", "bits")


def _strictest(run: Run, test: str) -> float | None:
    """Returns the strictest score of a test, or None if the run lacks the test."""
    scores = run["result"]["tests"].get(test, {})
    return next((scores[name] for name in SCORES if name in scores), None)


def slots_table(runs: list[Run]) -> str:
    """Formats a row per number of slots and ε of each run."""
    tests: dict[str, None] = {}
    scores: dict[tuple[str, int, str], dict[str, float | None]] = {}
    for run in runs:
        for name in run["result"]["tests"]:
            test, slots, after = _slots_of(name, run["settings"]["network"])
            tests[test] = None
            key = (_label(run), slots, after)
            scores.setdefault(key, {})[test] = _strictest(run, name)
    several = len(runs) > 1
    rows = [
        ([network] if several else [])
        + [f"{slots:,}{after}", *(_percent(shares.get(test)) for test in tests)]
        for (network, slots, after), shares in sorted(scores.items())
    ]
    titles = [*(["network"] if several else []), "slots", *tests]
    return reports.table(titles, rows)


def _slots_of(name: str, network: dict[str, Any]) -> tuple[str, int, str]:
    """Splits the name of a test: the test, the number of slots, and what follows."""
    match = re.fullmatch(r"(.*), (\d+) slots(.*)", name)
    if match is None:
        return name, network["memory_slots"], ""
    return match[1], int(match[2]), match[3]


def columns_table(runs: list[Run]) -> str:
    """Formats one column per run: a row per test, then rows about the training."""
    first = runs[0]["result"]["tests"]
    kind = next(name for name in SCORES if name in first[next(iter(first))])
    by_chance = [scores.get(f"{kind} by chance") for scores in first.values()]
    rows = []
    for test, chance in zip(first, by_chance):
        row = [test, *(_percent(_strictest(run, test)) for run in runs)]
        rows.append(row + ([_percent(chance)] if any(by_chance) else []))
    for title, *cells in zip(TRAINING, *(_training(run) for run in runs)):
        rows.append([title, *cells, *([""] if any(by_chance) else [])])
    titles = [RIGHT[kind], *map(_label, runs)]
    return reports.table(titles + (["by chance"] if any(by_chance) else []), rows)


RIGHT = {
    "walks": "walks right",
    "shortest": "shortest paths",
    "answers": "answers right",
    "solved": "puzzles solved",
}


def babi_table(runs: list[Run]) -> str:
    """Formats one row per run with its error in per cent and the papers'."""
    rows = []
    for run in sorted(runs, key=lambda run: int(run["task"].split()[1])):
        name, number = run["task"].split()
        right = run["result"]["tests"]["test"]["answers"]
        papers = (BABI_PAPER.get(int(number)), BABI_MEMN2N.get(int(number)))
        rows.append(
            [
                number,
                name,
                f"{100 * (1 - right):.1f}",
                *("" if paper is None else f"{paper:.1f}" for paper in papers),
                *_training(run),
            ]
        )
    titles = ["task", "command", "error", "DNC, Graves et al.", "MemN2N, paper"]
    return reports.table([*titles, *TRAINING], rows)


def joint_table(runs: list[Run]) -> str:
    """Formats the training of each run, its errors and the papers'."""
    rows = []
    for run in runs:
        rows.append([_label(run), f"{run['result']['steps']:,}", *_training(run)])
    training = reports.table(["network", "steps", *TRAINING], rows)
    return joint_tables.table(runs, training)


# Tasks that share a table.
TOGETHER = {
    "copies": ("copy", "ntm-copy"),
    "lists": ("repeat-copy", "recall", "sort"),
    "stories": ("babi", "babi-renamed", "babi-curriculum"),
}
GRAPHS = ("traversal", "shortest-path", "underground", "underground-path")
TABLES = {
    **dict.fromkeys((*STORIES, "stories"), babi_table),
    **dict.fromkeys((*GRAPHS, "family-tree", "blocks"), columns_table),
    JOINT: joint_table,
    **dict.fromkeys(RESIZED, slots_table),
}
TRAINING = ["last lesson", "time"]


def _label(run: Run) -> str:
    """Returns the network's name and the seed."""
    return f"{name_of(run)}, seed {run['seed']}"


def _training(run: Run) -> list[str]:
    """Returns the lesson that a run reached, and its time."""
    result = run["result"]
    lesson = f"{result['lesson']} of {result['of_lessons']}"
    if result["solved"]:
        lesson += ", passed"
    if "share" in result:
        lesson += f", unfinished ({100 * result['share']:.0f} % of the budget)"
    if "device" in result:
        return [lesson, f"{result['seconds']:,.0f} s {_device(result)}"]
    return [lesson, f"{result['cpu_seconds']:,.0f} s"]


def commands(runs: list[Run]) -> str:
    """Returns the commands that repeat these runs."""
    found: dict[str, list[str]] = {}
    for run in runs:
        name, *number = run["task"].split()
        parts = [f"KERAS_BACKEND={run['backend']} python", PATH, name]
        if number:
            parts += ["--tasks", *number]
        if run["model"] != TASKS[name].model:
            parts += ["--model", run["model"]]
        if run["model"] == "dnc" and run["links"] != TASKS[name].network.get(
            "links", True
        ):
            parts += ["--links", str(run["links"]) if run["links"] else "none"]
        if run["settings"]["minutes"] != TASKS[name].minutes:
            parts += ["--minutes", f"{run['settings']['minutes']:g}"]
        size = run["settings"]["training"]["batch_size"]
        if size != TASKS[name].training["batch_size"]:
            parts += ["--batch-size", str(size)]
        found.setdefault(" ".join(parts), []).append(str(run["seed"]))
    lines = [f"{start} --seeds {' '.join(seeds)}" for start, seeds in found.items()]
    return "\n".join(["```bash", *lines, "```"])


PATH = "examples/studies/dnc"


def _scores(scores: dict[str, float]) -> str:
    return ", ".join(
        f"{name} {_percent(score)}"
        for name, score in scores.items()
        if name not in ("sequences tested", "slots")
    )


def _percent(score: float | None) -> str:
    return "" if score is None else f"{100 * score:.2f}"
