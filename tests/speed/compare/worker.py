"""Runs cases on one backend in a separate process.

Each result is written as one line of JSON when it is finished. Results are thus not
lost if a later case ends the process.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import importlib.util
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from speed import harness
from speed.compare import backends, select
from speed.harness import Case
from studies.clocks import device

PACKAGES = (
    *("keras", "jax", "jaxlib", "torch", "tensorflow", "tensorflow-cpu", "numpy"),
    *("keras-hub", "transformers", "dnc"),
)

Calls = dict[str, Callable[[], Any]]


@dataclass(frozen=True)
class Options:
    """The measurement options of a case.

    Attributes:
        backend: "jax", "torch" or "tensorflow".
        pairs: Number of interleaved pairs per comparison.
        threads: Number of backend threads.
        sample_seconds: Minimum duration of one timing.
        clock: Returns the time in seconds.
    """

    backend: str
    pairs: int
    threads: int
    sample_seconds: float = 0.02
    clock: Any = time.perf_counter


def run_case(case: Case, options: Options, rates: Any) -> list[dict[str, Any]]:
    """Measures one case against each of its peers.

    Args:
        case: A `Case`.
        options: The `Options`.
        rates: The `backends.Rates` for the floor.

    Returns:
        A list with one dict per peer, or with a single dict that gives the reason if
        the case cannot be measured.
    """
    common: dict[str, Any] = {"case": case.name, "backend": options.backend}
    common["sizes"] = dict(case.sizes)
    for module in case.needs:
        if importlib.util.find_spec(module) is None:
            reason = f"{module} is not installed"
            return [{**common, "status": "skipped", "reason": reason}]
    clock = options.clock
    start = clock()
    contestants = case.make(options.backend)
    common["build_s"] = clock() - start
    calls = {n: backends.blocking(call) for n, call in contestants.calls.items()}
    try:
        errors, common["first_call_s"] = _check(case, contestants, calls, clock)
    except harness.NumericsError as error:
        return [{**common, "status": "wrong", "reason": str(error)}]
    counts = _warm_up(calls, options)
    ours = calls.pop("ours")
    floor = harness.floor_seconds(case.steps, rates.product, rates.copy)
    peak = harness.floor_seconds(
        case.steps, lambda _: rates.product(backends.PEAK_PRODUCT), rates.copy
    )
    common |= {
        "status": "measured",
        "floor_ms": 1e3 * floor,
        "floor_at_peak_ms": 1e3 * peak,
        "flops": case.flops,
        "bytes": case.bytes,
        "memory": _memory(contestants, ours, calls),
        "tolerance": case.tolerance,
        "amount": case.amount,
    }
    same = _pairs(ours, ours, (counts["ours"],) * 2, options)
    null = harness.spread(harness.pair_ratios(same))
    results = []
    for name, theirs in calls.items():
        count = (counts["ours"], counts[name])
        seconds = _pairs(ours, theirs, count, options)
        compared = _compare(seconds, null)
        numbers = {"calls_a_timing": list(count), "max_error": errors[name]}
        results.append({**common, "against": name, **numbers, **compared})
    return results


def _check(
    case: Case,
    contestants: harness.Contestants,
    calls: Calls,
    clock: Callable[[], float],
) -> tuple[dict[str, float], dict[str, float]]:
    """Calls each function once, which compiles it, and compares the results."""
    seconds, found = {}, {}
    for name, call in calls.items():
        start = clock()
        found[name] = call()
        seconds[name] = clock() - start
    if contestants.check is not None:
        return contestants.check(), seconds
    arrays = {name: backends.to_numpy(result) for name, result in found.items()}
    ours = arrays.pop("ours")
    errors = {}
    for name, theirs in arrays.items():
        try:
            errors[name] = harness.largest_difference(ours, theirs, case.tolerance)
        except harness.NumericsError as error:
            raise harness.NumericsError(f"ours against {name}: {error}") from error
    return errors, seconds


def _warm_up(calls: Calls, options: Options) -> dict[str, int]:
    """Warms up each function. Returns the number of calls per timing for each."""
    counts = {}
    for name, call in calls.items():
        best = float("inf")
        for _ in range(harness.WARM_UPS):
            start = options.clock()
            call()
            best = min(best, options.clock() - start)
        counts[name] = harness.calls_to_last(best, options.sample_seconds)
    return counts


def _pairs(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    calls: tuple[int, int],
    options: Options,
) -> np.ndarray:
    gc.disable()
    try:  # Calls of some peers leave reference cycles with hundreds of MB.
        return harness.time_pairs(
            ours, theirs, options.pairs, calls, options.clock, between=gc.collect
        )
    finally:
        gc.enable()


def _compare(seconds: np.ndarray, null: harness.Spread) -> dict[str, Any]:
    ratios = harness.pair_ratios(seconds)
    ratio = harness.spread(ratios)
    return {
        "pairs": len(ratios),
        "ours_ms": 1e3 * float(np.median(seconds[:, 0])),
        "theirs_ms": 1e3 * float(np.median(seconds[:, 1])),
        "ratio": ratio.to_json(),
        "null": null.to_json(),
        "verdict": harness.verdict(ratio, null),
        "ratios": [float(value) for value in ratios],
    }


def _memory(
    contestants: harness.Contestants, ours: Callable[[], Any], theirs: Calls
) -> dict[str, dict[str, int | None]]:
    """Measures bytes per contestant: growth of the resident set, and XLA's scratch."""
    calls = {"ours": ours, **theirs}
    scratch: dict[str, int | None] = {
        name: ask() for name, ask in contestants.memory.items()
    }
    return {
        "resident_growth": {name: resident_growth(c) for name, c in calls.items()},
        "xla_scratch": scratch,
    }


def resident_growth(call: Callable[[], Any]) -> int | None:
    """Returns the peak growth of the resident set during a call, in bytes.

    This needs a peak that can be reset, as on Linux. On other systems, the function
    returns None. Memory that the process already has and reuses does not count.
    """
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        before = status_bytes("VmRSS")
        call()
        return max(0, status_bytes("VmHWM") - before)
    except OSError:
        return None


def status_bytes(field: str) -> int:
    """Returns a field of this process' status, such as VmRSS, in bytes.

    Raises:
        OSError: If the system has no such status, which only Linux has.
    """
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the relevant installed packages."""
    found = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def fix_threads(backend: str, threads: int) -> None:
    """Limits the backend's threads. Call it before the backend computes."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    if backend == "tensorflow":
        threading = importlib.import_module("tensorflow").config.threading
        threading.set_intra_op_parallelism_threads(threads)
        threading.set_inter_op_parallelism_threads(1)


def main(
    path: str,
    backend: str,
    pairs: int,
    threads: int,
    names: list[str] | None,
    sizes: list[str],
    quick: bool,
    page: bool = False,
) -> None:
    """Runs the chosen cases and writes a line of JSON for each result."""
    fix_threads(backend, threads)
    sample = 0.005 if quick else 0.02
    options = Options(backend, pairs, threads, sample)
    rates = backends.Rates(backend, threads)
    with open(path, "a") as file:
        for case in select(names, sizes, quick, page):
            if backend not in case.backends:
                continue
            print(f"  {backend}: {case.label}", file=sys.stderr, flush=True)
            for result in run_case(case, options, rates):
                print(json.dumps({"result": result}), file=file, flush=True)
        rates.product(backends.PEAK_PRODUCT)
        facts = {
            "versions": versions(),
            "device": device(backend),
            "load_after": os.getloadavg()[0],
            "rates": rates.to_json(),
            "peak_resident_bytes": _peak_resident(),
        }
        print(json.dumps({"facts": facts}), file=file)


def _peak_resident() -> int:
    """Returns the peak resident set of this process in bytes.

    The system reports it in bytes on macOS and in KiB elsewhere.
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
