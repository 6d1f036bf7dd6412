"""Compares memories on multi-query associative recall (MQAR).

    python examples/studies/recall --out runs.jsonl --json recall.json
    python examples/studies/recall --models delta --dims 64 --seeds 1 --out runs.jsonl

Each network trains on all lengths at once, with equal weights and equal CPU time. For
each model, the command first tries `RATES` with a seed and validation sequences of
their own, at width `TRIED_DIM` and for half the time, and uses the best rate for all
runs. `--rate` sets the rate instead. Each finished run adds a line to the file given by
`--out`. Repeat the command to resume; at most the current run is lost. Commands for
other models, dims and seeds can add to the same file. The results contain all its runs.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from studies import command_line
from studies.command_line import UsageError
from studies.five_tasks.training import TEST, VALIDATION
from studies.recall import report
from studies.recall.models import MEMORIES
from studies.recall.training import (
    MINUTES,
    RATES,
    SEEDS,
    SLICES,
    TRAINING,
    TRIED_SEED,
    run,
)
from studies.store import Run, Store, opened

NEEDED = ("model", "dim", "seed", "rate", "backend", "keras", "settings", "result")
TRIED_DIM = 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `recall`."""
    add = parser.add_argument
    add("--models", nargs="+", choices=[*MEMORIES], default=[*MEMORIES])
    add("--dims", nargs="+", type=int, default=[TRIED_DIM], help="widths of the models")
    add("--minutes", type=float, default=MINUTES, help="of CPU time per run")
    add("--rate", type=float, help="the learning rate, instead of trying several")
    command_line.add_runs(parser, SEEDS, page=True)


def main(args: argparse.Namespace) -> int:
    """Performs the missing runs, prints them and writes the results."""
    command_line.above_zero(args, "minutes", "rate")
    if TRIED_SEED in args.seeds:
        raise UsageError(f"--seeds must not contain {TRIED_SEED}, which tries rates.")
    store = opened(args.out, NEEDED)
    settings = {**TRAINING, "minutes": args.minutes, "slices": SLICES}
    for name in dict.fromkeys(args.models):
        rate = args.rate or _best_rate(store, name, settings)
        for dim in dict.fromkeys(args.dims):
            for seed in dict.fromkeys(args.seeds):
                _performed(store, name, dim, seed, rate, settings)
                results = report.whole(store.runs)
                command_line.write(args, results, report.tables({"recall": results}))
    return 0


def _best_rate(store: Store, name: str, settings: dict[str, Any]) -> float:
    shorter = {**settings, "minutes": settings["minutes"] / 2}
    tried = [
        _performed(store, name, TRIED_DIM, TRIED_SEED, rate, shorter) for rate in RATES
    ]
    return float(report.best(tried)["rate"])


def _performed(
    store: Store, name: str, dim: int, seed: int, rate: float, settings: dict[str, Any]
) -> Run:
    """Returns the run from the store, or performs it."""
    part = VALIDATION if seed == TRIED_SEED else TEST
    perform = partial(run, name, dim, rate, seed, settings, part)
    wanted = {"model": name, "dim": dim, "seed": seed, "rate": rate}
    done = store.performed(name, perform, settings, **wanted)
    print(report.line(done), flush=True)
    return done
