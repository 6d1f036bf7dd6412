"""The command `scale`: one process per point, then a table and a JSON file.

    python tests/speed scale --curve stories --backend torch

A point is not measured if its process exceeds a limit. Its reason is stored. Larger
points of the same series are then not started.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from speed.compare import BACKENDS
from speed.compare.command import environment, processors
from speed.compare.report import idle_line, machine
from speed.scale import CURVES, report
from speed.scale.curve import Curve
from studies.command_line import UsageError

GIGABYTE = 10**9
BUILD_SECONDS = 60.0  # in addition to the limit, for imports and inputs
CALLS = 3  # the timed calls may take as long as this many first calls
PAUSE = 0.05  # seconds between looks at the process
BOOTSTRAP = """
import json, os, sys
arguments = json.loads(sys.argv[1])
if hasattr(os, "sched_setaffinity"):
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[: arguments["threads"]])
from speed.scale import worker
worker.main(**arguments)
"""

Point = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `scale`."""
    add = parser.add_argument
    add("--curve", nargs="+", choices=tuple(CURVES), help="default: all")
    add("--series", nargs="+", metavar="NAME", help="only series with these names")
    add("--size", nargs="+", type=int, metavar="N", help="only these sizes, any number")
    add("--backend", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    add("--threads", type=int, default=1, help="default: one")
    add(
        "--limit-seconds",
        type=float,
        default=20.0,
        help="of the first call of a point; default: 20",
    )
    add(
        "--limit-memory",
        type=float,
        default=6.0,
        metavar="GB",
        help="of the process of a point, on Linux; default: 6",
    )
    add(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="wall: elapsed time. cpu: time of the processor, for shared machines",
    )
    add("--quick", action="store_true", help="two small sizes, to see that it runs")
    add("--json", type=pathlib.Path, help="write the points here")
    add("--add", action="store_true", help="keep the other points of that file")
    add("--plot", type=pathlib.Path, metavar="FOLDER", help="draw a picture per curve")


def main(args: argparse.Namespace) -> int:
    """Measures the points. Returns 1 if a process failed for another reason."""
    check(args)
    facts = {**machine(args.threads), "clock": args.clock}
    print(idle_line(facts), file=sys.stderr)
    old = kept(args)
    document = report.document(facts, old["points"])
    document["versions"] |= old.get("versions", {})
    for curve in (CURVES[name] for name in args.curve or CURVES):
        for backend in args.backend:
            for point in points(curve, backend, args):
                print(report.line(point), flush=True)
                report.add(document, point)
                if args.json:  # save after each point
                    args.json.write_text(report.text(document), encoding="utf-8")
    print(report.table(document["points"]))
    if args.plot:
        from speed.growth import plot_growth

        args.plot.mkdir(parents=True, exist_ok=True)
        for name, (series, labels) in report.pictures(document["points"]).items():
            plot_growth(series, **labels).savefig(args.plot / f"{name}.png", dpi=160)
    return int(any(point["status"] == "failed" for point in document["points"]))


def check(args: argparse.Namespace) -> None:
    """Checks the options.

    Raises:
        UsageError: If a number is out of range, or a series is unknown.
    """
    if not 1 <= args.threads <= processors():
        raise UsageError(
            f"--threads must be from 1 to {processors()}, the processors this process "
            f"may use. Received: {args.threads}"
        )
    for name, value in (
        ("--limit-seconds", args.limit_seconds),
        ("--limit-memory", args.limit_memory),
        ("--size", min(args.size or [1])),
    ):
        if not value > 0:
            raise UsageError(f"{name} must be above 0. Received: {value}")
    if args.add and not args.json:
        raise UsageError("--add needs --json, the file to add to.")
    known = {one.name for name in args.curve or CURVES for one in CURVES[name].series}
    for name in args.series or ():
        if name not in known:
            raise UsageError(
                f"unknown series {name!r}. Known series: {', '.join(sorted(known))}"
            )


def kept(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the content of the file that the command adds to.

    Raises:
        UsageError: If the file is not a file of this command.
    """
    if not args.add or not args.json.exists():
        return {"points": []}
    try:
        old = dict(json.loads(args.json.read_text(encoding="utf-8")))
        return {**old, "points": list(old["points"])}
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{args.json} is no file of this command: {error}") from error


def points(curve: Curve, backend: str, args: argparse.Namespace) -> Iterator[Point]:
    """Measures the points of a curve on one backend, series by series."""
    sizes = args.size or (curve.few if args.quick else curve.sizes)
    for series in curve.series:
        if args.series and series.name not in args.series:
            continue
        stopped = None
        for size in sorted(sizes):
            point = {"curve": curve.name, "series": series.name, "backend": backend}
            point["size"] = size
            if stopped:
                yield {**point, "status": "not run", "reason": stopped}
                continue
            yield (point := measure(point, args))
            if point["status"] == "not run":
                stopped = f"{size:,} exceeds a limit"


def measure(point: Point, args: argparse.Namespace) -> Point:
    """Measures one point in a separate process, and ends it at a limit."""
    if importlib.util.find_spec(point["backend"]) is None:
        reason = f"install it with: pip install {point['backend']}"
        return {**point, "status": "not installed", "reason": reason}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "events.jsonl")
        given = {**point, "threads": args.threads, "path": str(path)}
        given["clock"] = args.clock
        given["seconds"] = args.limit_seconds / 4
        errors = pathlib.Path(folder, "errors")
        with errors.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-c", BOOTSTRAP, json.dumps(given)],
                env=environment(point["backend"], args.threads),
                stderr=file,
            )
            try:
                exceeded = watch(process, path, args)
            finally:
                process.kill()
                process.wait()
        if exceeded:
            return {**point, "status": "not run", "reason": exceeded}
        if process.returncode:
            said = errors.read_text(encoding="utf-8", errors="replace").strip()
            reason = said.rpartition("\n")[2] or f"status {process.returncode}"
            return {**point, "status": "failed", "reason": reason}
        found = {name: x for event in events(path) for name, x in event.items()}
        del found["event"]
        return {**point, "status": "measured", **found}


def watch(
    process: subprocess.Popen[bytes], path: pathlib.Path, args: argparse.Namespace
) -> str | None:
    """Waits for the process. Returns the limit that it exceeds, or None."""
    limits = [
        (args.limit_seconds + BUILD_SECONDS, "imports and inputs take"),
        (args.limit_seconds, "the first call takes"),
        (CALLS * args.limit_seconds, "the calls take"),
    ]
    spent = processor_time if args.clock == "cpu" else elapsed
    stage, start = 0, spent(process.pid)
    while process.poll() is None:
        time.sleep(PAUSE)
        if resident(process.pid) > args.limit_memory * GIGABYTE:
            return f"more than {args.limit_memory:g} GB of memory"
        reached = min(len(events(path)), len(limits) - 1)
        if reached > stage:
            stage, start = reached, spent(process.pid)
        seconds, what = limits[stage]
        if spent(process.pid) - start > seconds:
            return f"{what} more than {seconds:g} s"
    return None


def events(path: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the events that the process has written completely."""
    if not path.exists():
        return []
    *whole, _ = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in whole]


def elapsed(pid: int) -> float:
    """Returns the elapsed time in seconds; that of every process is the same."""
    return time.monotonic()


def processor_time(pid: int) -> float:
    """Returns the time of the processor that a process has used, in seconds.

    Without /proc, it is the elapsed time.
    """
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return elapsed(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Returns the resident set of a process in bytes; 0 if the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):  # it ended, or there is no /proc
        return 0
