"""The results file: one line of JSON per run, so that a stopped benchmark can resume.

If the process dies while it writes a run, the next process drops the incomplete line.
At most one run is lost.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from studies.command_line import UsageError

Run = dict[str, Any]


class Store:
    """Stores runs in a file, or only in memory if there is no file.

    Args:
        path: the file; it need not exist yet. None stores the runs only in memory.
        needed: the required fields of every run; the first of them begins each line.

    Raises:
        UsageError: the file is not a results file, or it is not writable.

    Attributes:
        runs: all runs. Those read from the file come first.
        dropped: the incomplete line that was dropped, or None.
    """

    def __init__(self, path: pathlib.Path | None, needed: Sequence[str]) -> None:
        self.path = path
        self.needed = tuple(needed)
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
            self.runs.append(self._parse(line, f"{path}, line {number}"))
        if not rest:
            return
        try:
            self.runs.append(self._parse(rest, f"{path}, line {len(whole) + 1}"))
            whole.append(rest)  # only the line break is missing
        except UsageError:
            beginning = f'{{"{self.needed[0]}": '  # beginning of every line
            if not rest.startswith(beginning[: len(rest)]):
                raise
            self.dropped = rest
        _rewrite(path, whole)

    def _parse(self, line: str, where: str) -> Run:
        try:
            run = json.loads(line)
        except ValueError as error:
            raise UsageError(
                f"{where} is no run of this benchmark ({error}). Name another file "
                "with --out, or mend that line."
            ) from error
        if not isinstance(run, dict):
            raise UsageError(f"{where} is no run of this benchmark. Received: {line!r}")
        missing = [name for name in self.needed if name not in run]
        if missing:
            raise UsageError(f"{where} is a run without {missing}.")
        return run

    def find(self, **wanted: Any) -> list[Run]:
        """Returns the runs whose fields have all the values in `wanted`."""
        return [
            run
            for run in self.runs
            if all(run.get(name) == value for name, value in wanted.items())
        ]

    def done(self, what: str, settings: dict[str, Any], **wanted: Any) -> Run | None:
        """Returns the first run whose fields have the values in `wanted`, or None.

        Args:
            what: the subject of the runs, for the error message.
            settings: the required settings of the run.
            **wanted: values of fields of the run.

        Raises:
            UsageError: the run has other settings.
        """
        found = self.find(**wanted)
        if not found:
            return None
        theirs, given = found[0]["settings"], json.loads(json.dumps(settings))
        if theirs != given:
            changed = sorted(
                name
                for name in {*theirs, *given}
                if (name in theirs, theirs.get(name))
                != (name in given, given.get(name))
            )
            raise UsageError(
                f"--out {self.path} has runs of {what} with other settings "
                f"({', '.join(changed)}). Name another file."
            )
        return found[0]

    def performed(
        self, what: str, perform: Any, settings: Run, head: Any = None, **wanted: Any
    ) -> Run:
        """Returns `done` of this backend, or adds a run whose result is perform()."""
        import keras

        wanted["backend"] = keras.config.backend()
        run = self.done(what, settings, **wanted)
        if run is None:
            head = {**wanted, **(head or {"keras": keras.__version__})}
            run = self.add({**head, "settings": settings, "result": perform()})
        return run

    def add(self, run: Run, written: bool = True) -> Run:
        """Adds a run and returns it as it is stored.

        Args:
            run: the run.
            written: whether to write it to the file as well.
        """
        # The stored form can differ: tuples become lists, for example.
        first = self.needed[0]
        line = json.dumps({first: run[first], **run})
        self.runs.append(json.loads(line))
        if written and self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        return self.runs[-1]


def opened(path: pathlib.Path | None, needed: Sequence[str]) -> Store:
    """Opens a `Store`. Prints a message if an incomplete line was dropped."""
    store = Store(path, needed)
    if store.dropped is not None:
        print(f"{path}: the last line was half-written and was dropped.")
    return store


def _rewrite(path: pathlib.Path, lines: list[str]) -> None:
    """Rewrites the file atomically, so that nothing is lost if the process dies."""
    new = path.with_name(path.name + ".new")
    new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    new.replace(path)
