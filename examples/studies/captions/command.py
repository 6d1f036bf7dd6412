"""Captions of digits with a frozen encoder: soft and hard attention.

    python examples/studies/captions --seeds 0 1 2 --json results.json

An encoder learns to classify canvases of one digit. Its features of the captioned
canvases are computed once. Decoders with soft attention, with hard attention by the
straight-through estimator, and with hard attention by REINFORCE then learn to caption
these features; the seeds are those of the decoders. Training and test share no digit
images. The settings were chosen with `--dev`, which tests on a part of the digits of
the training.

Each finished run adds a line to the file given by `--out`; the encoder is kept next to
it. Repeat the command to resume; a decoder that was stopped starts again.
"""

from __future__ import annotations

import argparse
import pathlib

import keras

from studies import command_line
from studies.captions.data import prepare
from studies.captions.report import draw, report, table
from studies.captions.settings import DECODER, ENCODER, KINDS
from studies.captions.training import learn
from studies.command_line import UsageError
from studies.store import opened

NEEDED = ("attention", "seed", "backend", "keras", "settings", "result")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `captions`."""
    add = parser.add_argument
    command_line.add_runs(parser, seeds=(0, 1, 2))
    add("--attention", nargs="+", choices=KINDS, default=list(KINDS))
    add("--dev", action="store_true", help="test on a part of the training's digits")
    add("--encoder-epochs", type=int, default=ENCODER["epochs"])
    add("--epochs", type=int, default=DECODER["epochs"], help="of a decoder")
    add(
        "--weight",
        type=float,
        default=DECODER["weight"],
        help="of the gradient of REINFORCE",
    )
    add(
        "--expected-rate",
        type=float,
        default=DECODER["expected_rate"],
        help="of REINFORCE: the share of samples that get the expected output",
    )
    add("--pictures", type=pathlib.Path, help="folder for pictures of new runs")


def main(args: argparse.Namespace) -> int:
    """Performs the missing runs, prints the table and writes the results."""
    command_line.at_least_one(args, "encoder_epochs", "epochs")
    if not args.weight >= 0:
        raise UsageError(f"--weight must be at least 0. Received: {args.weight}")
    if not 0 <= args.expected_rate <= 1:
        raise UsageError(
            f"--expected-rate must be from 0 to 1. Received: {args.expected_rate}"
        )
    changed = {
        "epochs": args.epochs,
        "weight": args.weight,
        "expected_rate": args.expected_rate,
    }
    store = opened(args.out, NEEDED)
    settings = {
        "encoder": {**ENCODER, "epochs": args.encoder_epochs},
        "decoder": {**DECODER, **changed},
        "dev": args.dev,
    }
    backend = keras.config.backend()
    runs, made = [], None
    cache = None if args.out is None else pathlib.Path(f"{args.out}.encoder.keras")
    for seed in dict.fromkeys(args.seeds):
        for kind in dict.fromkeys(args.attention):
            about = {"attention": kind, "seed": seed, "backend": backend}
            run = store.done(f"{kind}, seed {seed}", settings, **about)
            if run is None:
                made = made or prepare(settings, cache)
                model, result = learn(kind, seed, settings["decoder"], *made[:2])
                print(f"{kind}, seed {seed}: {result}", flush=True)
                if args.pictures:
                    draw(model, made[1], args.pictures, f"{kind}-{seed}")
                about["keras"] = keras.__version__
                found = {**made[2], **result}
                run = store.add({**about, "settings": settings, "result": found})
            runs.append(run)
            command_line.write(args, report(runs))  # save after each run
    print(table(runs))
    return 0
