"""The file and the tables of the command `gpu`, and the series of its picture."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import time
from collections.abc import Sequence
from typing import Any

from speed.gpu.rows import LENGTHS, MODES, WIDTHS, named, rows
from speed.harness import SAME
from speed.scale.report import NAMES, memory, seconds, text
from studies import reports

RESULTS = reports.ROOT / "docs" / "results" / "gpu.json"
TESTS = RESULTS.with_name("gpu-tests.json")  # of tests/on_gpu.py
IDENTITY = ("backend", "device", "versions", "quick")  # facts that rows must share
BOTH = ("jax", "torch")  # backends that have all rows
NOT_RUN, BEGUN = "not run", "begun"
LABELS = {
    "x_label": "tokens T",
    "title": "causal attention with gradients, B · T = 16,384, H16 E128",
}

Document = dict[str, Any]
Result = dict[str, Any]


def load(path: pathlib.Path) -> Document:
    """Returns the content of a file, or that of an empty one."""
    if path.exists():
        return json.loads(path.read_text("utf-8"))
    return {"schema": 1, "benchmark": "gpu", "runs": {}, "rows": []}


def save(path: pathlib.Path, document: Document, *results: Result) -> None:
    """Adds rows in the place of older ones, and writes the file.

    A process that is stopped leaves the file whole.
    """
    new = {(x["key"], x["backend"]) for x in results}
    old = [x for x in document["rows"] if (x["key"], x["backend"]) not in new]
    document["rows"] = [*old, *results]
    other = path.with_suffix(".new")
    other.write_text(text(document, "rows"), "utf-8")
    os.replace(other, path)


def end(path: pathlib.Path, run: str, reason: str) -> int:
    """Ends the row that a process has begun: it failed, or is not run if no reason.

    Returns the number of rows of a run.
    """
    document = load(path)
    begun = [row for row in document["rows"] if row["status"] == BEGUN]
    document["rows"] = [row for row in document["rows"] if row["status"] != BEGUN]
    for row in begun:
        took = f"{time.time() - row.pop('start'):.0f} s"
        row |= {"status": "failed", "reason": f"{reason} after {took}"}
    if begun:
        save(path, document, *(begun if reason else ()))
    return sum(row["run"] == run for row in document["rows"])


def known(document: Document, run: str) -> dict[str, Result]:
    """Returns the rows that were measured with the versions and device of a run."""
    runs = document["runs"]
    if run not in runs:
        return {}
    facts = runs[run]
    alike = [r for r in runs if all(runs[r][name] == facts[name] for name in IDENTITY)]
    return {row["key"]: row for row in document["rows"] if row["run"] in alike}


def ahead(document: Document, every: Sequence[Any], run: str) -> list[Any]:
    """Returns the rows to measure: new rows, then those that failed in other runs."""
    old = known(document, run)
    failed = {k for k, x in old.items() if x["status"] == "failed" and x["run"] != run}
    new = [row for row in every if row.key not in old]
    return new + [row for row in every if row.key in failed]


def reasons(row: Result | None) -> str:
    """Returns why a row or its peers failed, or ""."""
    if row and row["status"] == "failed":
        return f"failed: {row['reason']}"
    errors = row["errors"].items() if row else ()
    return "; ".join(f"{name} failed: {why}" for name, why in errors)


def cell(row: Result | None, rate: bool = False) -> str:
    """Formats our time and memory, the ratio to each peer, and the floor.

    With `rate`, it is TFLOP/s and the ratio to the peer. Failed peers are named.
    """
    if row is None or row["status"] != "measured":
        return NOT_RUN if row is None else "failed"
    ours, *peers = row["sides"].items()
    took, needed = milliseconds(ours[1]), ours[1]["memory_bytes"]
    failed = [f"{name} failed" for name in row["errors"]]
    if rate:
        ratios = "".join(f" ({side['ratio']['median']:.2f})" for _, side in peers)
        return "; ".join([f"{row['flops'] / took / 1e9:.0f}{ratios}", *failed])
    parts = [seconds(took / 1e3)]
    if row["amount"]:
        count, what = row["amount"]
        parts[0] += f", {1e3 * count / took:,.0f} {what}/s"
    parts[0] += f", {memory(needed)}" if needed else ""
    for name, side in peers:
        noise = " within noise" if side["verdict"] == SAME else ""
        parts.append(f"{name} {side['ratio']['median']:.2f}{noise}")
    return "; ".join([*parts, *failed, f"floor {seconds(row['floor_ms'] / 1e3)}"])


def milliseconds(side: dict[str, Any]) -> float:
    """Returns the median of a call: by events of the device if it has some."""
    return side.get("device_ms", side["wall_ms"])[1]


def core_key(length: int, width: int, mask: str, mode: str) -> str:
    """Returns the key of a row of the group "core"."""
    return f"core: {named(f'T = {length:,}, E = {width}', mask, mode)}"


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/gpu.md.

    `raw` may have the content of the file as "gpu"; by default, it is that of the page.
    """
    document = raw.get("gpu") or load(RESULTS)
    every = {(x["backend"], x["key"]): x for x in document["rows"]}
    texts = {}
    for group, count in (("masks", 2), ("layers", 3), ("models", 3)):
        backends = [*NAMES][:count]
        lines = [
            [
                row.name,
                *(
                    cell(every.get((b, row.key))) if row.runs_on(b) else "–"
                    for b in backends
                ),
            ]
            for row in rows()
            if row.group == group
        ]
        texts[group] = reports.table(["", *NAMES.values()][: count + 1], sorted(lines))
    for mode in MODES:
        lines = []
        grid = itertools.product(BOTH, WIDTHS, ("none", "causal"))
        for backend, width, mask in grid:
            keys = [core_key(length, width, mask, mode) for length in LENGTHS]
            cells = [cell(every.get((backend, key)), True) for key in keys]
            title = "no mask" if mask == "none" else mask
            lines.append([NAMES[backend], str(width), title, *cells])
        titles = ["", "E", "mask", *(f"T = {length:,}" for length in LENGTHS)]
        texts[f"core, {mode}"] = reports.table(titles, lines)
    picture = "![Time and memory of attention over the number of tokens](gpu.png)"
    texts["picture"] = picture if series(document) else NOT_RUN
    return {**texts, "tests": _tests(), "runs": _runs(document)}


def _tests() -> str:
    """Formats how many tests passed, failed and were skipped on a GPU."""
    kinds = ("passed", "failed", "skipped")
    results = json.loads(TESTS.read_text("utf-8")) if TESTS.exists() else {}
    lines = [
        [NAMES[b], results[b]["device"], *(f"{len(results[b][k]):,}" for k in kinds)]
        if b in results
        else [NAMES[b], *[NOT_RUN] * 4]
        for b in BOTH
    ]
    return reports.table(["", "device", *kinds], lines)


def _runs(document: Document) -> str:
    """Formats the device, the versions and the rates of each run of the file."""
    names = ("keras_attention", "keras", *NAMES, "python")
    lines = []
    for date in sorted({row["run"] for row in document["rows"]}):
        run = document["runs"][date]
        versions = [f"{k} {run['versions'][k]}" for k in names if k in run["versions"]]
        device = run["device"]
        rates = [
            f"{run['rates'][x] / 1e12:.3g}" for x in ("bfloat16", "float32", "bytes")
        ]
        lines.append(
            [NAMES[run["backend"]], date[:10], device, ", ".join(versions), *rates]
        )
    titles = ["", "date", "device", "versions", "bfloat16", "float32", "copy"]
    return reports.table(titles, lines) if lines else NOT_RUN


def series(document: Document) -> list[dict[str, Any]]:
    """Returns the curves of the picture: each side of the rows that `LABELS` names."""
    every = {(row["backend"], row["key"]): row for row in document["rows"]}
    curves: dict[tuple[str, str], dict[str, Any]] = {}
    for backend in BOTH:
        for length in LENGTHS:
            key = core_key(length, 128, "causal", "fwd+bwd")
            for name, side in every.get((backend, key), {}).get("sides", {}).items():
                new: dict[str, Any] = {"x": [], "seconds": [], "bytes": []}
                new |= {"name": f"{NAMES[backend]}, {name}", "group": backend}
                curve = curves.setdefault((backend, name), new)
                curve["x"].append(length)
                curve["seconds"].append(milliseconds(side) / 1e3)
                curve["bytes"].append(side["memory_bytes"] or 0)
    return [*curves.values()]
