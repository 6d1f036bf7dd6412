"""Measures rows in a process of its own, and writes a line of JSON for each event.

The events are "facts" once, then "start" and "row" for each row. The command kills the
process if a row takes too long, and starts it again after a row that ends it.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import time
import traceback
from typing import Any

import numpy as np

import keras_attention
from speed import harness
from speed.compare.worker import PACKAGES, versions
from speed.gpu import report, rows, timing
from speed.gpu.heads import Side
from studies import reports

PAIRS, SECONDS = 15, 2.0  # of a comparison, at most; see `timing.Timer`
QUICK_PAIRS, QUICK_SECONDS = 2, 0.0
BROKEN = 70  # exit status: the device no longer computes
DRIVER = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")


def main(
    path: str,
    stored: str,
    backend: str,
    keys: list[str],
    tried: list[str],
    again: bool,
    quick: bool,
    stop: float,
) -> None:
    """Measures the rows with these keys, in this order.

    Args:
        path: The file of the events.
        stored: The file of the results. Rows that it has are left out.
        backend: "jax" or "torch".
        keys: The keys of the rows.
        tried: The keys of rows that this command has already tried.
        again: Whether to measure rows of the file again.
        quick: Whether the rows have toy sizes.
        stop: The `time.time` at which no more row is begun.
    """
    every = {row.key: row for row in rows.rows(quick)}
    pairs = (QUICK_PAIRS, QUICK_SECONDS) if quick else (PAIRS, SECONDS)
    timer, parent = timing.Timer(backend, *pairs), os.getppid()
    if quick:
        timing.SAMPLE, timing.WARM_UP, timing.LEAST_PAIRS = 1e-4, 0.0, QUICK_PAIRS
    with open(path, "a", encoding="utf-8") as file:

        def tell(event: str, **details: Any) -> None:
            print(json.dumps({"event": event, **details}), file=file, flush=True)

        settings(backend)
        rates = timing.rates(backend, timer, quick)
        known = facts(backend)
        tell("facts", facts={**known, "rates": rates})
        old = report.rows_of(report.load(pathlib.Path(stored)), known, quick)
        for key in report.ahead(keys, old, tried, again):
            if time.time() > stop or os.getppid() != parent:
                return
            tell("start", key=key)
            start = time.time()
            result = measure(every[key], backend, timer, rates)
            tell("row", row={**result, "seconds": round(time.time() - start, 2)})
            gc.collect()
            timer.release()
            if not computes(backend):
                sys.exit(BROKEN)


def settings(backend: str) -> None:
    """Lets products of float32 be computed in float32."""
    if backend == "torch":
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False


CUDA_PACKAGES = (
    *("triton", "jax-cuda12-plugin", "jax-cuda13-plugin"),
    *("nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "transformers"),
)


def facts(backend: str) -> dict[str, Any]:
    """Returns what the figures depend on, besides sizes and seed."""
    files = sorted(pathlib.Path(keras_attention.__file__).parent.rglob("*.py"))
    code = hashlib.sha256(b"".join(path.read_bytes() for path in files))
    found = {**versions(), "keras_attention": keras_attention.__version__}
    found["keras_attention, SHA-256 of its code"] = code.hexdigest()[:12]
    for package in CUDA_PACKAGES:
        if package not in PACKAGES:
            try:
                found[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
    driver = None
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(DRIVER, capture_output=True, text=True, timeout=30)
        driver = done.stdout.strip() or None
    return {
        "backend": backend,
        "device": device(backend),
        "driver": driver,
        "processor": reports.processor(),
        "processors": reports.processors(),
        "versions": found,
        "seed": harness.SEED,
        "float32": "products of float32 are not computed in TF32",
    }


def device(backend: str) -> str:
    """Returns the name of the device, or "cpu"."""
    if backend == "torch":
        import torch

        return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    import jax

    first = jax.devices()[0]
    return "cpu" if first.platform == "cpu" else str(first.device_kind)


def computes(backend: str) -> bool:
    """Returns whether the device still computes. After some errors, it does not."""
    from keras import ops

    try:
        return float(ops.sum(ops.ones((2, 2)))) == 4.0
    except Exception:
        traceback.print_exc()
        return False


def measure(row: Any, backend: str, timer: Any, rates: dict[str, float]) -> Any:
    """Measures a row. No error leaves this function.

    Returns:
        A dict with "status": "measured", or "failed" with the reason if our side cannot
        be measured. "errors" has the reasons of the peers that cannot, and "skipped"
        those of peers that are not tried.
    """
    result: dict[str, Any] = {"key": row.key, "sizes": row.sizes, "status": "failed"}
    try:
        if row.dtype == "float32":
            with timing.true_float32(backend):
                return {**result, **_measure(row, backend, timer, rates)}
        return {**result, **_measure(row, backend, timer, rates)}
    except Exception as error:
        traceback.print_exc()
        return {**result, "reason": told(error)}


def told(error: Exception) -> str:
    """Returns an error as one line without paths of this machine."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    folders = {str(reports.ROOT), sys.prefix, str(pathlib.Path.home())} - {"/"}
    for folder in sorted(folders, key=len, reverse=True):  # one may lie in another
        text = text.replace(folder, "…")
    return text if len(text) <= 400 else f"{text[:300]} … {text[-90:]}"


def _measure(row: Any, backend: str, timer: Any, rates: dict[str, float]) -> Any:
    makers, skipped = row.make(backend)
    sides: dict[str, Side] = {}
    errors: dict[str, str] = {}
    checked, first = {}, {}
    start = time.perf_counter()
    for name, maker in makers.items():
        with _caught(name, errors):
            sides[name] = maker()
            first[name] = time.perf_counter() - start
        start = time.perf_counter()
    for name in [*sides]:  # not before all are built: some share weights
        with _caught(name, errors):
            checked[name] = sides[name].check()
    sides = {name: side for name, side in sides.items() if name in checked}
    times: dict[str, list[np.ndarray]] = {name: [] for name in sides}
    compared: dict[str, dict[str, Any]] = {}
    ours = sides.pop("ours")
    counts = {"ours": timer.calls(ours.call.run)}
    same = timer.compare([ours.call.run] * 2, [counts["ours"]] * 2)
    times["ours"].append(same.reshape(-1, 2))
    clock = int(timer.has_events)
    null = harness.spread(harness.pair_ratios(same[..., clock]))
    for name, side in sides.items():
        with _caught(name, errors):
            counts[name] = timer.calls(side.call.run)
            count = [counts["ours"], counts[name]]
            seconds = timer.compare([ours.call.run, side.call.run], count)
            ratio = harness.spread(harness.pair_ratios(seconds[..., clock]))
            compared[name] = {
                "ratio": ratio.to_json(),
                "verdict": harness.verdict(ratio, null),
                "pairs": len(seconds),
            }
            times["ours"].append(seconds[:, 0])
            times[name].append(seconds[:, 1])
    sides = {"ours": ours, **{n: side for n, side in sides.items() if n in compared}}
    steps = row.steps()
    return {
        "status": "measured",
        "floor_ms": 1e3
        * harness.floor_seconds(
            steps, lambda shape: rates[row.dtype], lambda size: rates["bytes"]
        ),
        "flops": sum(step.flops for step in steps),
        "amount": row.amount,
        "null": null.to_json(),
        "sides": {
            name: {
                **_milliseconds(np.concatenate(times[name])),
                "calls_a_region": counts[name],
                "memory_bytes": timer.memory(side.call),
                "error": None if np.isnan(checked[name]) else checked[name],
                "build_s": round(first[name], 2),
                **compared.get(name, {}),
            }
            for name, side in sides.items()
        },
        "errors": errors,
        "skipped": skipped,
    }


class _caught:
    """Context manager that notes the error of a peer; an error of ours leaves it."""

    def __init__(self, name: str, errors: dict[str, str]) -> None:
        self.name, self.errors = name, errors

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if not isinstance(error, Exception) or self.name == "ours":
            return False
        traceback.print_exception(error)
        self.errors[self.name] = told(error)
        return True


def _milliseconds(seconds: np.ndarray) -> dict[str, list[float]]:
    """Returns quartiles of a call: of the host's clock, and of the device's events."""
    found = {}
    for n, clock in enumerate(("wall_ms", "device_ms")):
        if not np.isnan(seconds[:, n]).any():
            quartiles = np.percentile(seconds[:, n], [25, 50, 75])
            found[clock] = [float(f"{1e3 * x:.5g}") for x in quartiles]
    return found
