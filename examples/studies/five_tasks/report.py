"""Text lines, the JSON report and the results page."""

from __future__ import annotations

import shlex
import statistics
from typing import Any

from studies import reports
from studies.five_tasks.models import FAMILIES
from studies.five_tasks.tasks import TASKS
from studies.five_tasks.training import MINUTES, SEEDS, TRIED_SEED
from studies.store import Run


def line(run: Run) -> str:
    """Formats a run as a line of text."""
    result = run["result"]
    start = f"{FAMILIES[run['model']].name}, {run['task']}, seed {run['seed']}"
    if "skipped" in result:
        return f"{start}: skipped, {result['skipped']}"
    return (
        f"{start}, rate {run['rate']:g}: {100 * result['answers']:.1f} % of the "
        f"answers, {100 * result['stories']:.1f} % of the stories, "
        f"{result['weights']:,} weights, {result['steps']:,} steps, "
        f"{result['cpu_seconds']:.0f} s of CPU time"
    )


def whole(runs: list[Run]) -> dict[str, Any]:
    """Returns the JSON report."""
    return {
        **reports.head("five-tasks"),
        "runs": sorted(
            runs,
            key=lambda run: (
                [*FAMILIES].index(run["model"]),
                [*TASKS].index(run["task"]),
                run["seed"],
                run["rate"],
            ),
        ),
    }


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/five-tasks.md, and the command."""
    runs = raw["five-tasks"]["runs"]
    tried = [run for run in runs if run["seed"] == TRIED_SEED]
    tested = [run for run in runs if run["seed"] != TRIED_SEED]
    tasks = [
        [name, task.description, task.rule, f"{100 * task.guess:.1f} %"]
        for name, task in TASKS.items()
    ]
    families = [[family.name, family.description] for family in FAMILIES.values()]
    return {
        "tasks": reports.table(["task", "facts and answers", "guess", "right"], tasks),
        "models": reports.table(["model", "what it is"], families),
        "answers": _scores(tested, "answers"),
        "training": _training(tested),
        "rates": _tried(tried),
        "command": f"```bash\n{_command(tested, tried)}\n```",
    }


def _command(own: list[Run], tried: list[Run]) -> str:
    """Returns the command of these runs, with the options that are not the default."""
    runs = own or tried
    parts = [f"KERAS_BACKEND={runs[0]['backend']} python examples/studies/five_tasks"]
    names: dict[str, tuple[str, list[Any]]] = {
        "models": ("model", [*FAMILIES]),
        "tasks": ("task", [*TASKS]),
        "seeds": ("seed", list(SEEDS)),
    }
    for option, (field, default) in names.items():
        values = {run[field] for run in runs}
        if values != set(default):
            order = [value for value in default if value in values]
            order += sorted(values - set(default))
            parts += [f"--{option}", *(shlex.quote(str(value)) for value in order)]
    if runs[0]["settings"]["minutes"] != MINUTES:
        parts += ["--minutes", f"{runs[0]['settings']['minutes']:g}"]
    if not tried:
        parts += ["--rate", f"{runs[0]['rate']:g}"]
    parts.append("--out runs.jsonl --json five-tasks.json")
    return " ".join(parts)


def _of(runs: list[Run], model: str, task: str) -> list[Run]:
    return [run for run in runs if (run["model"], run["task"]) == (model, task)]


def _results(runs: list[Run], model: str, task: str, score: str) -> list[float]:
    results = [run["result"] for run in _of(runs, model, task)]
    return [100 * result[score] for result in results if score in result]


def _scores(runs: list[Run], score: str) -> str:
    """Formats the mean of the seeds, ± their standard deviation, in per cent."""
    rows = []
    for name in _models(runs):
        cells = []
        for task in TASKS:
            results = _results(runs, name, task, score)
            cell = f"{statistics.mean(results):.1f}" if results else ""
            if len(results) > 1:
                cell += f" ± {statistics.stdev(results):.1f}"
            if not results and _of(runs, name, task):
                cell = "skipped"
            cells.append(cell)
        rows.append([FAMILIES[name].name, *cells])
    return reports.table(["model", *TASKS], rows)


def _training(runs: list[Run]) -> str:
    """Formats the rates and steps of each model, and what was skipped."""
    rows = []
    for name in _models(runs):
        of_model = [run for run in runs if run["model"] == name]
        done = [run["result"] for run in of_model if "skipped" not in run["result"]]
        rates = sorted({run["rate"] for run in of_model})
        steps = _range([result["steps"] for result in done])
        rows.append([FAMILIES[name].name, ", ".join(f"{r:g}" for r in rates), steps])
    table = reports.table(["model", "learning rate", "steps"], rows)
    skipped = sorted(
        {
            f"- {FAMILIES[run['model']].name}, {run['task']}: "
            f"{run['result']['skipped']}"
            for run in runs
            if "skipped" in run["result"]
        }
    )
    return table + ("\n\nSkipped:\n\n" + "\n".join(skipped) if skipped else "")


def _tried(runs: list[Run]) -> str:
    rates = sorted({run["rate"] for run in runs})
    rows = []
    for name in _models(runs):
        cells = []
        for rate in rates:
            of_rate = [r for r in runs if (r["model"], r["rate"]) == (name, rate)]
            answers = of_rate[0]["result"].get("answers") if of_rate else None
            cells.append("" if answers is None else f"{100 * answers:.1f}")
        rows.append([FAMILIES[name].name, *cells])
    return reports.table(["model", *(f"{rate:g}" for rate in rates)], rows)


def _models(runs: list[Run]) -> list[str]:
    return [name for name in FAMILIES if any(run["model"] == name for run in runs)]


def _range(numbers: list[int]) -> str:
    if not numbers:
        return ""
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
