"""The command line: `python tests/speed COMMAND …`.

A command is a module with `add_arguments(parser)` and `main(args)`. `main` returns the
exit status. Only the module of the requested command is imported.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from studies.command_line import run

COMMANDS = {
    "compare": (
        "speed.compare.command",
        "time our code against its peers, side by side",
    ),
    "devices": (
        "speed.devices.command",
        "train each model on eight virtual devices and compare with one",
    ),
    "gpu": (
        "speed.gpu.command",
        "measure attention, layers and models on a GPU, row by row",
    ),
    "memory": (
        "speed.memory",
        "measure the memory of one forward and backward call on a long sequence",
    ),
    "scale": (
        "speed.scale.command",
        "measure how time and memory grow with the size of the input",
    ),
    "translation": (
        "speed.translation",
        "time training steps of our Transformer and of torch's",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(prog="python tests/speed")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = None
    for name, (module, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if arguments[:1] == [name]:
            chosen = importlib.import_module(module)
            chosen.add_arguments(command)
    return run(chosen, parser.parse_args(arguments))
