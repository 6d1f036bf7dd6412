"""The command line of the studies: `python examples/studies/TOPIC …`.

The module `command` of a topic has `add_arguments(parser)` and `main(args)`, which
returns the exit status. Here are also options that several topics have, and their
checks.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any


class UsageError(ValueError):
    """A usage error, printed as one line; the command ends with status 2."""


def main(arguments: Sequence[str]) -> int:
    """Runs the command of a topic and returns its exit status.

    Args:
        arguments: the name of the topic's folder, then the options.
    """
    topic, *options = arguments
    command = importlib.import_module(f"studies.{topic}.command")
    parser = argparse.ArgumentParser(
        prog=f"python examples/studies/{topic}",
        description=command.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return run(command, parser.parse_args(options))


def run(command: Any, args: argparse.Namespace) -> int:
    """Runs `command.main` and prints usage errors as one line without a traceback."""
    try:
        return command.main(args)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def environment() -> dict[str, str]:
    """Returns the environment of a process that imports what this one can."""
    path = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": path}


def add_runs(
    parser: argparse.ArgumentParser, seeds: Sequence[int], page: bool = False
) -> None:
    """Adds --seeds, --out and --json, and --page if `page`."""
    add = parser.add_argument
    add("--seeds", type=int, nargs="+", default=list(seeds), help="of the runs")
    resumes = "a file of finished runs, from which a stopped command resumes"
    add("--out", type=pathlib.Path, help=resumes)
    add("--json", type=pathlib.Path, help="where to write the results")
    if page:
        add("--page", type=pathlib.Path, help="where to write their tables")


def at_least_one(args: argparse.Namespace, *names: str) -> None:
    """Raises a `UsageError` if one of these options is given and below 1."""
    for name in names:
        value = getattr(args, name)
        if value is not None and not value >= 1:
            raise UsageError(f"{_flag(name)} must be at least 1. Received: {value}")


def above_zero(args: argparse.Namespace, *names: str) -> None:
    """Raises a `UsageError` if one of these options is given and not above 0."""
    for name in names:
        value = getattr(args, name)
        if value is not None and not value > 0:
            raise UsageError(f"{_flag(name)} must be above 0. Received: {value}")


def write(
    args: argparse.Namespace,
    results: dict[str, Any],
    tables: dict[str, str] | None = None,
) -> None:
    """Writes the results to --json and the tables to --page, where given."""
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(results, indent=1)
        args.json.write_text(text + "\n", encoding="utf-8")
    if tables is not None and args.page:
        parts = [f"## {name}\n\n{table}\n" for name, table in tables.items()]
        args.page.write_text("\n".join(parts), encoding="utf-8")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
