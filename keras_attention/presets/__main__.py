"""Lists the presets, and prints their cards.

python -m keras_attention.presets list         names, classes and figures
python -m keras_attention.presets card NAME    how it was trained; its limits
"""

from __future__ import annotations

import argparse
import json
import sys

from keras_attention.presets import cards


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
    args = parser.parse_args(arguments)
    if args.command == "list":
        for name in cards.names():
            card = cards.card(name)
            figures = ", ".join(f"{k} {v:g}" for k, v in card["figures"].items())
            print(f"{name:28} {card['class']:22} {figures}")
        return 0
    try:
        card = cards.card(args.name)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(card, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
