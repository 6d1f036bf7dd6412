"""Writes the tables of the pages of results: `python docs/tables.py`.

`reports.with_tables` in examples/studies tells how a page names a table.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main():
    sys.path[:0] = [str(ROOT), str(ROOT / "examples"), str(ROOT / "tests")]
    from studies.reports import with_tables

    for page in sorted((ROOT / "docs" / "results").glob("*.md")):
        page.write_text(with_tables(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
