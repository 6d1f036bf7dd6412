"""The file, the lines and the tables of the command `gpu`, and the series of a plot."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from speed.gpu.rows import LENGTHS, MODES, WORDS, rows
from speed.harness import SAME
from studies import reports

SCHEMA = 1
BACKENDS = ("jax", "torch")
NAMES = {"jax": "JAX", "torch": "torch"}
RESULTS = reports.ROOT / "docs" / "results" / "gpu.json"
TESTS = RESULTS.with_name("gpu-tests.json")  # of tests/on_gpu.py
IDENTITY = ("backend", "device", "versions")  # facts that a stored row must share
NOT_RUN = "not run"

Document = dict[str, Any]
Result = dict[str, Any]


def load(path: pathlib.Path) -> Document:
    """Returns the content of a file, or that of an empty one."""
    if path.exists():
        return json.loads(path.read_text("utf-8"))
    return {"schema": SCHEMA, "benchmark": "gpu", "runs": [], "rows": []}


def save(path: pathlib.Path, document: Document) -> None:
    """Writes the file with one line for each row. A stopped process leaves it whole."""
    head = {name: x for name, x in document.items() if name != "rows"}
    lines = ",\n".join(
        "  " + json.dumps(row, ensure_ascii=False) for row in document["rows"]
    )
    opened = json.dumps(head, indent=1, ensure_ascii=False)[: -len("\n}")]
    other = path.with_suffix(".new")
    other.write_text(f'{opened},\n "rows": [\n{lines}\n ]\n}}\n', "utf-8")
    os.replace(other, path)


def add(document: Document, row: Result) -> None:
    """Adds a row. It replaces the one of the same key and backend."""

    def identity(x: Result) -> tuple:
        return x["key"], x["backend"], x["quick"]

    document["rows"] = [x for x in document["rows"] if identity(x) != identity(row)]
    document["rows"].append(row)


def rows_of(
    document: Document, facts: dict[str, Any], quick: bool
) -> dict[str, Result]:
    """Returns the rows that were measured with these versions, on this device."""
    fitting = {
        n
        for n, run in enumerate(document["runs"])
        if all(run[name] == facts[name] for name in IDENTITY)
    }
    return {
        row["key"]: row
        for row in document["rows"]
        if row["run"] in fitting and row["quick"] == quick
    }


def ahead(
    keys: Sequence[str], known: dict[str, Result], tried: Sequence[str], again: bool
) -> list[str]:
    """Returns the keys of the rows to measure: new rows, then those that failed."""
    left = [key for key in keys if key not in tried]
    if again:
        return left
    failed = [k for k in left if k in known and known[k]["status"] == "failed"]
    return [k for k in left if k not in known] + failed


def is_bad(row: Result) -> bool:
    """Returns whether a row failed, or one of its peers."""
    return bool(row) and (row["status"] == "failed" or bool(row["errors"]))


def reasons(row: Result) -> str:
    """Returns why a row or its peers failed."""
    if row["status"] == "failed":
        return f"failed: {row['reason']}"
    return "; ".join(f"{name} failed: {why}" for name, why in row["errors"].items())


def line(row: Result) -> str:
    """Formats a row as a line of text."""
    text = f"{row['key']}: "
    if row["status"] == "failed":
        return text + reasons(row)
    return text + "; ".join([cell(row), *([reasons(row)] if row["errors"] else [])])


def cell(row: Result) -> str:
    """Formats our time or rate, the ratio to each peer, and the share of the floor."""
    if row["status"] == "failed":
        return "failed"
    ours = milliseconds(row["sides"]["ours"])
    parts = [f"{_number(ours)} ms"]
    if row["amount"]:
        count, what = row["amount"]
        parts[0] += f", {1e3 * count / ours:,.0f} {what}/s"
    for name, side in row["sides"].items():
        if name != "ours":
            noise = " within noise" if side["verdict"] == SAME else ""
            parts.append(f"{name} {side['ratio']['median']:.2f}{noise}")
    parts += [f"{name} failed" for name in row["errors"]]
    return "; ".join([*parts, f"floor {_number(row['floor_ms'])} ms"])


def milliseconds(side: dict[str, Any]) -> float:
    """Returns the median of a call: by events of the device if it has some."""
    return side.get("device_ms", side["wall_ms"])[1]


def teraflops(row: Result, side: str) -> float:
    """Returns 10¹² operations a second of a side."""
    return row["flops"] / milliseconds(row["sides"][side]) / 1e9


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/gpu.md.

    `raw` may have the content of the file as "gpu"; by default, it is that of the page.
    """
    document = raw.get("gpu") or load(RESULTS)
    found = {(x["backend"], x["key"]): x for x in document["rows"] if not x["quick"]}
    tables = {f"core, {mode}": _core(found, mode) for mode in MODES}
    for group in ("masks", "layers", "models"):
        lines = []
        for row in rows():
            if row.group == group:
                cells = [found.get((b, row.key)) for b in BACKENDS]
                lines.append([row.name, *(cell(x) if x else NOT_RUN for x in cells)])
        tables[group] = reports.table(["", *NAMES.values()], sorted(lines))
    drawn = bool(series(document))
    picture = "![TFLOP/s of attention over the number of tokens](gpu.png)"
    tables |= {"picture": picture if drawn else NOT_RUN, "tests": _tests()}
    return {**tables, "runs": _runs(document)}


def _tests() -> str:
    """Formats how many tests passed, failed and were skipped on a GPU."""
    kinds = ("passed", "failed", "skipped")
    results = json.loads(TESTS.read_text("utf-8")) if TESTS.exists() else {}
    lines = [
        [NAMES[b], results[b]["device"], *(f"{len(results[b][k]):,}" for k in kinds)]
        if b in results
        else [NAMES[b], *[NOT_RUN] * 4]
        for b in BACKENDS
    ]
    return reports.table(["", "device", *kinds], lines)


def _core(found: dict[tuple[str, str], Result], mode: str) -> str:
    """Formats TFLOP/s, and the ratio to the fastest peer, with a column for each T."""
    lines = []
    for backend in BACKENDS:
        for head in (64, 128):
            for mask in ("no mask", "causal"):
                keys = [
                    f"core: T = {length:,}, D = {head}, {mask}, {WORDS[mode]}"
                    for length in LENGTHS
                ]
                cells = [_rate(found.get((backend, key))) for key in keys]
                lines.append([NAMES[backend], str(head), mask, *cells])
    titles = ["", "D", "mask", *(f"T = {length:,}" for length in LENGTHS)]
    return reports.table(titles, lines)


def _rate(row: Result | None) -> str:
    if row is None:
        return NOT_RUN
    if row["status"] == "failed":
        return "failed"
    ratios = [s["ratio"]["median"] for n, s in row["sides"].items() if n != "ours"]
    least = f" ({min(ratios):.2f})" if ratios else ""
    return f"{_number(teraflops(row, 'ours'))}{least}"


def _runs(document: Document) -> str:
    """Formats the device, the versions and the rates of each run of the file."""
    used = {row["run"] for row in document["rows"] if not row["quick"]}
    if not used:
        return NOT_RUN
    names = ("keras_attention", "keras", "jax", "torch", "python")
    lines = []
    for n in sorted(used):
        run = document["runs"][n]
        versions = (f"{k} {run['versions'][k]}" for k in names if k in run["versions"])
        rates = run["rates"]
        lines.append(
            [
                NAMES[run["backend"]],
                run["date"][:10],
                f"{run['device']}, driver {run['driver']}",
                ", ".join(versions),
                f"{_number(rates['bfloat16'] / 1e12)}",
                f"{_number(rates['float32'] / 1e12)}",
                f"{_number(rates['bytes'] / 1e12)}",
            ]
        )
    titles = ["", "date", "device", "versions", "bfloat16", "float32", "copy"]
    return reports.table(titles, lines)


def series(document: Document) -> list[dict[str, Any]]:
    """Returns the curves of causal attention with D = 128: TFLOP/s over T."""
    curves: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in document["rows"]:
        sizes = row.get("sizes", {})
        usual = sizes.get("D") == 128 and sizes.get("mask") == "causal"
        if row["quick"] or row["status"] == "failed" or not usual:
            continue
        if row["key"].startswith("core"):
            for side in row["sides"]:
                curve = curves.setdefault((sizes["mode"], row["backend"], side), {})
                curve[sizes["T"]] = teraflops(row, side)
    return [
        {
            "name": f"{NAMES[backend]}, {side}",
            "panel": WORDS[mode],
            "x": sorted(curve),
            "y": [round(curve[x], 1) for x in sorted(curve)],
        }
        for (mode, backend, side), curve in sorted(curves.items(), key=_order)
    ]


def _order(entry: tuple[tuple[str, str, str], Any]) -> tuple:
    """Sorts by the mode, then the backend; ours comes first."""
    mode, backend, side = entry[0]
    return mode, backend, side != "ours", side


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"
