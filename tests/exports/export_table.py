"""The tables in docs/export.md, from the results in docs/results/exports.json."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

from export_labels import GROUPS
from export_reasons import REASONS

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results" / "exports.json"
PAGE = ROOT / "docs" / "export.md"
MARKERS = "<!-- exports: written by tests/exports -->", "<!-- end of exports -->"
FORMATS = {
    "saved_model": "SavedModel",
    "onnx": "ONNX",
    "litert": "LiteRT",
    "openvino": "OpenVINO",
}
BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "torch"}
COLUMNS = {
    f"{kind}-{backend}": f"{form} from {name}"
    for kind, form in FORMATS.items()
    for backend, name in BACKENDS.items()
}
NEAR = 1e-5  # |found - expected| / max(1, |expected|)
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
Cell = dict[str, Any]
Results = dict[str, dict[str, Cell]]


def load(path: pathlib.Path = RESULTS) -> Results:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def store(path: pathlib.Path, found: Results) -> None:
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")


def is_right(attempt: Cell) -> bool:
    difference = attempt.get("difference")
    return difference is not None and difference <= NEAR


def result(cell: Cell) -> str:
    """Returns "yes", "fixed", "refused", "no", or "wrong" for wrong numbers."""
    free, fixed = cell["free"], cell.get("fixed", {})
    if "error" not in free:
        return "yes" if is_right(free) else "wrong"
    if "error" not in fixed:
        return "fixed" if is_right(fixed) else "wrong"
    return "refused" if fixed["ours"] else "no"


def reason(cell: Cell) -> int | None:
    """Returns the place of the cell's reason in `REASONS`; -1 for an unknown one."""
    found = {"fixed": "free", "refused": "fixed", "no": "fixed"}.get(result(cell))
    if found is None:
        return None
    error = cell[found]["error"]
    for place, (pattern, _) in enumerate(REASONS):
        if re.search(pattern, error):
            return place
    return -1


def tables(found: Results) -> str:
    """Returns one table per group of rows, and the reasons below them."""
    columns = [
        column
        for column in COLUMNS
        if any(result(row[column]) in ("yes", "fixed") for row in found.values())
    ]
    numbers: dict[int, int] = {}
    parts = []
    for title, rows in GROUPS.items():
        head = [title, *(COLUMNS[column] for column in columns)]
        lines = [_line(head), "|---" * len(head) + "|"]
        for name, label in rows.items():
            cells = [_shown(found[name][column], numbers) for column in columns]
            lines.append(_line([label, *cells]))
        parts.append("\n".join(lines))
    notes = []
    for place, number in sorted(numbers.items(), key=lambda item: item[1]):
        notes.append(f"{number}. {REASONS[place][1]}{_of_keras(found, place)}")
    missing = [column for column in COLUMNS if column not in columns]
    for column in missing:
        places = [reason(row[column]) for row in found.values()]
        most = max(set(places), key=places.count)
        notes.append(f"\n**No column for {COLUMNS[column]}.** {REASONS[most][1]}")
    return "\n\n".join([*parts, "\n".join(notes)])


def _shown(cell: Cell, numbers: dict[int, int]) -> str:
    place = reason(cell)
    if place is None:
        return result(cell)
    number = numbers.setdefault(place, len(numbers) + 1)
    return f"{result(cell)} {str(number).translate(SUPERSCRIPTS)}"


def _of_keras(found: Results, place: int) -> str:
    """Names the rows of Keras' own layers that fail for the same reason as others."""
    failing = [
        name
        for name, row in found.items()
        if any(reason(cell) == place for cell in row.values())
    ]
    names = [label for name, label in GROUPS["Keras"].items() if name in failing]
    if len(names) in (0, len(failing)):
        return ""
    return f" The same happens with Keras' own {', '.join(names)}."


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write() -> None:
    """Puts the tables between the markers of the page."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(MARKERS[0])
    after = rest.split(MARKERS[1])[1]
    body = f"{MARKERS[0]}\n\n{tables(load())}\n\n{MARKERS[1]}"
    PAGE.write_text(before + body + after, "utf-8")
