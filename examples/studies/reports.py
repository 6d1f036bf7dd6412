"""What the reports of several commands share."""

from __future__ import annotations

import datetime
import functools
import importlib
import json
import os
import pathlib
import platform
import re
from collections.abc import Sequence
from typing import Any

from keras_attention.version import __version__

TABLE = re.compile(r"(<!-- table: (\S+) (.+?) -->\n).*?(<!-- end -->)", re.S)


def head(benchmark: str) -> dict[str, Any]:
    """Returns the first fields of a JSON report.

    Returns:
        "benchmark", its name; "date", the time in UTC; "python" and "keras_attention",
        the versions; and "processors", their number.
    """
    return {
        "benchmark": benchmark,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "keras_attention": __version__,
        "processors": os.cpu_count(),
    }


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
