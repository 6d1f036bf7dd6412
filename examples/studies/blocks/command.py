"""Block puzzles by reinforcement: a DNC, an LSTM and random players.

    python examples/studies/blocks --model dnc --checkpoints folder
    python examples/studies/blocks --model lstm --out runs.jsonl
    python examples/studies/blocks --out runs.jsonl --page tables.md

Each finished run adds a line to the file given by `--out`. With `--checkpoints`, an
unfinished run writes a checkpoint every few minutes, and `--resume` continues it.
Without a model, the command trains nothing and writes the results and their tables.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import time
from typing import Any

import keras

from studies.blocks import report
from studies.blocks.agent import MODELS, Agent, agent
from studies.blocks.picture import picture
from studies.blocks.tasks import LESSONS, NETWORK, TESTED, TRAINING
from studies.blocks.testing import Player, agent_player, random_player, tested
from studies.blocks.training import Trainer
from studies.command_line import UsageError, above_zero, add_runs, write
from studies.dnc.checkpoints import Checkpoint, Interrupted, Signals
from studies.reports import thinned
from studies.store import Run, Store, opened

NEEDED = ("model", "seed", "backend", "keras", "settings", "result")
PLAYERS = (*MODELS, "random", "random that stops")
MINUTES = 40.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `blocks`."""
    add = parser.add_argument
    add("--model", nargs="*", choices=PLAYERS, default=[], help="whom to test")
    add_runs(parser, [0], page=True)
    add("--minutes", type=float, default=MINUTES, help="of CPU time to train")
    add("--part", type=float, help="minutes after which this call ends unfinished")
    add("--checkpoints", type=pathlib.Path, metavar="DIR", help="of unfinished runs")
    add("--resume", action="store_true", help="continue from the checkpoints")
    add("--verbose", action="store_true", help="a line for each part of the training")


def main(args: argparse.Namespace) -> int:
    """Performs the missing runs, prints them and writes the results.

    Returns 0, or 128 plus the number of the signal that stopped a run.
    """
    above_zero(args, "minutes")
    if args.part is not None and (not args.part > 0 or args.checkpoints is None):
        raise UsageError("--part must be above 0, and needs --checkpoints.")
    if args.resume and args.checkpoints is None:
        raise UsageError("--resume needs --checkpoints, the folder of the checkpoints.")
    store = opened(args.out, NEEDED)
    with Signals() if args.checkpoints else contextlib.nullcontext() as signals:
        for model in args.model:
            for seed in args.seeds:
                try:
                    run = _done(store, args, model, seed, signals)
                except Interrupted as stopped:
                    print(f"{stopped}; --resume goes on.", flush=True)
                    return 128 + stopped.number
                if run is None:
                    print("unfinished; --resume goes on.", flush=True)
                    return 0
                print(report.line(run), flush=True)
    results = report.whole(store.runs)
    write(args, results, report.tables({"blocks": results}))
    return 0


def settings_of(model: str, minutes: float) -> dict[str, Any]:
    """Returns what determines the result of a run, besides its seed."""
    settings: dict[str, Any] = {"tested": TESTED, "by_place": TRAINING["by_place"]}
    if model in MODELS:
        settings |= {
            "network": NETWORK,
            "training": TRAINING,
            "lessons": LESSONS,
            "minutes": minutes,
        }
    return settings


def _done(
    store: Store, args: argparse.Namespace, model: str, seed: int, signals: Any
) -> Run | None:
    """Returns the run from the store, or performs it; None if it is unfinished."""
    backend = keras.config.backend() if model in MODELS else None
    wanted = {"model": model, "seed": seed, "backend": backend}
    settings = settings_of(model, args.minutes)
    found = store.done(model, settings, **wanted)
    if found is not None:
        return found
    start = time.perf_counter()
    result: dict[str, Any] = {}
    player: Player = random_player(seed, model == "random that stops")
    if model in MODELS:
        made, progress = _trained(args, wanted, settings, signals)
        if progress is None:
            return None
        result = progress
        player = agent_player(made, TRAINING["by_place"])
        if model == "dnc":
            result["picture"] = picture(made, TRAINING["by_place"])
    result["tests"] = _tests(player, seed)
    result["seconds"] = round(time.perf_counter() - start, 1)
    run = {**wanted, "keras": keras.__version__, "settings": settings}
    return store.add({**run, "result": result})


def _trained(
    args: argparse.Namespace,
    wanted: dict[str, Any],
    settings: dict[str, Any],
    signals: Any,
) -> tuple[Agent, dict[str, Any] | None]:
    seed = wanted["seed"]
    made = agent(wanted["model"], NETWORK, seed, TRAINING["episodes"])
    trainer = Trainer(made, LESSONS, TRAINING, seed, args.minutes)
    checkpoint = None
    if args.checkpoints is not None:
        run = {"task": "blocks", **wanted, "settings": settings}
        checkpoint = Checkpoint(args.checkpoints, run, args.resume, signals)
        trainer.resume(checkpoint)
    told = (lambda entry: print(entry, flush=True)) if args.verbose else None
    seconds = float("inf") if args.part is None else 60 * args.part
    if not trainer.train(seconds, checkpoint, told):
        return made, None
    return made, {
        **{name: value for name, value in trainer.state().items() if name != "recent"},
        "lesson": trainer.lesson + 1,
        "weights": made.learner.count_params(),
        "history": thinned(trainer.history),
    }


def _tests(player: Player, seed: int) -> list[dict[str, Any]]:
    return tested(player, seed=seed, by_place=TRAINING["by_place"], **TESTED)
