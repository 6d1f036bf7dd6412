"""The file of results: a line of JSON a run, so that a stopped benchmark can go on.

A run that was being written when the process died leaves half a line, which is dropped:
at most one run is lost.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from keras_attention.benchmarks.errors import UsageError

Run = dict[str, Any]

NEEDED = (
    *("recipe", "size", "data", "task", "seed", "errors", "train_error"),
    *("train_loss", "fit_seconds", "settings", "backend", "keras"),
)
BEGINNING = '{"recipe": '  # of every line that was written here


class Store:
    """Runs in a file, and in memory where there is none.

    Args:
        path: the file, which need not exist; None to keep nothing.

    Raises:
        UsageError: for a file that is not one of results, or that cannot be written.

    Attributes:
        runs: all that are there, the file's first.
        dropped: the half-written line that was dropped, or None.
    """

    def __init__(self, path: pathlib.Path | None) -> None:
        self.path = path
        self.runs: list[Run] = []
        self.dropped: str | None = None
        if path is None:
            return
        try:
            if path.exists():
                self._read(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError as error:
            raise UsageError(f"--out {path} cannot be used: {error}") from error

    def _read(self, path: pathlib.Path) -> None:
        *whole, rest = path.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(whole, 1):
            self.runs.append(_parse(line, f"{path}, line {number}"))
        if not rest:
            return
        try:
            self.runs.append(_parse(rest, f"{path}, line {len(whole) + 1}"))
            whole.append(rest)  # all of it but the end of the line was written
        except UsageError:
            if not rest.startswith(BEGINNING[: len(rest)]):
                raise
            self.dropped = rest
        _rewrite(path, whole)

    def find(self, **wanted: Any) -> list[Run]:
        """The runs that have all these values."""
        return [
            run
            for run in self.runs
            if all(run.get(name) == value for name, value in wanted.items())
        ]

    def add(self, run: Run) -> None:
        """Keeps a run, on the disk before this returns."""
        # As it will be read: tuples become lists, for one.
        line = json.dumps({"recipe": run["recipe"], **run})
        self.runs.append(json.loads(line))
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def _parse(line: str, where: str) -> Run:
    try:
        run = json.loads(line)
    except ValueError as error:
        raise UsageError(
            f"{where} is no run of this benchmark ({error}). Name another file with "
            "--out, or mend that line."
        ) from error
    if not isinstance(run, dict):
        raise UsageError(f"{where} is no run of this benchmark. Received: {line!r}")
    missing = [name for name in NEEDED if name not in run]
    if missing:
        raise UsageError(f"{where} is a run without {missing}.")
    return run


def _rewrite(path: pathlib.Path, lines: list[str]) -> None:
    """In one step, so that a process that dies meanwhile loses nothing."""
    new = path.with_name(path.name + ".new")
    new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    new.replace(path)
