"""Compares nine models on five tasks, with equal weights and equal CPU time.

    python examples/studies/five_tasks --out runs.jsonl --page tables.md
    python examples/studies/five_tasks --models dnc ntm --tasks copy sort

For each model, the command first tries `RATES` on one task with a seed and validation
stories of their own, and uses the best rate for all runs. `--rate` sets the rate
instead. Each finished run adds a line to the file given by `--out`. Repeat the command
to resume; at most the current run is lost. The results and the tables contain the runs
of this command only, not all runs of the file.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from studies import command_line
from studies.command_line import UsageError
from studies.five_tasks import report
from studies.five_tasks.models import FAMILIES, WEIGHTS, DoesNotFitError, sized
from studies.five_tasks.tasks import TASKS
from studies.five_tasks.training import (
    MINUTES,
    SEEDS,
    TEST,
    TRAINING,
    TRIED_SEED,
    VALIDATION,
    run,
)
from studies.store import Run, Store, opened

NEEDED = ("task", "model", "seed", "rate", "backend", "keras", "settings", "result")
RATES = (2e-3, 5e-4, 8e-3)  # of equally good ones, the first is used
TRIED_ON = "recall"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `five-tasks`."""
    add = parser.add_argument
    add("--models", nargs="+", choices=[*FAMILIES], default=[*FAMILIES])
    add("--tasks", nargs="+", choices=[*TASKS], default=[*TASKS])
    add("--minutes", type=float, default=MINUTES, help="of CPU time per run")
    add("--rate", type=float, help="the learning rate, instead of trying several")
    command_line.add_runs(parser, SEEDS, page=True)


def main(args: argparse.Namespace) -> int:
    """Performs the missing runs, prints them and writes the results."""
    command_line.above_zero(args, "minutes", "rate")
    if TRIED_SEED in args.seeds:
        raise UsageError(f"--seeds must not contain {TRIED_SEED}, which tries rates.")
    store = opened(args.out, NEEDED)
    settings = {**TRAINING, "minutes": args.minutes, "weights": WEIGHTS}
    runs: list[Run] = []  # of this command; the store may have others
    rates = {}
    for name in dict.fromkeys(args.models):
        rates[name] = args.rate
        if args.rate is None:
            tried = [
                _performed(store, TRIED_ON, name, TRIED_SEED, rate, settings)
                for rate in RATES
            ]
            rates[name] = best(tried)["rate"]
            runs += tried
    for seed in dict.fromkeys(args.seeds):
        for task in dict.fromkeys(args.tasks):
            for name, rate in rates.items():
                runs.append(_performed(store, task, name, seed, rate, settings))
                results = report.whole(runs)
                tables = report.tables({"five-tasks": results})
                command_line.write(args, results, tables)
    return 0


def best(tried: list[Run]) -> Run:
    """Returns the run with the most right answers; of several, the lowest loss.

    Of runs that are equal in both, it is the first one.
    """
    fits = [one for one in tried if "skipped" not in one["result"]]
    return max(
        fits or tried[:1],
        key=lambda one: (one["result"].get("answers", 0), -_loss(one)),
    )


def _loss(one: Run) -> float:
    loss = one["result"].get("loss", 0.0)
    return float(loss) if loss == loss else float("inf")  # NaN comes last


def _performed(
    store: Store, task: str, name: str, seed: int, rate: float, settings: dict[str, Any]
) -> Run:
    """Returns the run from the store, or performs it."""
    perform = partial(_result, task, name, seed, rate, settings)
    wanted = {"task": task, "model": name, "seed": seed, "rate": rate}
    done = store.performed(f"{name}, {task}", perform, settings, **wanted)
    print(report.line(done), flush=True)
    return done


def _result(
    task: str, name: str, seed: int, rate: float, settings: dict[str, Any]
) -> dict[str, Any]:
    family = FAMILIES[name]
    try:
        size, weights = sized(family, TASKS[task], settings["weights"])
    except DoesNotFitError as error:
        return {"skipped": str(error)}
    part = VALIDATION if seed == TRIED_SEED else TEST
    found = run(family, TASKS[task], size, rate, seed, settings, part)
    return {"size": size, "weights": weights, **found}
