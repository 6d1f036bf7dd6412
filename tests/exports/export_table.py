"""The tables in docs/export.md, from the results in docs/results/exports.json."""

from __future__ import annotations

import json
import pathlib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results" / "exports.json"
PAGE = ROOT / "docs" / "export.md"
FORMATS = ("saved_model", "onnx", "litert", "openvino")
BACKENDS = ("tensorflow", "jax", "torch")
COLUMNS = [f"{kind}-{backend}" for kind in FORMATS for backend in BACKENDS]
NEAR = 1e-5
Cell = dict[str, Any]


def load(path: pathlib.Path = RESULTS) -> dict[str, dict[str, Cell]]:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def store(path: pathlib.Path, found: dict[str, dict[str, Cell]]) -> None:
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")


MISSING = ("currently only available", "litert-torch", "litert_torch", "torch_xla")


def is_missing(attempt: Cell) -> bool:
    """Whether Keras has no such exporter, or none for these versions."""
    return any(text in attempt.get("error", "") for text in MISSING)


def is_right(attempt: Cell) -> bool:
    difference = attempt.get("difference")
    return difference is not None and difference <= NEAR


def result(cell: Cell) -> str:
    free, fixed = cell["free"], cell.get("fixed", {})
    if is_missing(free):
        return "–"
    if "error" not in free:
        return "yes" if is_right(free) else "wrong"
    if "error" not in fixed:
        return "fixed" if is_right(fixed) else "wrong"
    return "refused" if free["ours"] and fixed["ours"] else "no"


def write() -> None:
    pass
