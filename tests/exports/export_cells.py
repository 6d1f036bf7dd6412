"""Measures one cell: exports in one process, and runs the file in another."""

from __future__ import annotations

import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any

from export_worker import MARK
from processes import environment

WORKER = pathlib.Path(__file__).resolve().parent / "export_worker.py"
LIMIT = 300  # seconds of an export, and of a run


class Worker:
    """A process that answers requests; the next request after a crash starts it anew.

    Args:
        command: "export", or "run" for a process that cannot import this package.
        backend: Keras' backend in the process.
        folder: where JAX stores what it has compiled.
    """

    def __init__(self, command: str, backend: str, folder: Any) -> None:
        self.command, self.backend = command, backend
        self.folder = pathlib.Path(folder)
        self.process: subprocess.Popen | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), self.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**environment(self.backend, self.folder), "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self.replies: queue.Queue = queue.Queue()
        given = self.process.stdout, self.replies
        threading.Thread(target=_listen, args=given, daemon=True).start()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Returns the reply; its "error" also tells of a crash or a long wait."""
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            reply = self.replies.get(timeout=LIMIT)
            error = "The process ended"
        except queue.Empty:
            reply, error = None, f"No answer in {LIMIT} seconds"
        except BrokenPipeError:
            reply, error = None, "The process ended"
        if reply is None:
            self.stop()
            return {"error": error, "ours": False}
        return reply

    def stop(self) -> None:
        if self.process is not None:
            # An exporter may have started processes, which hold the pipes open.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            self.process = None


def _listen(stream: Any, replies: queue.Queue) -> None:
    for line in stream:
        if line.startswith(MARK):
            replies.put(json.loads(line.removeprefix(MARK)))
    replies.put(None)


def measure(exporter: Worker, runner: Worker, row: str, kind: str) -> dict[str, Any]:
    """Returns the attempt with free sizes and, if it fails, that with fixed sizes."""
    free = attempt(exporter, runner, row, kind, fixed=False)
    if "error" not in free:
        return {"free": free}
    return {"free": free, "fixed": attempt(exporter, runner, row, kind, fixed=True)}


def attempt(
    exporter: Worker, runner: Worker, row: str, kind: str, fixed: bool
) -> dict[str, Any]:
    """Returns the largest difference from `predict`, or the error and where it rose."""
    with tempfile.TemporaryDirectory() as folder:
        request = {"row": row, "format": kind, "folder": folder, "fixed": fixed}
        reply = exporter.ask(**request)
        if "error" in reply:
            return {**reply, "at": "export"}
        reply = runner.ask(**request)
        return {**reply, "at": "run"} if "error" in reply else reply
