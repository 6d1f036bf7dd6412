"""Options that several commands have, and their checks."""

from __future__ import annotations

import argparse
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from keras_attention.benchmarks.errors import UsageError


def add_runs(
    parser: argparse.ArgumentParser, seeds: Sequence[int], page: bool = False
) -> None:
    """Adds --seeds, --out and --json, and --page if `page`."""
    add = parser.add_argument
    add("--seeds", type=int, nargs="+", default=list(seeds))
    add("--out", type=pathlib.Path, help="runs as they end, and to go on from")
    add("--json", type=pathlib.Path, help="where to write the results")
    if page:
        add("--page", type=pathlib.Path, help="where to write them as a page")


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
    page: Callable[[dict[str, Any]], str] | None = None,
) -> None:
    """Writes the results to --json, and `page(results)` to --page, where given."""
    if args.json:
        text = json.dumps(results, indent=1)
        args.json.write_text(text + "\n", encoding="utf-8")
    if page is not None and args.page:
        args.page.write_text(page(results), encoding="utf-8")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
