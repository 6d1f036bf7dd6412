"""Lists, trains and measures presets.

python -m keras_attention.presets list              names, classes and figures
python -m keras_attention.presets card NAME         how it was trained; its limits
python -m keras_attention.presets measure           all figures again
python -m keras_attention.presets train NAME        the network again
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time

from keras_attention.datasets import DataNotFoundError
from keras_attention.presets import cards, recipe, report


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns its exit status."""
    parser = argparse.ArgumentParser(
        "python -m keras_attention.presets",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    commands.add_parser("card").add_argument("name")
    commands.add_parser("measure").add_argument("names", nargs="*")
    training = commands.add_parser("train")
    training.add_argument("name")
    training.add_argument("--seed", type=int, help="default: that of the card")
    training.add_argument("--out", type=pathlib.Path, help="default: presets/NAME")
    writing = commands.add_parser(
        "page", help="replaces the table of presets and what follows"
    )
    writing.add_argument("file", type=pathlib.Path)
    args = parser.parse_args(arguments)
    try:
        return _run(args)
    except (DataNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1


def _run(args: argparse.Namespace) -> int:
    if args.command == "list":
        for name in cards.names():
            card = cards.card(name)
            print(f"{name:28} {card['class']:22} {_text(card['figures'])}")
    elif args.command == "card":
        print(json.dumps(cards.card(args.name), indent=1, ensure_ascii=False))
    elif args.command == "train":
        card = recipe.train(args.name, args.seed, args.out)
        print(f"{args.name}: {_text(card['figures'])}")
    elif args.command == "page":
        page = report.page([cards.card(name) for name in cards.names()])
        text = args.file.read_text("utf-8")
        args.file.write_text(text.partition(report.HEAD)[0] + page, "utf-8")
    else:
        return _measure(args.names or cards.names())
    return 0


def _measure(names: list[str]) -> int:
    differs = 0
    for name in names:
        start = time.perf_counter()
        card, now = recipe.measure(name)
        differences = recipe.differences(card, now)
        differs += bool(differences)
        said = (
            "; ".join(f"{k}: {v}" for k, v in differences.items()) or "as on the card"
        )
        seconds = time.perf_counter() - start
        print(f"{name:28} {_text(now)}: {said}, {seconds:.0f} s", flush=True)
    return 1 if differs else 0


def _text(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in figures.items())


if __name__ == "__main__":
    sys.exit(main())
