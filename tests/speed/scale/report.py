"""Reports of the command `scale`: lines, tables, the JSON file and the pictures."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from speed.scale import CURVES
from studies import reports

SCHEMA = 1
DIGITS = 4  # significant digits in the file
KEY = ("curve", "series", "backend", "size")
NAMES = {"jax": "JAX", "torch": "torch", "tensorflow": "TensorFlow"}

Point = dict[str, Any]


def document(facts: dict[str, Any], points: Sequence[Point]) -> dict[str, Any]:
    """Returns the content of the file, with the given points."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {
        "schema": SCHEMA,
        "benchmark": "scale",
        "date": now,
        "machine": facts,
        "versions": {},
        "points": list(points),
    }


def add(found: dict[str, Any], point: Point) -> None:
    """Adds a point to the document. It replaces an older measurement."""
    point = {**point}
    versions = point.pop("versions", {})
    found["versions"] |= {point["backend"]: versions} if versions else {}
    for name in ("first_call_s", "seconds"):
        if name in point:
            point[name] = float(f"{point[name]:.{DIGITS}g}")
    place = {tuple(one[k] for k in KEY): n for n, one in enumerate(found["points"])}
    key = tuple(point[k] for k in KEY)
    if key in place:
        found["points"][place[key]] = point
    else:
        found["points"].append(point)


def text(found: dict[str, Any], points: str = "points") -> str:
    """Returns the document as JSON with one line per point; `points` is their name."""
    head = {name: x for name, x in found.items() if name != points}
    lines = ",\n".join(
        "  " + json.dumps(point, ensure_ascii=False) for point in found[points]
    )
    opened = json.dumps(head, indent=1, ensure_ascii=False)[: -len("\n}")]
    return f'{opened},\n "{points}": [\n{lines}\n ]\n}}\n'


def line(point: Point) -> str:
    """Formats a point as a line of text."""
    who = f"{point['backend']}: {point['curve']}, {point['series']}, {point['size']:,}"
    return f"{who}: {cell(point)}"


def cell(point: Point) -> str:
    """Formats the time and the memory of a point, or why it was not run."""
    if point["status"] != "measured":
        return f"{point['status']}: {point['reason']}"
    return f"{seconds(point['seconds'])}, {memory(point['memory_bytes'])}"


def seconds(value: float) -> str:
    """Formats a duration."""
    return f"{_short(value)} s" if value >= 1 else f"{_short(1e3 * value)} ms"


def memory(value: int | None) -> str:
    """Formats a number of bytes."""
    if value is None:
        return "unknown"
    return f"{_short(value / 1e9)} GB" if value >= 1e9 else f"{_short(value / 1e6)} MB"


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2g}" if value < 10 else f"{value:.3g}"


def table(points: Sequence[Point]) -> str:
    """Formats the points as a Markdown table per curve: a row per size."""
    parts = [
        f"{name}: {CURVES[name].title}\n\n{_table(name, own)}"
        for name, own in _by_curve(points).items()
    ]
    return "\n\n".join(parts)


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns tables for pages: of each series of each curve, and of its exponents.

    The points are those of scale.json and of scale-CURVE.json.
    """
    files = [found for name, found in raw.items() if name.startswith("scale")]
    points = [point for found in files for point in found["points"]]
    texts = {n: _lookups(raw[n]["points"]) for n in ("lookups",) if n in raw}
    for name, same_curve in _by_curve(points).items():
        exponents = []
        for series in dict.fromkeys(point["series"] for point in same_curve):
            own = [point for point in same_curve if point["series"] == series]
            texts[f"{name}: {series}"] = _short_table(name, own)
            exponents.append([series, *(_exponent(own, b) for b in NAMES)])
        texts[f"{name}: exponents"] = reports.table(["", *NAMES.values()], exponents)
    return texts


def _exponent(points: Sequence[Point], backend: str) -> str:
    """Fits seconds = c · size^e to the points of a backend, and formats e."""
    own = [p for p in points if (p["backend"], p["status"]) == (backend, "measured")]
    if len(own) < 2:
        return "–"
    sizes, times = np.log([(p["size"], p["seconds"]) for p in own]).T
    return f"{np.polyfit(sizes, times, 1)[0]:.2f}"


def _lookups(points: Sequence[Point]) -> str:
    """Formats a row per series and size of learned patterns."""
    cells = {(p["series"], p["size"], p["backend"]): _short_cell(p) for p in points}
    rows = [
        [name, f"{size:,}", *(cells.get((name, size, b), "–") for b in NAMES)]
        for name, size in dict.fromkeys((p["series"], p["size"]) for p in points)
    ]
    return reports.table(["keys, heads, call", "patterns", *NAMES.values()], rows)


NOISE = 1_000_000  # bytes; a smaller growth of memory is not shown in short cells


def _short_table(name: str, points: Sequence[Point]) -> str:
    """Formats a row per measured size and a column per backend."""
    backends = [b for b in NAMES if any(p["backend"] == b for p in points)]
    cells = {(p["size"], p["backend"]): _short_cell(p) for p in points}
    rows = [
        [f"{size:,}", *(cells.get((size, backend), "–") for backend in backends)]
        for size in sorted({p["size"] for p in points if p["status"] == "measured"})
    ]
    return reports.table([CURVES[name].size, *(NAMES[b] for b in backends)], rows)


def _short_cell(point: Point) -> str:
    if point["status"] != "measured":
        return "–"
    if (point["memory_bytes"] or 0) < NOISE:
        return seconds(point["seconds"])
    return cell(point)


def _table(name: str, points: Sequence[Point]) -> str:
    curve = CURVES[name]
    columns = [
        (one.name, backend)
        for one in curve.series
        for backend in ("torch", "jax", "tensorflow")
        if any((p["series"], p["backend"]) == (one.name, backend) for p in points)
    ]
    cells = {(p["size"], p["series"], p["backend"]): cell(p) for p in points}
    rows = [
        [f"{size:,}", *(cells.get((size, *column), "") for column in columns)]
        for size in sorted({p["size"] for p in points})
    ]
    titles = [f"{NAMES[backend]}, {series}" for series, backend in columns]
    return reports.table([curve.size, *titles], rows)


def pictures(
    points: Sequence[Point],
) -> dict[str, tuple[list[dict[str, Any]], dict[str, str]]]:
    """Returns the arguments of `plot_growth` for each curve."""
    found = {}
    for name, own in _by_curve(points).items():
        curve = CURVES[name]
        pictured = {one.name for one in curve.series if one.pictured}
        series: dict[tuple[str, str], dict[str, Any]] = {}
        for point in own:
            if point["status"] != "measured" or point["series"] not in pictured:
                continue
            label = f"{NAMES[point['backend']]}, {point['series']}"
            one = series.setdefault(
                (point["backend"], point["series"]),
                {"name": label, "group": point["backend"]},
            )
            for key, value in (
                ("x", point["size"]),
                ("seconds", point["seconds"]),
                ("bytes", point["memory_bytes"] or 0),
            ):
                one.setdefault(key, []).append(value)
        if series:
            labels = {"x_label": curve.size, "title": curve.title}
            found[name] = (list(series.values()), labels)
    return found


def _by_curve(points: Sequence[Point]) -> dict[str, list[Point]]:
    names = dict.fromkeys(point["curve"] for point in points)
    return {n: [p for p in points if p["curve"] == n] for n in CURVES if n in names}
