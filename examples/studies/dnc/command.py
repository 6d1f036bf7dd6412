"""The DNC on the papers' tasks, compared with the NTM and an LSTM.

    python examples/studies/dnc copy --seeds 0 1 2 3 4 --out runs.jsonl
    python examples/studies/dnc shortest-path --model lstm --minutes 25
    python examples/studies/dnc babi --tasks 1 2 4 6 15 --out runs.jsonl
    python examples/studies/dnc --out runs.jsonl --page tables.md

Each finished run adds a line to the file given by `--out`. Repeat the command to
resume. With `--checkpoints DIR`, an unfinished run writes a checkpoint every few
minutes of CPU time, and when it receives SIGTERM or SIGINT. The same command with
`--resume` continues it. The CPU time of all parts of a run counts together.
`--unfinished` does not train: it tests unfinished runs as they are in their
checkpoints, and reports them without adding them to the file.

`--networks DIR` saves each trained network as a file of Keras.

Without a task, the command trains nothing. It writes the results and their tables from
the runs in the file.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras

from keras_attention.datasets import DataNotFoundError, babi
from studies import command_line
from studies.command_line import UsageError
from studies.dnc import report
from studies.dnc.checkpoints import Checkpoint, Interrupted, Signals
from studies.dnc.networks import MODELS
from studies.dnc.settings import Task
from studies.dnc.tasks import STORIES, TASKS
from studies.dnc.training import run_of
from studies.store import Run, Store, opened

# The fields of each line of the runs file.
NEEDED = ("task", "model", "seed", "backend", "keras", "settings", "result")


class Job(NamedTuple):
    """A requested run."""

    wanted: dict[str, Any]  # key that identifies the run in the store
    settings: dict[str, Any]  # other settings that determine its result
    task: Task


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `dnc`."""
    add = parser.add_argument
    told = "; ".join(f"{name}: {task.what}" for name, task in TASKS.items())
    add("names", nargs="*", choices=[*TASKS, []], metavar="TASK", help=told)
    add("--model", choices=MODELS, help="default: each task's own")
    add(
        "--minutes",
        type=float,
        help="of CPU time to train at most, instead of each task's; on an accelerator "
        "of elapsed time",
    )
    add(
        "--batch-size",
        type=int,
        help="instead of each task's; an epoch keeps about its number of sequences",
    )
    add(
        "--links",
        type=_links,
        metavar="all|none|K",
        help="of a DNC: temporal links between all slots, none, or the K strongest",
    )
    add("--tasks", type=int, nargs="+", default=[1, 2, 4, 6, 15], help="of bAbI")
    add("--checkpoints", type=pathlib.Path, metavar="DIR", help="of unfinished runs")
    add("--resume", action="store_true", help="continue from the checkpoints")
    add("--unfinished", action="store_true", help="only test the checkpoints")
    command_line.add_runs(parser, seeds=(0,), page=True)
    add("--networks", type=pathlib.Path, metavar="DIR", help="to save the networks in")
    add("--verbose", action="store_true", help="a line each time it is validated")


def main(args: argparse.Namespace) -> int:
    """Performs the missing runs, prints them and writes the results.

    Returns 0, or 128 plus the number of the signal that stopped a run.
    """
    unknown = [task for task in args.tasks if task not in babi.TASKS]
    if unknown:
        raise UsageError(f"--tasks must be from 1 to 20. Received: {unknown}")
    command_line.above_zero(args, "minutes")
    command_line.at_least_one(args, "batch_size")
    if (args.resume or args.unfinished) and args.checkpoints is None:
        option = "--resume" if args.resume else "--unfinished"
        raise UsageError(
            f"{option} needs --checkpoints, the folder of the checkpoints."
        )
    store = opened(args.out, NEEDED)
    # Look up all runs first, so that errors appear at once.
    jobs = list(jobs_of(args))
    found = [store.done(job.wanted["task"], job.settings, **job.wanted) for job in jobs]
    with Signals() if args.checkpoints else contextlib.nullcontext() as signals:
        for job, run in zip(jobs, found):
            if run is None:
                try:
                    run = _do(store, job, args, signals)
                except Interrupted as stopped:
                    print(f"{stopped}; --resume goes on.", flush=True)
                    return 128 + stopped.number
            print(report.line(run), flush=True)
            _write(args, store.runs)
    if not jobs:
        _write(args, store.runs)
    return 0


def _write(args: argparse.Namespace, runs: list[Run]) -> None:
    results = report.whole(runs)
    command_line.write(args, results, report.tables({"dnc": results}))


def jobs_of(args: argparse.Namespace) -> Iterator[Job]:
    """Returns all requested jobs without duplicates, seed by seed."""
    for name in dict.fromkeys(args.names):
        task = TASKS[name]
        model = args.model or task.model
        network, training = dict(task.network), task.training
        if args.batch_size is not None:
            sequences = training["steps"] * training["batch_size"]
            steps = max(sequences // args.batch_size, 1)
            training = {**training, "batch_size": args.batch_size, "steps": steps}
        if args.links is not None:
            if model != "dnc":
                raise UsageError("--links is of a DNC.")
            network["links"] = args.links
        for seed in dict.fromkeys(args.seeds):
            for number in dict.fromkeys(args.tasks) if name in STORIES else [None]:
                wanted = {
                    "task": name if number is None else f"{name} {number}",
                    "model": model,
                    "links": network.get("links", True) if model == "dnc" else None,
                    "seed": seed,
                    "backend": keras.config.backend(),
                }
                settings = {
                    "network": network,
                    "training": training,
                    "minutes": args.minutes or task.minutes,
                }
                problem = task.problem() if number is None else task.problem(number)
                settings["lessons"] = [dict(lesson) for lesson in problem.lessons]
                if problem.bars:
                    settings["bars"] = list(problem.bars)
                yield Job(wanted, settings, task._replace(problem=lambda p=problem: p))


def _links(text: str) -> bool | int:
    if text in ("all", "none"):
        return text == "all"
    return int(text)


def _do(
    store: Store, job: Job, args: argparse.Namespace, signals: Signals | None
) -> Run:
    wanted, settings = job.wanted, job.settings
    progress = (lambda entry: print(entry, flush=True)) if args.verbose else None
    checkpoint = None
    if args.checkpoints is not None:
        run = {**wanted, "settings": settings}
        resume = args.resume or args.unfinished
        checkpoint = Checkpoint(args.checkpoints, run, resume, signals)
        checkpoint.check()
    if args.unfinished and not (checkpoint and checkpoint.path.exists()):
        raise UsageError(f"{args.checkpoints} has no checkpoint of {wanted}.")
    saved = None
    if args.networks is not None:
        parts = [str(v) for v in wanted.values() if v is not None]
        saved = args.networks / ("-".join(parts).replace(" ", "-") + ".keras")
    try:
        result = run_of(
            job.task.problem(),
            wanted["model"],
            settings,
            wanted["seed"],
            larger=job.task.larger if wanted["model"] == "dnc" else (),
            progress=progress,
            checkpoint=checkpoint,
            saved=saved,
            unfinished=args.unfinished,
        )
    except DataNotFoundError as error:
        raise UsageError(str(error)) from error
    run = {**wanted, "keras": keras.__version__, "settings": settings}
    return store.add({**run, "result": result}, written=not args.unfinished)
