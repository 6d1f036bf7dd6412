"""The command `speed`: one process per backend, then a table and a JSON file."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from speed.compare import BACKENDS, CASES, report, select
from speed.harness import MIN_PAIRS, Case
from studies.command_line import UsageError
from studies.command_line import environment as importable

QUICK_PAIRS = 5
# Processes are pinned to processors before any import, since thread pools read the
# number of processors when they are imported. torch must be imported before tensorflow.
BOOTSTRAP = """
import importlib, json, os, sys
arguments = json.loads(sys.argv[1])
if hasattr(os, "sched_setaffinity"):
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[: arguments["threads"]])
for module in arguments.pop("first"):
    importlib.import_module(module)
from speed.compare import worker
worker.main(**arguments)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options to an `argparse` parser."""
    parser.add_argument(
        "--case",
        nargs="+",
        metavar="NAME",
        help=f"what to time, of {', '.join(CASES)}; default: all",
    )
    parser.add_argument(
        "--size",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="only the cases of this size, for instance T=256 mode=fwd",
    )
    parser.add_argument(
        "--backend",
        nargs="+",
        choices=BACKENDS,
        default=list(BACKENDS),
        help="default: all three; those not installed are said to be so",
    )
    parser.add_argument(
        "--pairs",
        type=int,
        help=f"interleaved pairs a comparison, at least {MIN_PAIRS} (the default)",
    )
    parser.add_argument(
        "--threads", type=int, help="default: all processors this process may use"
    )
    parser.add_argument("--json", metavar="FILE", help="write all numbers here")
    parser.add_argument(
        "--page", action="store_true", help="only the cases in docs/results/speed.md"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"few sizes, {QUICK_PAIRS} pairs: to see that it runs, not to be quoted",
    )


def main(args: argparse.Namespace) -> int:
    """Runs the benchmark. Returns 1 if a backend failed or a result was wrong."""
    options = _options(args)
    _select(options)  # unknown names raise an error here
    facts = report.machine(options["threads"])
    print(report.idle_line(facts), file=sys.stderr)
    runs = [_run_backend(backend, options) for backend in args.backend]
    print(report.table(runs))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(report.build(options, facts, runs), file, indent=1)
            file.write("\n")
    statuses = [run["status"] for run in runs]
    statuses += [result["status"] for run in runs for result in run["results"]]
    return 1 if {"failed", "wrong"} & set(statuses) else 0


def _options(args: argparse.Namespace) -> dict[str, Any]:
    available = processors()
    threads = available if args.threads is None else args.threads
    if not 1 <= threads <= available:
        raise UsageError(
            f"--threads must be from 1 to {available}, the processors this process "
            f"may use. Received: {threads}"
        )
    least = 2 if args.quick else MIN_PAIRS
    default = QUICK_PAIRS if args.quick else MIN_PAIRS
    pairs = default if args.pairs is None else args.pairs
    if pairs < least:
        raise UsageError(f"--pairs must be at least {least}. Received: {pairs}")
    return {
        "pairs": pairs,
        "threads": threads,
        "names": args.case,
        "sizes": args.size,
        "quick": args.quick,
        "page": args.page,
    }


def processors() -> int:
    """Returns the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run_backend(backend: str, options: dict[str, Any]) -> dict[str, Any]:
    """Runs the worker and collects its results, even if the worker fails."""
    run = {"backend": backend, "status": "measured", "results": []}
    if importlib.util.find_spec(backend) is None:
        reason = f"install it with: pip install {backend}"
        return {**run, "status": "not installed", "reason": reason}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.jsonl")
        arguments = {**options, "backend": backend, "path": path}
        arguments["first"] = _first_imports(options)
        process = subprocess.run(
            [sys.executable, "-c", BOOTSTRAP, json.dumps(arguments)],
            env=environment(backend, options["threads"]),
        )
        lines = []
        if os.path.exists(path):
            with open(path) as file:
                lines = [json.loads(line) for line in file]
    run["results"] = [line["result"] for line in lines if "result" in line]
    for line in lines:
        run |= line.get("facts", {})
    if process.returncode:
        reason = f"its process ended with status {process.returncode}, see above"
        run |= {"status": "failed", "reason": reason}
    return run


def _select(options: dict[str, Any]) -> list[Case]:
    return select(*(options[name] for name in ("names", "sizes", "quick", "page")))


def _first_imports(options: dict[str, Any]) -> list[str]:
    needed = sorted({module for case in _select(options) for module in case.needs})
    return [module for module in needed if importlib.util.find_spec(module)]


def environment(backend: str, threads: int) -> dict[str, str]:
    """Returns the environment of a process with one backend and some threads."""
    count = str(threads)
    return {
        **importable(),
        "KERAS_BACKEND": backend,
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "TF_NUM_INTRAOP_THREADS": count,
        "TF_NUM_INTEROP_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
