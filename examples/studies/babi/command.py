"""bAbI: our test errors compared with published ones, task by task.

    python examples/studies/babi --seeds 0 1 2 --out runs.jsonl
    python examples/studies/babi --recipe paper-pe --restarts 10 --jobs 2

Each finished run adds a line to the file given by `--out`. Repeat the command to
resume.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from dataclasses import replace
from typing import Any

import keras

from keras_attention.datasets import DataNotFoundError, babi
from studies.babi import report, workers
from studies.babi.recipes import RECIPES, Recipe
from studies.command_line import UsageError
from studies.store import Store, opened

# The fields of each line of the runs file.
NEEDED = (
    *("recipe", "size", "data", "task", "seed", "errors", "train_error"),
    *("train_loss", "fit_seconds", "settings", "backend", "keras"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `babi`."""
    add = parser.add_argument
    add(
        "--recipe",
        default="paper-joint",
        choices=sorted(RECIPES),
        help="which model, trained how: "
        + "; ".join(f"{name}: {one.what}" for name, one in RECIPES.items())
        + " (default: %(default)s)",
    )
    add("--size", default="1k", choices=("1k", "10k"), help="training questions a task")
    add(
        "--data",
        default="real",
        choices=("real", "simulated"),
        help="what to train on; the test is always real",
    )
    add(
        "--tasks",
        type=int,
        nargs="+",
        metavar="TASK",
        help="of a recipe with one network a task; default: all 20",
    )
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument(
        "--seeds", type=int, nargs="+", default=[0, 1, 2], help="a run each"
    )
    seeds.add_argument("--restarts", type=int, help="the same as --seeds 0 1 2 …")
    add(
        "--epochs",
        type=int,
        help="instead of the recipe's, linear start and first tasks in proportion",
    )
    add("--jobs", type=int, default=1, help="how many runs side by side")
    add("--out", type=pathlib.Path, help="runs as they end, and to go on from")
    add("--json", type=pathlib.Path, help="where to write settings, runs and means")


def main(args: argparse.Namespace) -> int:
    """Performs the missing runs, prints the table and writes the results."""
    recipe = RECIPES[args.recipe]
    if args.epochs is not None:
        linear = args.epochs * recipe.linear_epochs // recipe.epochs
        first = args.epochs * recipe.first_epochs // recipe.epochs
        recipe = replace(
            recipe, epochs=args.epochs, linear_epochs=linear, first_epochs=first
        )
    seeds = args.seeds if args.restarts is None else range(args.restarts)
    seeds = list(dict.fromkeys(seeds))  # without duplicates
    tasks: list[int | None] = [None]
    if recipe.mode == "single":
        tasks = list(dict.fromkeys(args.tasks or babi.TASKS))
    _check(args, tasks, seeds)
    store = opened(args.out, NEEDED)
    where = {"recipe": recipe.name, "size": args.size, "data": args.data}
    where["backend"] = keras.config.backend()
    jobs = missing(store, recipe, where, tasks, seeds)
    print(f"{recipe.name}: {len(jobs)} runs of {recipe.all_epochs} epochs", flush=True)
    try:
        _do(jobs, args.jobs, store)
    except DataNotFoundError as error:
        raise UsageError(str(error)) from error
    runs = [
        run
        for task in tasks
        for seed in seeds
        for run in store.find(**where, task=task, seed=seed)
    ]
    print(report.table(runs, recipe, args.size))
    if args.json:
        text = json.dumps(report.summary(runs, recipe, args.size), indent=1)
        args.json.write_text(text + "\n", encoding="utf-8")
    return 0


def missing(
    store: Store,
    recipe: Recipe,
    where: dict[str, str],
    tasks: list[int | None],
    seeds: list[int],
) -> list[workers.Job]:
    """Returns the runs that are not in the store yet, grouped by task.

    Raises:
        UsageError: the store has one of the requested runs with other settings.
    """
    settings = recipe.settings()
    jobs = []
    for task in tasks:
        for seed in seeds:
            wanted = {**where, "task": task, "seed": seed}
            if store.done(recipe.name, settings, **wanted) is None:
                job = workers.Job(recipe, task, where["size"], where["data"], seed)
                jobs.append(job)
    return jobs


def _check(args: argparse.Namespace, tasks: list[Any], seeds: list[int]) -> None:
    if args.tasks and tasks == [None]:
        single = [name for name, one in RECIPES.items() if one.mode == "single"]
        raise UsageError(
            f"--tasks needs a recipe with one network a task: {', '.join(single)}. "
            f"Received: --recipe {args.recipe}"
        )
    if args.epochs is not None and args.epochs < 1:
        raise UsageError(f"--epochs must be at least 1. Received: {args.epochs}")
    unknown = [task for task in tasks if task is not None and task not in babi.TASKS]
    if unknown:
        raise UsageError(f"--tasks must be from 1 to 20. Received: {unknown}")
    if not seeds:
        raise UsageError(f"--restarts must be at least 1. Received: {args.restarts}")
    available = workers.count_processors()
    if not 1 <= args.jobs <= available:
        raise UsageError(
            f"--jobs must be from 1 to {available}, the processors this process may "
            f"use. Received: {args.jobs}"
        )


def _do(jobs: list[workers.Job], processes: int, store: Store) -> None:
    if not jobs:
        return
    total = sum(job.recipe.all_epochs for job in jobs)
    bar = keras.utils.Progbar(total, unit_name="epoch")

    def on_epoch(count: int) -> None:
        if count and sys.stdout.isatty():
            bar.add(count)

    for run in workers.run(jobs, min(processes, len(jobs)), on_epoch):
        store.add(run)
        print(f"\n{line(run)}", flush=True)


def line(run: dict[str, Any]) -> str:
    """Formats a run as a line of text."""
    what = "all tasks" if run["task"] is None else f"task {run['task']}"
    mean = sum(run["errors"].values()) / len(run["errors"])
    return (
        f"{what}, seed {run['seed']}: test error {mean:.2f} %, training error "
        f"{run['train_error']:.2f} %, fit took {run['fit_seconds']:.0f} s"
    )
