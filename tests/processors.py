"""Gives each environment of a parallel run a processor of its own.

Without it, each environment starts a thread per processor, and two environments at a
time wait for each other: the exports then took twice as long.
"""

import os
import pathlib
import tempfile

held = []  # open files, whose locks last as long as the process


def take_one() -> int | None:
    """Binds this process, and those that it starts, to a processor that is free.

    Returns:
        The number of the processor; None if none is free, outside `run.py`, or
        where the system cannot do it.
    """
    if "TESTS_TAKE_ONE_PROCESSOR" not in os.environ or not hasattr(
        os, "sched_setaffinity"
    ):
        return None
    import fcntl

    folder = pathlib.Path(tempfile.gettempdir()) / f"tests-processors-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for number in sorted(os.sched_getaffinity(0)):
        file = (folder / str(number)).open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        held.append(file)
        os.sched_setaffinity(0, {number})
        return number
    return None
