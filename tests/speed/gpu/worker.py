"""Measures rows in a process of its own, and saves each in the file of the results.

The process ends if a row takes too long, or if the device no longer computes. The
command then starts another one.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import hashlib
import importlib.metadata
import pathlib
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import keras_attention
from speed import harness
from speed.compare.worker import versions
from speed.gpu import report, rows, timing
from speed.gpu.timing import CLOCKS
from studies import clocks, reports

QUERY = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")


def main(
    path: str,
    backend: str,
    parts: Any,
    quick: bool,
    run: str,
    command: str,
    stop: float,
    limit: float,
) -> None:
    """Measures rows that the file `path` does not have, in their order.

    `parts` are texts in the keys of the rows, or None. `run` and `command` are the name
    and the command line of the run. No row is begun after `stop`, a `time.time`, nor
    takes more than `limit` seconds.
    """
    file, timer = pathlib.Path(path), timing.Timer(backend, quick)
    document = report.load(file)
    if run not in document["runs"]:
        rates = timing.rates(backend, timer, 128 if quick else 8192)
        known = {**facts(backend), "quick": quick, "rates": rates}
        document["runs"][run] = {"command": command, **known}
        report.save(file, document)
    facts_of_run = document["runs"][run]
    remaining = report.ahead(document, rows.select(parts, quick, backend), run)
    print(f"{backend}, {facts_of_run['device']}: {len(remaining)} rows to measure")
    for row in remaining:
        if time.time() > stop:
            return
        faulthandler.dump_traceback_later(limit, exit=True)
        start = time.time()
        begun = {"key": row.key, "backend": backend, "run": run, "sizes": row.sizes}
        report.save(file, document, {**begun, "status": report.BEGUN, "start": start})
        result = {**begun, **measure(row, backend, timer, facts_of_run["rates"])}
        result["seconds"] = round(time.time() - start, 2)
        report.save(file, document, result)
        print(f"{row.key}: {report.cell(result)}", flush=True)
        gc.collect()
        timer.release()
        if not computes():
            sys.exit("the device no longer computes")
        faulthandler.cancel_dump_traceback_later()


def facts(backend: str) -> dict[str, Any]:
    """Returns what the figures depend on, besides sizes."""
    files = sorted(pathlib.Path(keras_attention.__file__).parent.rglob("*.py"))
    code = hashlib.sha256(b"".join(path.read_bytes() for path in files))
    packages = {**versions(), "keras_attention": keras_attention.__version__}
    packages["keras_attention, SHA-256 of its code"] = code.hexdigest()[:12]
    for package in importlib.metadata.distributions():
        if package.name.startswith(("nvidia-cudnn", "triton", "jax-cuda")):
            packages[package.name] = package.version
    device = clocks.device(backend)
    if device != "cpu":
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(QUERY, capture_output=True, text=True, timeout=30)
            device = done.stdout.partition("\n")[0].strip() or device
    return {
        "backend": backend,
        "device": device,
        "processor": reports.processor(),
        "processors": reports.processors(),
        "versions": packages,
        "seed": harness.SEED,
        "float32": "products of float32 are not computed in TF32",
    }


def computes() -> bool:
    """Returns whether the device still computes. After some errors, it does not."""
    from keras import ops

    try:
        return float(ops.sum(ops.ones((2, 2)))) == 4.0
    except Exception:
        traceback.print_exc()
        return False


def one_line(error: Exception) -> str:
    """Returns an error as one line without paths of this machine."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    folders = {str(reports.ROOT), sys.prefix, str(pathlib.Path.home())} - {"/"}
    for folder in sorted(folders, key=len, reverse=True):  # one may lie in another
        text = text.replace(folder, "…")
    return text if len(text) <= 400 else f"{text[:300]} … {text[-90:]}"


def measure(row: Any, backend: str, timer: Any, rates: dict[str, float]) -> Any:
    """Measures a row. No error leaves this function.

    Returns:
        A dict with "status": "measured", or "failed" with the reason if our side cannot
        be measured. "errors" has the reasons of the peers that cannot.
    """
    is_float32 = row.dtype == "float32"
    context = timing.true_float32(backend) if is_float32 else contextlib.nullcontext()
    try:
        with context:
            return {"status": "measured", **_measure(row, backend, timer, rates)}
    except Exception as error:
        traceback.print_exc()
        return {"status": "failed", "reason": one_line(error)}


def _measure(row: Any, backend: str, timer: Any, rates: dict[str, float]) -> Any:
    errors: dict[str, str] = {}

    def each(names: Any, function: Callable[[str], Any]) -> dict[str, Any]:
        """Returns results by name. An error of a peer is noted."""
        results = {}
        for name in names:
            try:
                results[name] = function(name)
            except Exception as error:
                if name == "ours":
                    raise
                traceback.print_exc()
                errors[name] = one_line(error)
        return results

    def built(name: str) -> tuple[Any, float]:
        start = time.perf_counter()
        return makers[name](), round(time.perf_counter() - start, 2)

    @functools.cache
    def calls(name: str) -> tuple[Callable[[], None], int]:
        call = timer.watched(sides[name][0].run)
        return call, timer.calls(call)

    def compared(name: str) -> np.ndarray:  # ours with itself is the null run
        return timer.compare(*zip(calls("ours"), calls(name)))

    makers = row.module.make(backend, row.sizes)
    sides = each(makers, built)
    # Not before all are built: some share weights.
    checked = each(sides, lambda name: sides[name][0].check())
    times = each(checked, compared)  # (pairs, call, clock) each
    ratios = {
        n: harness.spread(harness.pair_ratios(x[..., -1])) for n, x in times.items()
    }
    null = ratios["ours"]
    measured = {}
    for name, seconds in times.items():
        every = (
            seconds[:, 1] if name != "ours" else np.concatenate([*times.values()])[:, 0]
        )
        quartiles = 1e3 * np.percentile(every, [25, 50, 75], 0).T
        measured[name] = {
            **{c: [float(f"{x:.5g}") for x in q] for c, q in zip(CLOCKS, quartiles)},
            "calls_a_region": calls(name)[1],
            "memory_bytes": timer.memory(sides[name][0]),
            "error": None if np.isnan(checked[name]) else checked[name],
            "build_s": sides[name][1],
            "pairs": len(seconds),
            "ratio": ratios[name].to_json(),  # of ours, the null run
            "verdict": harness.verdict(ratios[name], null),
        }
    steps = row.module.steps(row.sizes)
    rate = rates[row.dtype], rates["bytes"]
    floor = harness.floor_seconds(steps, lambda shape: rate[0], lambda size: rate[1])
    return {
        "floor_ms": 1e3 * floor,
        "flops": sum(step.flops for step in steps),
        "amount": row.amount,
        "sides": measured,
        "errors": errors,
    }
