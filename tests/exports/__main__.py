"""Measures which models and layers each format can hold, and writes the tables.

    python tests/exports                         measure the missing cells
    python tests/exports --only memn2n           of rows whose names begin so
    python tests/exports --only memn2n --again   and measure these once more
    python tests/exports --to results.json       all of them into another file; fails
                                                 if one is worse than in the page's

A cell exports one row (`export_rows.py`) from one backend in one format. It runs the
file in a process that cannot import Keras or this package, and compares the outputs
with `predict` at sizes that the export has not seen. If that fails, it exports and runs
with fixed sizes. The results are stored in `docs/results/exports.json` after each cell.
The tables between the markers in `docs/export.md` are written from this file.
"""

import argparse
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent), str(HERE.parent / "interop")]
import export_table
from export_cells import Worker, measure
from export_labels import LABELS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], help="rows that begin so")
    parser.add_argument("--formats", nargs="+", choices=[*export_table.FORMATS])
    parser.add_argument("--backends", nargs="+", choices=[*export_table.BACKENDS])
    parser.add_argument("--again", action="store_true", help="also measured cells")
    parser.add_argument("--to", type=pathlib.Path, default=export_table.RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for backend in given.backends or export_table.BACKENDS:
            with (
                Worker("export", backend, folder) as exporter,
                Worker("run", "tensorflow", folder) as runner,
            ):
                measure_all(given, backend, exporter, runner)
    if given.to == export_table.RESULTS:
        export_table.write()
    elif worse := cells_that_are_worse(export_table.load(given.to)):
        sys.exit(f"worse than in {export_table.RESULTS.name}: {', '.join(worse)}")


def cells_that_are_worse(measured):
    """The cells that were right, at any size or at a fixed one, and are not so now."""
    order = ("free", "fixed")

    def rank(cell):
        right = [export_table.is_right(cell.get(size, {})) for size in order]
        return right.index(True) if any(right) else len(order)

    return [
        f"{row} {column}"
        for row, cells in export_table.load().items()
        for column, cell in cells.items()
        if column in measured.get(row, {}) and rank(measured[row][column]) > rank(cell)
    ]


def measure_all(given, backend, exporter, runner):
    """Measures the cells of a backend; stores each, since the whole takes an hour."""
    for row in LABELS:
        if not row.startswith((*given.only,)):
            continue
        for kind in given.formats or export_table.FORMATS:
            column = f"{kind}-{backend}"
            if column in export_table.load(given.to).get(row, {}) and not given.again:
                continue
            start = time.monotonic()
            cell = measure(exporter, runner, row, kind)
            found = export_table.load(given.to)
            found.setdefault(row, {})[column] = cell
            export_table.store(given.to, found)
            seconds = time.monotonic() - start
            result = export_table.result(cell)
            print(f"{row:28} {column:24} {result:8} {seconds:5.1f} s", flush=True)


if __name__ == "__main__":
    main()
