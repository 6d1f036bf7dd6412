"""What the reports of several commands share."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from typing import Any

from keras_attention.version import __version__


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


def thinned(history: Sequence[Any], most: int = 40) -> list[Any]:
    """Selects at most `most` evenly spaced entries, including the last one."""
    every = -(-len(history) // most)
    return list(history[::-1][:: max(every, 1)][::-1])
