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
    """Returns the tables of docs/results/dnc.md by task, with the commands."""
    texts = {}
    for name in TASKS:
        same_task = [
            run for run in raw["dnc"]["runs"] if run["task"].split()[0] == name
        ]
        if same_task:
            table = TABLES.get(name, runs_table)(same_task)
            texts[name] = f"{table}\n\n{commands(same_task)}"
    return texts


def runs_table(runs: list[Run]) -> str:
    """Formats one row per run and one column per test score."""
    columns = list(
        dict.fromkeys(
            (test, score)
            for run in runs
            for test, scores in run["result"]["tests"].items()
            for score in scores
            if score not in (COUNT, "slots")
        )
    )
    rows = [
        [
            name_of(run),
            str(run["seed"]),
            *(
                _percent(run["result"]["tests"].get(test, {}).get(score))
                for test, score in columns
            ),
            *_training(run),
        ]
        for run in runs
    ]
    titles = [f"{test}: {score}" for test, score in columns]
    return reports.table(["network", "seed", *titles, *TRAINING], rows)


def slots_table(runs: list[Run]) -> str:
    """Formats a training table, then one row per number of slots and ε of each run."""
    columns: dict[tuple[str, str], None] = {}
    found: dict[tuple[str, int, int, str], dict[tuple[str, str], float]] = {}
    for run in runs:
        for name, scores in run["result"]["tests"].items():
            test, slots, after = _slots_of(name, run["settings"]["network"])
            key = (_label(run), run["seed"], slots, after)
            for score, value in scores.items():
                if score != COUNT:
                    columns[test, score] = None
                    found.setdefault(key, {})[test, score] = value
    rows = [
        [
            network,
            str(seed),
            f"{slots:,}{after}",
            *(_percent(s.get(c)) for c in columns),
        ]
        for (network, seed, slots, after), s in sorted(found.items())
    ]
    titles = [f"{test}: {score}" for test, score in columns]
    tables = [
        reports.table(
            ["network", "seed", *TRAINING],
            [[_label(run), str(run["seed"]), *_training(run)] for run in runs],
        ),
        reports.table(["network", "seed", "slots", *titles], rows),
    ]
    traces = [(run, trace) for run in runs for trace in run["result"].get("traces", ())]
    if traces:
        names = [name for name in traces[0][1] if name not in ("slots", "free slots")]
        rows = [
            [_label(run), str(run["seed"]), f"{trace['slots']:,}"]
            + [_percent(trace[name]) for name in names]
            + [f"{trace['free slots']:.0f}"]
            for run, trace in traces
        ]
        length = traces[0][0]["settings"]["training"]["traced"]
        titles = ["network", "seed", "slots", *names, "least free slots"]
        tables.append(f"Traces of {length} vectors:\n\n{reports.table(titles, rows)}")
    return "\n\n".join(tables)


def _label(run: Run) -> str:
    """Returns the network's name, with the number of a bAbI task."""
    number = run["task"].split()[1:]
    return ", task ".join([name_of(run), *number])


def _slots_of(name: str, network: dict[str, Any]) -> tuple[str, int, str]:
    """Splits the name of a test: the test, the number of slots, and what follows."""
    match = re.fullmatch(r"(.*), (\d+) slots(.*)", name)
    if match is None:
        return name, network["memory_slots"], ""
    return match[1], int(match[2]), match[3]


def walks_table(runs: list[Run]) -> str:
    """Formats one row per run, then one row per test with its first score."""
    names = [f"{name_of(run)}, seed {run['seed']}" for run in runs]
    training = reports.table(
        ["network", *TRAINING], [[n, *_training(run)] for n, run in zip(names, runs)]
    )
    tests = list(runs[0]["result"]["tests"])
    scores = runs[0]["result"]["tests"][tests[0]]
    score = next(name for name in ("walks", "answers", "shortest") if name in scores)
    right = [
        [test, *(_percent(run["result"]["tests"][test][score]) for run in runs)]
        for test in tests
    ]
    title = "shortest paths" if score == "shortest" else f"{score} right"
    return f"{training}\n\n{reports.table([title, *names], right)}"


def babi_table(runs: list[Run]) -> str:
    """Formats one row per run with its error in per cent and the paper's."""
    rows = []
    for run in runs:
        number = int(run["task"].split()[1])
        right = run["result"]["tests"]["test"]["answers"]
        papers = (BABI_PAPER.get(number), BABI_MEMN2N.get(number))
        rows.append(
            [
                str(number),
                name_of(run),
                str(run["seed"]),
                f"{100 * (1 - right):.1f}",
                *("" if paper is None else f"{paper:.1f}" for paper in papers),
                *_training(run),
            ]
        )
    titles = ["task", "network", "seed", "error", "DNC, Graves et al.", "MemN2N, paper"]
    return reports.table([*titles, *TRAINING], rows)


def joint_table(runs: list[Run]) -> str:
    """Formats the training of each run, its errors and the papers'."""
    rows = [[name_of(run), str(run["seed"]), *_training(run)] for run in runs]
    return joint_tables.table(runs, reports.table(["network", "seed", *TRAINING], rows))


TABLES = {
    **dict.fromkeys(STORIES, babi_table),
    **dict.fromkeys(
        ("traversal", "underground", "underground-path", "family-tree"), walks_table
    ),
    JOINT: joint_table,
    **dict.fromkeys(RESIZED, slots_table),
}
COUNT = "sequences tested"
TRAINING = ["lesson", "weights", "steps", "budget", "CPU", "time"]


def _training(run: Run) -> list[str]:
    result = run["result"]
    lesson = f"{result['lesson']} of {result['of_lessons']}"
    if result["solved"]:
        lesson += ", passed"
    if "share" in result:
        lesson += f", unfinished ({100 * result['share']:.0f} % of the budget)"
    return [
        lesson,
        f"{result['weights']:,}",
        f"{result['steps']:,}",
        f"{run['settings']['minutes']:g} min",
        _device(result) if "device" in result else f"{result['cpu_seconds']:.0f} s",
        f"{result['seconds']:.0f} s",
    ]


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
        if name not in (COUNT, "slots")
    )


def _percent(score: float | None) -> str:
    return "" if score is None else f"{100 * score:.2f}"
