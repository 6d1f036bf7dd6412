"""Measures which models and layers each format holds, and writes the tables.

    python tests/exports                       measure the missing cells
    python tests/exports --only memn2n         and its name's rows alone
    python tests/exports --only memn2n --again measure them once more

A cell exports one row (`export_rows.py`) from one backend in one format, runs the file
in a process that cannot import Keras or this package, and compares with `predict` at
sizes that the export has not seen. If that fails, it exports and runs with fixed sizes.
The results are stored in `docs/results/exports.json` after each cell, and the tables
between the markers in `docs/export.md` are written from this file.
"""

import argparse
import json
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent), str(HERE.parent / "interop")]
import export_table
from export_labels import LABELS
from export_worker import MARK
from processes import environment

LIMIT = 180  # seconds of an export, and of a run


class Worker:
    """A process that answers requests; it is started anew after a crash."""

    def __init__(self, command, backend, folder):
        self.command, self.backend, self.folder = command, backend, folder
        self.process = None

    def start(self):
        given = environment(self.backend, pathlib.Path(self.folder))
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "export_worker.py"), self.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**given, "OMP_NUM_THREADS": "1"},
        )
        self.lines = queue.Queue()
        threading.Thread(
            target=self.listen, args=(self.process.stdout, self.lines), daemon=True
        ).start()

    @staticmethod
    def listen(stream, lines):
        for line in stream:
            if line.startswith(MARK):
                lines.put(json.loads(line.removeprefix(MARK)))
        lines.put(None)

    def ask(self, **request):
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            reply = self.lines.get(timeout=LIMIT)
            error = "The process ended"
        except queue.Empty:
            reply, error = None, f"No answer in {LIMIT} seconds"
        except BrokenPipeError:
            reply, error = None, "The process ended"
        if reply is None:
            self.stop()
            return {"error": error, "ours": False}
        return reply

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def attempt(exporter, runner, row, kind, fixed):
    """What an export of a row gives: {"difference": …} or {"error": …, "at": …}."""
    with tempfile.TemporaryDirectory() as folder:
        request = {"row": row, "format": kind, "folder": folder, "fixed": fixed}
        reply = exporter.ask(**request)
        if "error" in reply:
            return {**reply, "at": "export"}
        reply = runner.ask(**request)
        if "error" in reply:
            reply["at"] = "run"
        return reply


def measure(exporter, runner, row, kind):
    """The cell of a row in a format: free sizes, or else fixed sizes."""
    free = attempt(exporter, runner, row, kind, fixed=False)
    if "error" not in free or export_table.is_missing(free):
        return {"free": free}
    return {"free": free, "fixed": attempt(exporter, runner, row, kind, fixed=True)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="only rows whose names begin so")
    parser.add_argument("--formats", nargs="+", choices=export_table.FORMATS)
    parser.add_argument("--backends", nargs="+", choices=export_table.BACKENDS)
    parser.add_argument("--again", action="store_true", help="also measured cells")
    parser.add_argument("--to", type=pathlib.Path, default=export_table.RESULTS)
    given = parser.parse_args()
    formats = given.formats or export_table.FORMATS
    with tempfile.TemporaryDirectory() as folder:
        runner = Worker("run", "tensorflow", folder)
        for backend in given.backends or export_table.BACKENDS:
            exporter = Worker("export", backend, folder)
            for row in LABELS:
                if not row.startswith((*(given.only or [""]),)):
                    continue
                for kind in formats:
                    column = f"{kind}-{backend}"
                    found = export_table.load(given.to)
                    if column in found.get(row, {}) and not given.again:
                        continue
                    start = time.monotonic()
                    cell = measure(exporter, runner, row, kind)
                    found = export_table.load(given.to)  # another command may write
                    found.setdefault(row, {})[column] = cell
                    export_table.store(given.to, found)
                    seconds = time.monotonic() - start
                    result = export_table.result(cell)
                    print(f"{row:32} {column:24} {result:8} {seconds:5.1f} s")
                    sys.stdout.flush()
            exporter.stop()
        runner.stop()
    if given.to == export_table.RESULTS:
        export_table.write()


if __name__ == "__main__":
    main()
