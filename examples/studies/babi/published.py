"""Published bAbI test errors in per cent, with one column per model.

The columns come from Sukhbaatar et al. 2015 (tables 1 to 3), Weston et al. 2015, Graves
et al. 2016, Dehghani et al. 2019 and others; docs/results/babi.md and dnc.md name the
papers of the columns that they show.
"""

from __future__ import annotations

import csv
import functools
from importlib import resources


@functools.cache
def columns(size: str) -> dict[str, tuple[float, ...]]:
    """Returns all columns for one size of the training data.

    Args:
        size: "1k" or "10k".

    Returns:
        A dictionary that maps each column's name to its errors on tasks 1 … 20. Unknown
        errors are NaN.
    """
    file = resources.files(__package__) / f"published_{size}.csv"
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = [row for row in csv.DictReader(lines) if row["task"].isdecimal()]
    rows.sort(key=lambda row: int(row["task"]))
    names = [name for name in rows[0] if name != "task"]
    return {name: tuple(float(row[name] or "nan") for row in rows) for name in names}
