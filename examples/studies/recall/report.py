"""Text lines, the JSON report, the tables and the picture of the results page."""

from __future__ import annotations

import statistics
from typing import Any

from studies import reports
from studies.recall.models import MEMORIES
from studies.recall.training import RATES, SLICES, TRIED_SEED
from studies.store import Run

TOKENS, PAIRS = zip(*SLICES)
DRAWN_DIM = 128
LABELS = {
    "x_label": "pairs (in 64 to 512 tokens)",
    "title": f"Recall of key-value pairs, D = {DRAWN_DIM}",
}


def line(run: Run) -> str:
    """Formats a run as a line of text."""
    result = run["result"]
    shares = " ".join(f"{100 * share:.2f}" for share in result["accuracy"])
    return (
        f"{run['model']}, D = {run['dim']}, seed {run['seed']}, rate {run['rate']:g}: "
        f"{shares} %, {result['weights']:,} weights, {result['steps']:,} steps, "
        f"{result['cpu_seconds']:.0f} + {result['test_seconds']:.0f} s of CPU time"
    )


def whole(runs: list[Run]) -> dict[str, Any]:
    """Returns the JSON report."""
    names = [*MEMORIES]
    order = sorted(
        runs,
        key=lambda run: (
            names.index(run["model"]),
            run["dim"],
            run["seed"],
            run["rate"],
        ),
    )
    return {**reports.head("recall"), "runs": order}


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/recall.md."""
    runs = raw["recall"]["runs"]
    tried = [run for run in runs if run["seed"] == TRIED_SEED]
    tested = _tested(runs)
    training = []
    for (name, dim), group in tested.items():
        results = [run["result"] for run in group]
        steps = sorted(result["steps"] for result in results)
        weights, rate = f"{results[0]['weights']:,}", f"{group[0]['rate']:g}"
        training.append([MEMORIES[name].name, str(dim), weights, rate, _range(steps)])
    rates = sorted({run["rate"] for run in tried})
    longer = raw.get("recall-longer", {"runs": []})["runs"]
    return {
        "models": reports.table(
            ["memory", "network"],
            [
                [memory.name, memory.description]
                for name, memory in MEMORIES.items()
                if any(model == name for model, _ in tested)
            ],
        ),
        "accuracy": _accuracy(tested),
        "longer": _accuracy(_tested(longer)),
        "training": reports.table(
            ["memory", "D", "weights", "learning rate", "steps"], training
        ),
        "rates": reports.table(
            ["memory", *(f"{rate:g}" for rate in rates)], _tried(tried, rates)
        ),
    }


def _accuracy(tested: dict[tuple[str, int], list[Run]]) -> str:
    """Returns the table of right answers and of what a network must keep."""
    rows = []
    for (name, dim), group in tested.items():
        results = [run["result"] for run in group]
        memory = MEMORIES[name]
        cells = [_mean([100 * r["accuracy"][n] for r in results]) for n in _each()]
        numbers = memory.state(dim, results[0]["size"], TOKENS[-1])
        state = f"{4 * numbers / 1024:,.0f}"
        rows.append([memory.name, str(dim), state, *cells, str(len(group))])
    sizes = [f"{pairs} in {tokens}" for tokens, pairs in SLICES]
    return reports.table(["memory", "D", "KiB", *sizes, "seeds"], rows)


def series(runs: list[Run], dim: int = DRAWN_DIM) -> list[dict[str, Any]]:
    """Returns the input of `plot_recall`: the networks of width `dim`."""
    curves = []
    for (name, width), group in _tested(runs).items():
        if width == dim:
            shares = [run["result"]["accuracy"] for run in group]
            size = group[0]["result"]["size"]
            state = [MEMORIES[name].state(dim, size, tokens) for tokens in TOKENS]
            curves.append(
                {
                    "name": MEMORIES[name].name,
                    "x": list(PAIRS),
                    "y": [round(statistics.mean(part), 4) for part in zip(*shares)],
                    "bytes": [4 * numbers for numbers in state],
                }
            )
    return curves


def best(tried: list[Run]) -> Run:
    """Returns the run with the highest mean accuracy; see `RATES`."""

    def key(run: Run) -> tuple[float, bool]:
        return statistics.mean(run["result"]["accuracy"]), run["rate"] == RATES[0]

    return max(tried, key=key)


def _tested(runs: list[Run]) -> dict[tuple[str, int], list[Run]]:
    """Returns the tested runs; of a model that tried rates, those with the best."""
    groups = _grouped([run for run in runs if run["seed"] != TRIED_SEED])
    tried = _grouped([run for run in runs if run["seed"] == TRIED_SEED])
    chosen = {name: best(group)["rate"] for (name, _), group in tried.items()}
    selected = {
        (name, dim): [r for r in group if r["rate"] == chosen.get(name, r["rate"])]
        for (name, dim), group in groups.items()
    }
    return {key: group for key, group in selected.items() if group}


def _grouped(runs: list[Run]) -> dict[tuple[str, int], list[Run]]:
    """Returns the runs of each model and width, in the order of `MEMORIES`."""
    groups: dict[tuple[str, int], list[Run]] = {}
    for name in MEMORIES:
        for run in sorted(runs, key=lambda run: run["dim"]):
            if run["model"] == name:
                groups.setdefault((name, run["dim"]), []).append(run)
    return groups


def _each() -> range:
    return range(len(SLICES))


def _mean(shares: list[float]) -> str:
    mean = f"{statistics.mean(shares):.1f}"
    return f"{mean} ± {statistics.stdev(shares):.1f}" if len(shares) > 1 else mean


def _range(numbers: list[int]) -> str:
    low, high = numbers[0], numbers[-1]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _tried(tried: list[Run], rates: list[float]) -> list[list[str]]:
    rows = []
    for (name, _), group in _grouped(tried).items():
        means = {
            run["rate"]: 100 * statistics.mean(run["result"]["accuracy"])
            for run in group
        }
        cells = [f"{means[rate]:.2f}" if rate in means else "" for rate in rates]
        rows.append([MEMORIES[name].name, *cells])
    return rows
