"""A file with the state of a callback, for interrupted training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class EpochStates:
    """Stores the state of a callback at the start of each epoch in a file.

    `BackupAndRestore` decides at which epoch an interrupted training resumes. Its file
    may be one epoch older than this one, so the states of all epochs are stored.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._resumes = path is not None and path.exists()
        self._states: dict[str, Any] = {}
        if path is not None and path.exists():
            self._states = json.loads(path.read_text("utf-8"))

    def resume(self, epoch: int) -> Any:
        """Returns the state of the first epoch after an interruption, or else None."""
        if not self._resumes:
            return None
        self._resumes = False
        earlier = [int(k) for k in self._states if int(k) <= epoch]
        return self._states[str(max(earlier))] if earlier else None

    def store(self, epoch: int, state: Any) -> None:
        """Stores the state at the start of `epoch`."""
        if self.path is None:
            return
        self._states[str(epoch)] = state
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(f"{self.path.name}.part")
        part.write_text(json.dumps(self._states), "utf-8")
        part.replace(self.path)

    def delete(self) -> None:
        """Deletes the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
