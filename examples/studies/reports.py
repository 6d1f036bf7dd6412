"""What the reports of several commands share."""

from __future__ import annotations

import datetime
import functools
import importlib
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = re.compile(r"(<!-- table: (\S+) (.+?) -->\n).*?(<!-- end -->)", re.S)


def head(benchmark: str) -> dict[str, Any]:
    """Returns the first fields of a JSON report: its name, then `environment()`."""
    return {"benchmark": benchmark, **environment()}


def environment() -> dict[str, Any]:
    """Returns the facts that a figure depends on, besides settings and seed.

    Returns:
        "date", the time in UTC; "command", the command line; "device", the kind that
        Keras' backend computes on; "processor", its model; "processors", the number
        that this process may use; and the versions of Python, keras_attention, Keras
        and the backend.
    """
    import keras

    # They import Keras, which reports of speed do without.
    from keras_attention.version import __version__
    from studies import clocks

    backend = str(keras.config.backend())
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": f"KERAS_BACKEND={backend} {command()}",
        "device": clocks.own_device(),
        "processor": processor(),
        "processors": processors(),
        "python": platform.python_version(),
        "keras_attention": __version__,
        "keras": keras.__version__,
        backend: importlib.metadata.version(backend),
    }


def command() -> str:
    """Returns the command line of this process."""
    path = pathlib.Path(sys.argv[0])
    if path.is_absolute() and path.is_relative_to(ROOT):
        path = path.relative_to(ROOT)
    return shlex.join(["python", path.as_posix(), *sys.argv[1:]])


def processor() -> str:
    """Returns the model of the processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def processors() -> int:
    """Returns the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a table in Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def with_tables(page: str) -> str:
    """Writes the tables of a page from raw files.

    A table is between `<!-- table: MODULE NAME -->` and `<!-- end -->`. The module's
    function `tables` returns all tables of a topic by their names. It is called with
    the content of the files in the folder "results" of the module, or beside it.
    """
    return TABLE.sub(lambda m: f"{m[1]}\n{_tables(m[2])[m[3]]}\n\n{m[4]}", page)


@functools.cache
def _tables(name: str) -> dict[str, str]:
    module = importlib.import_module(name)
    folder = pathlib.Path(module.__file__ or "").parent
    files = [*folder.glob("results/*.json")] or folder.parent.glob("results/*.json")
    return module.tables({p.stem: json.loads(p.read_text("utf-8")) for p in files})


def thinned(history: Sequence[Any], most: int = 40) -> list[Any]:
    """Selects at most `most` evenly spaced entries, including the last one."""
    every = -(-len(history) // most)
    return list(history[::-1][:: max(every, 1)][::-1])
