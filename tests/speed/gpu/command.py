"""The command `gpu`: rows on one GPU, in the order in which they matter.

    python tests/speed gpu --backend torch --minutes 8

It saves each row, and a later call goes on where it stopped: rows that the file has,
with the same versions and device, are not measured again. A row that fails or takes too
long is noted, and its process is replaced.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time

import xla_flags

from speed.gpu import report
from speed.gpu.rows import select
from speed.scale.report import NAMES
from studies import reports
from studies.command_line import UsageError, environment

BOOTSTRAP = """
import faulthandler, json, sys
faulthandler.dump_traceback_later(300, exit=True)  # until the first row
from speed.gpu import worker
worker.main(**json.loads(sys.argv[1]))
"""
LAST = 20.0  # seconds before the end in which no row is begun
ROW_SECONDS = 120.0  # at most, of one row
SLOW = 5  # times as long for a quick row, on a processor that others may use


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `gpu`."""
    add = parser.add_argument
    add("--backend", choices=[*NAMES], required=True)
    add("--minutes", type=float, default=8.0, help="of the whole command; default: 8")
    add("--rows", nargs="+", metavar="TEXT", help="rows whose keys contain a text")
    add("--json", type=pathlib.Path, help="default: docs/results/gpu.json")
    add(
        "--quick",
        action="store_true",
        help="toy sizes on whatever device, to see that it runs; needs --json",
    )


def main(args: argparse.Namespace) -> int:
    """Measures the rows. Returns 1 if a row or one of its peers failed."""
    if not args.minutes > 0:
        raise UsageError(f"--minutes must be above 0. Received: {args.minutes}")
    if args.quick and not args.json:
        raise UsageError("--quick needs --json: its times must not be on the page.")
    if importlib.util.find_spec(args.backend) is None:
        raise UsageError(f"{args.backend} is not installed")
    keys = [row.key for row in select(args.rows, args.quick, args.backend)]
    path = args.json or report.RESULTS
    run = datetime.datetime.now(datetime.UTC).isoformat()
    error = measure(args, path, run, time.time() + 60 * args.minutes)
    known = report.known(report.load(path), run)
    bad = {key: text for key in keys if (text := report.reasons(known.get(key)))}
    remaining = [key for key in keys if key not in known]
    for key, text in {**dict.fromkeys(remaining, "not run"), **bad}.items():
        print(f"{key}: {text}")
    print(f"{error}{len(keys)} rows: {len(remaining)} not run, {len(bad)} with errors")
    return int(bool(bad or error))


def measure(args: argparse.Namespace, path: pathlib.Path, run: str, stop: float) -> str:
    """Runs as many processes as it takes. Returns why they measure nothing, or ""."""
    arguments = {"path": str(path), "backend": args.backend, "parts": args.rows}
    arguments |= {"quick": args.quick, "run": run, "limit": ROW_SECONDS}
    arguments["limit"] *= SLOW if args.quick else 1
    arguments |= {"command": reports.command(), "stop": stop - LAST}
    settings = {**environment(), "KERAS_BACKEND": args.backend}
    settings["PYTHONPATH"] += os.pathsep + str(reports.ROOT)
    if args.quick:  # takes a third of the time to compile toy programs
        settings.setdefault("XLA_FLAGS", xla_flags.FLAGS)
    count = 0  # rows of this run
    while time.time() < stop - LAST:
        command = [sys.executable, "-c", BOOTSTRAP, json.dumps(arguments)]
        try:
            done = subprocess.run(command, env=settings, timeout=stop - time.time())
        except subprocess.TimeoutExpired:
            report.end(path, run, "")
            return ""
        ended = f"its process ends with status {done.returncode}"
        before, count = count, report.end(path, run, ended)
        if not done.returncode:
            return ""
        if count == before:
            return f"{ended}, before any row\n"
    return ""
