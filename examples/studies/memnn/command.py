"""MemNN: errors on bAbI and the simulated world; large memories and their indexes.

    python examples/studies/memnn --json memnn.json
    python examples/studies/memnn --parts babi --tasks 1 2 3 --seeds 0 1
    python examples/studies/memnn --parts world --out runs.jsonl
    python examples/studies/memnn --parts large --facts 14000000
    python examples/studies/memnn --parts indexes --kinds ivf

Each bAbI task has one network. It is trained on 1,000 questions with their supporting
facts. It is tested on 1,000 questions with the facts that it retrieves itself. Each
finished run adds a line to the file given by `--out`. Repeat the command to resume. The
steps of the part "large" are kept in the folder given by `--folder`.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import keras

from keras_attention.datasets import DataNotFoundError, babi
from keras_attention.models.base import vector_index
from studies.command_line import UsageError
from studies.memnn import (
    hashing,
    indexes,
    large,
    new_names,
    real,
    report,
    sentences,
    tasks,
)
from studies.memnn.report import Row
from studies.memnn.training import RECIPES
from studies.store import Run, Store, opened

PARTS = (
    "babi",
    "world",
    "names",
    "sentences",
    "hashing",
    "large",
    "real",
    "indexes",
)
BY_DEFAULT = ("babi", "world", "hashing")
# The fields of each line of the runs file.
NEEDED = ("part", "seed", "backend", "keras", "settings", "result")


class Job(NamedTuple):
    """A requested run.

    Attributes:
        wanted: the key that identifies the run in the store.
        settings: the other settings that determine the result.
        run: performs the run and returns a row of results.
        line: formats a row as a line of text; None if `run` prints its results.
    """

    wanted: dict[str, Any]
    settings: dict[str, Any]
    run: Callable[[], Row]
    line: Callable[[Row], str] | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `memnn`."""
    add = parser.add_argument
    add(
        "--parts",
        nargs="+",
        choices=PARTS,
        default=BY_DEFAULT,
        help=f"default: {', '.join(BY_DEFAULT)}",
    )
    add(
        "--recipe",
        choices=[*RECIPES, "chosen"],
        default="chosen",
        help="on bAbI: bags of words and a linear score; n-grams and two layers; or "
        "that of the two with the lower error on a tenth of the training questions",
    )
    add("--tasks", type=int, nargs="+", default=list(babi.TASKS), metavar="TASK")
    add(
        "--models",
        nargs="+",
        choices=tasks.MODELS,
        default=tasks.MODELS,
        help="in the simulated world; default: all",
    )
    add(
        "--kinds",
        nargs="+",
        choices=indexes.KINDS,
        default=list(indexes.KINDS),
        help="of indexes; default: all",
    )
    add(
        "--questions",
        nargs="+",
        choices=tasks.KINDS,
        default=tasks.KINDS,
        help="in the simulated world; default: all",
    )
    add(
        "--networks",
        nargs="+",
        choices=list(new_names.NETWORKS),
        default=list(new_names.NETWORKS),
        help="for new names; default: all",
    )
    add(
        "--stories",
        nargs="+",
        choices=list(new_names.STORIES),
        default=list(new_names.STORIES),
        help="for new names; default: all",
    )
    add("--seeds", type=int, nargs="+", default=[0])
    add("--epochs", type=int, help="instead of each model's, save for hashing")
    add("--facts", type=int, default=10**6, help="of the large memories")
    add(
        "--folder",
        type=pathlib.Path,
        help="of the parts large and real, for their networks and memories; "
        "default: a temporary one",
    )
    add("--out", type=pathlib.Path, help="runs as they end, and to go on from")
    add("--json", type=pathlib.Path, help="where to write the results")


def main(args: argparse.Namespace) -> int:
    """Performs the missing runs, prints the tables and writes the results."""
    _check(args)
    store = opened(args.out, NEEDED)
    # Look up all runs first, so that errors appear immediately.
    found = [(job, _done(store, job)) for job in jobs_of(args)]
    runs: dict[str, list[Run]] = {part: [] for part in args.parts}
    for job, run in found:
        if run is None:
            run = _do(store, job)
        runs[job.wanted["part"]].append(run)
        if args.json:  # save after each row
            text = json.dumps(report.report(runs), indent=1)
            args.json.write_text(text + "\n", encoding="utf-8")
    for seed in dict.fromkeys(args.seeds) if "babi" in args.parts else ():
        rows = [run["result"] for run in runs["babi"] if run["seed"] == seed]
        print(f"seed {seed}: {report.mean_of(rows)}")
    if "world" in args.parts:
        print(report.world_table([run["result"] for run in runs["world"]]))
    return 0


def jobs_of(args: argparse.Namespace) -> Iterator[Job]:
    """Returns all requested jobs without duplicates."""
    here = {"backend": keras.config.backend()}
    worlds = [(d, kind) for d, kind in tasks.WORLDS if kind in args.questions]
    for seed in dict.fromkeys(args.seeds):
        if "hashing" in args.parts:
            yield Job(
                {"part": "hashing", "facts": args.facts, "seed": seed, **here},
                hashing.SETTINGS,
                partial(hashing.hashing, seed, args.facts),
                None,
            )
        if "large" in args.parts:
            yield Job(
                {"part": "large", "facts": args.facts, "seed": seed, **here},
                large.SETTINGS,
                partial(large.large, seed, args.facts, args.folder),
                None,
            )
        if "real" in args.parts:
            yield Job(
                {"part": "real", "seed": seed, **here},
                real.SETTINGS,
                partial(real.real, seed, args.folder),
                None,
            )
        for kind in dict.fromkeys(args.kinds) if "indexes" in args.parts else ():
            about = {"kind": kind, "facts": args.facts, "seed": seed}
            yield Job(
                {"part": "indexes", **about, **here},
                indexes.SETTINGS,
                partial(indexes.measured, kind, seed, args.facts),
                indexes.line,
            )
        for model in dict.fromkeys(args.models) if "world" in args.parts else ():
            settings = tasks.world_settings(model, args.epochs)
            for difficulty, kind in worlds:
                world = {"difficulty": difficulty, "questions": kind}
                yield Job(
                    {"part": "world", "model": model, **world, "seed": seed, **here},
                    settings,
                    partial(tasks.in_world, model, difficulty, kind, seed, settings),
                    report.world_line,
                )
        for difficulty, kind in worlds if "sentences" in args.parts else ():
            world = {"difficulty": difficulty, "questions": kind}
            yield Job(
                {"part": "sentences", **world, "seed": seed, **here},
                sentences.SETTINGS,
                partial(
                    sentences.sentences, seed, difficulty, kind, sentences.SETTINGS
                ),
                report.sentences_line,
            )
        for network in dict.fromkeys(args.networks) if "names" in args.parts else ():
            settings = new_names.settings_of(network, args.epochs)
            for stories in dict.fromkeys(args.stories):
                about = {"network": network, "stories": stories}
                yield Job(
                    {"part": "names", **about, "seed": seed, **here},
                    settings,
                    partial(new_names.new_names, stories, network, seed, settings),
                    report.names_line,
                )
        for task in dict.fromkeys(args.tasks) if "babi" in args.parts else ():
            settings = tasks.babi_settings(args.recipe, args.epochs)
            about = {"recipe": args.recipe, "task": task}
            yield Job(
                {"part": "babi", **about, "seed": seed, **here},
                settings,
                partial(tasks.on_babi, task, seed, args.recipe, settings),
                report.babi_line,
            )


def _check(args: argparse.Namespace) -> None:
    unknown = [task for task in args.tasks if task not in babi.TASKS]
    if unknown:
        raise UsageError(f"--tasks must be from 1 to 20. Received: {unknown}")
    if "indexes" in args.parts:
        try:
            vector_index.faiss()
        except ImportError as error:
            raise UsageError(str(error)) from error


def _done(store: Store, job: Job) -> Run | None:
    names = [job.wanted[key] for key in ("model", "network") if key in job.wanted]
    what = names[0] if names else job.wanted["part"]
    return store.done(what, job.settings, **job.wanted)


def _do(store: Store, job: Job) -> Run:
    try:
        row = job.run()
    except DataNotFoundError as error:
        raise UsageError(str(error)) from error
    run = {**job.wanted, "keras": keras.__version__, "settings": job.settings}
    run = store.add({**run, "result": row})
    if job.line is not None:
        print(job.line(run["result"]), flush=True)
    return run
