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
import tempfile
import time
from typing import Any

import xla_flags

from speed.gpu import report
from speed.gpu.rows import select
from studies import reports
from studies.command_line import UsageError, environment

BOOTSTRAP = """
import json, sys
from speed.gpu import worker
worker.main(**json.loads(sys.argv[1]))
"""
LAST = 20.0  # seconds before the end in which no row is begun
ROW_SECONDS = 120.0  # at most, of one row
START_SECONDS = 150.0  # at most, until the first row
PAUSE = 0.05  # seconds between looks at the process


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `gpu`."""
    add = parser.add_argument
    add("--backend", choices=report.BACKENDS, required=True)
    add("--minutes", type=float, default=8.0, help="of the whole command; default: 8")
    add("--rows", nargs="+", metavar="TEXT", help="rows whose keys contain a text")
    add("--json", type=pathlib.Path, help="default: docs/results/gpu.json")
    add("--again", action="store_true", help="also rows that the file has")
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
    stop = time.time() + 60 * args.minutes
    keys = [row.key for row in select(args.rows, args.quick)]
    session = Session(args, keys, stop)
    session.run()
    bad = [key for key in keys if report.is_bad(session.rows.get(key, {}))]
    left = [key for key in keys if key not in session.rows]
    for key in left:
        print(f"{key}: not run")
    for key in bad:
        print(f"{key}: {report.reasons(session.rows[key])}")
    if session.error:
        print(session.error)
    print(f"{len(keys)} rows: {len(left)} not run, {len(bad)} with errors")
    return int(bool(bad or session.error))


def settings(args: argparse.Namespace) -> dict[str, str]:
    """Returns what the environment of a process must say."""
    path = os.pathsep.join([environment()["PYTHONPATH"], str(reports.ROOT)])
    found = {"KERAS_BACKEND": args.backend, "PYTHONPATH": path}
    if args.quick and "XLA_FLAGS" not in os.environ:
        found["XLA_FLAGS"] = xla_flags.FLAGS  # a third of the time of toy programs
    return found


def _events(file: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the events that the process has written completely."""
    *whole, _ = file.read_text("utf-8").split("\n") if file.exists() else [""]
    return [json.loads(line) for line in whole]


class Session:
    """Measures rows of one backend in as many processes as it takes.

    Args:
        args: The options of the command.
        keys: The keys of the rows, in their order.
        stop: The `time.time` at which the command ends.
    """

    def __init__(self, args: argparse.Namespace, keys: list[str], stop: float) -> None:
        self.args, self.keys, self.stop = args, keys, stop
        self.path = args.json or report.RESULTS
        self.document = report.load(self.path)
        self.facts: dict[str, Any] = {}
        self.rows: dict[str, Any] = {}  # by key: those of this device and versions
        self.tried: list[str] = []
        self.error = ""  # why no process can measure

    def run(self) -> None:
        """Measures the rows, until all are measured or the time has passed."""
        tries = 0  # processes that have begun no row
        while time.time() < self.stop - LAST and not self._is_done():
            before = len(self.tried)
            status = self._run_process()
            tries = tries + 1 if len(self.tried) == before else 0
            if status and tries > 1:
                self.error = f"the process ends with status {status} before any row"
                return

    def _is_done(self) -> bool:
        again = self.args.again
        return bool(self.facts) and not report.ahead(
            self.keys, self.rows, self.tried, again
        )

    def _run_process(self) -> int | None:
        """Runs one process to its end, and returns its status; None if it is killed."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "events.jsonl")
            given = {
                "path": str(file),
                "stored": str(self.path),
                "backend": self.args.backend,
                "keys": self.keys,
                "tried": self.tried,
                "again": self.args.again,
                "quick": self.args.quick,
                "stop": self.stop - LAST,
            }
            process = subprocess.Popen(
                [sys.executable, "-c", BOOTSTRAP, json.dumps(given)],
                env={**environment(), **settings(self.args)},
            )
            try:
                return self._watch(process, file)
            finally:
                process.kill()
                process.wait()

    def _watch(self, process: Any, file: pathlib.Path) -> int | None:
        """Stores the events of a process. Ends it if a row takes too long."""
        read, key, since, limit = 0, "", time.time(), START_SECONDS
        while True:
            status = process.poll()  # before the events, so that none is missed
            for event in _events(file)[read:]:
                read, since = read + 1, time.time()
                kind = event["event"]
                if kind == "facts":
                    self._begin(event["facts"])
                elif kind == "start":
                    key, limit = event["key"], ROW_SECONDS
                    self.tried.append(key)
                else:
                    self._store(event["row"])
                    key = ""
            now = time.time()
            late = now > self.stop - 2
            if status is None and not late and now - since < limit:
                time.sleep(PAUSE)
                continue
            if status is None and not late:
                reason = f"it takes more than {limit:g} s"
            else:
                reason = f"the process ends with status {status}"
            if key and not (late and status is None):  # else the row is not run
                self._store({"key": key, "status": "failed", "reason": reason})
            if status is None and not key and not late:
                self.error = reason
            return status

    def _begin(self, facts: dict[str, Any]) -> None:
        """Adds the facts of a process, and finds the rows that need not be measured."""
        if not self.facts:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            self.facts = {"date": now, "command": reports.command(), **facts}
            self.rows = report.rows_of(self.document, facts, self.args.quick)
            self.document["runs"].append(self.facts)
            print(f"{self.facts['device']}: {len(self.rows)} rows in the file")

    def _store(self, row: dict[str, Any]) -> None:
        """Adds a row to the file, in the place of an older one."""
        run = len(self.document["runs"]) - 1
        row |= {"backend": self.args.backend, "quick": self.args.quick, "run": run}
        report.add(self.document, row)
        self.rows[row["key"]] = row
        report.save(self.path, self.document)
        print(report.line(row), flush=True)
