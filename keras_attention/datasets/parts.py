"""Files of unfinished downloads, which the next download removes if they are stale.

A process holds a lock on its file while it downloads. The operating system releases the
lock when the process ends, even if it is killed.
"""

import contextlib
import os
import uuid
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, which does not remove a file that is open
    fcntl = None  # type: ignore[assignment]

_PREFIX = ".download-"


def new(folder: Path) -> BinaryIO:
    """Creates and locks an empty file for a download."""
    while True:
        file = open(folder / f"{_PREFIX}{uuid.uuid4().hex}", "xb")  # noqa: SIM115
        with contextlib.suppress(OSError):  # a file system without locks
            _lock(file)
        if Path(file.name).exists():  # not removed before it was locked
            return file
        file.close()


def finish(file: BinaryIO, target: Path) -> None:
    """Moves the file of a download to `target`, if possible before its lock ends."""
    if fcntl is None:
        file.close()
    os.replace(file.name, target)


def remove_stale(folder: Path) -> None:
    """Removes the files of downloads whose processes have ended."""
    for path in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # locked, or removed by another process
            if fcntl is None:
                path.unlink()
                continue
            with open(path, "rb") as file:
                _lock(file)
                path.unlink()


def _lock(file: BinaryIO) -> None:
    """Locks a file, or raises an OSError."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
