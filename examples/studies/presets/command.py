"""Trains and measures presets.

python examples/studies/presets measure        all figures again
python examples/studies/presets train NAME     the network again
python examples/studies/presets card NAME      the card of a shipped network again
python examples/studies/presets calibrate NAME what its preprocessor flags
python examples/studies/presets page FILE      the cards, as a page

`measure` and `train` write their figures to the file given by `--json`.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time

from keras_attention.datasets import DataNotFoundError
from keras_attention.presets import cards
from studies import command_line, reports
from studies.presets import recipe, report

TRAINED = (
    *("name", "seed", "parameters", "figures"),
    *("train_seconds", "train_cpu_seconds"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the commands."""
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("names", nargs="*")
    commands.add_parser("card").add_argument("names", nargs="+")
    training = commands.add_parser("train")
    training.add_argument("name")
    training.add_argument("--seed", type=int, help="default: that of the card")
    training.add_argument("--out", type=pathlib.Path, help="default: presets/NAME")
    for parser in (measuring, training):
        parser.add_argument("--json", type=pathlib.Path, help="where to write figures")
    commands.add_parser("calibrate").add_argument("names", nargs="+")
    writing = commands.add_parser(
        "page", help="replaces the table of presets and what follows"
    )
    writing.add_argument("file", type=pathlib.Path)


def main(args: argparse.Namespace) -> int:
    """Runs a command; returns its exit status."""
    try:
        if args.command == "train":
            card = recipe.train(args.name, args.seed, args.out)
            print(f"{args.name}: {_text(card['figures'])}")
            made = {name: card[name] for name in TRAINED}
            command_line.write(args, {**reports.head("presets"), **made})
        elif args.command == "card":
            for name in args.names:
                print(f"{name}: {_text(recipe.write_card(name)['figures'])}")
        elif args.command == "calibrate":
            for name in args.names:
                least = recipe.calibrate(name).get("min_score")
                print(f"{name}: least score {least}", flush=True)
        elif args.command == "page":
            page = report.page([cards.card(name) for name in cards.names()])
            text = args.file.read_text("utf-8")
            args.file.write_text(text.partition(report.HEAD)[0] + page, "utf-8")
        else:
            return _measure(args, args.names or cards.names())
    except (DataNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _measure(args: argparse.Namespace, names: list[str]) -> int:
    differs, figures = 0, {}
    for name in names:
        start = time.perf_counter()
        card, now = recipe.measure(name)
        found = recipe.differences(card, now)
        figures[name] = now
        differs += bool(found)
        said = "; ".join(f"{k}: {v}" for k, v in found.items()) or "as on the card"
        seconds = time.perf_counter() - start
        print(f"{name:28} {_text(now)}: {said}, {seconds:.0f} s", flush=True)
        command_line.write(args, {**reports.head("presets"), "figures": figures})
    return 1 if differs else 0


def _text(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in figures.items())
