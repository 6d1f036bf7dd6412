"""Measures one point in a separate process.

The process writes a line of JSON when the inputs exist, after the first call, and at
the end. The command ends it if it exceeds a limit.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from speed.compare import backends
from speed.compare.worker import fix_threads, resident_growth, versions
from speed.scale import CURVES
from studies.clocks import device

CALLS, WARM_UPS = 9, 2
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
SHORT = 0.02  # seconds; shorter calls are timed in groups of this duration
TRIM, MMAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
BLOCK = 131_072  # bytes; free blocks of this size go back to the system
KEPT = 33_554_432  # the same in a process that has freed large blocks
LONG = 1.0  # seconds; the time of one such call is enough


def main(
    path: str,
    backend: str,
    threads: int,
    curve: str,
    series: str,
    size: int,
    seconds: float,
    clock: str,
) -> None:
    """Measures one point and writes its lines to the file.

    Args:
        path: The file.
        backend: The name of the backend.
        threads: The number of threads.
        curve: The name of the curve.
        series: The name of the series.
        size: The size.
        seconds: The duration after which no further call is timed.
        clock: A name in `CLOCKS`.
    """
    fix_threads(backend, threads)
    with open(path, "a") as file:

        def tell(event: str, **facts: Any) -> None:
            print(json.dumps({"event": event, **facts}), file=file, flush=True)

        make = CURVES[curve].series_named(series).make
        call = backends.blocking(make(size, backend))
        tell("ready", device=device(backend), versions=versions())
        now = CLOCKS[clock]
        start = now()
        call()
        first = now() - start
        tell("first", first_call_s=first)
        tell("measured", **measure(call, first, seconds, now))


def measure(
    call: Callable[[], Any], first: float, seconds: float, clock: Callable[[], float]
) -> dict[str, Any]:
    """Measures the time and the memory of a call.

    Args:
        call: A function that was called before and waits for its result.
        first: The duration of the first call, which may have compiled.
        seconds: The duration after which no further call is timed. If the first call
            took longer, and the second call takes more than `LONG` seconds, only the
            second call is measured.
        clock: Returns the time in seconds.

    Returns:
        "seconds", the median of a call; "calls", the number of timings; and
        "memory_bytes", the growth of the resident set in a call, or None if the system
        does not tell.
    """
    if first > seconds:
        return_blocks(BLOCK)
        start = clock()
        memory = resident_growth(call)
        took = clock() - start
        if took > LONG:
            return {"seconds": took, "calls": 1, "memory_bytes": memory}
        return_blocks(KEPT)
    times = repeat(call, seconds, clock)
    return_blocks(BLOCK)
    return {
        "seconds": float(np.median(times)),
        "calls": len(times),
        "memory_bytes": resident_growth(call),
    }


def repeat(
    call: Callable[[], Any], seconds: float, clock: Callable[[], float]
) -> list[float]:
    """Returns the durations of a call, at most `CALLS`, after warm-ups.

    Short calls are timed in groups. Calls that take a tenth of the given seconds need
    no warm-up.
    """
    stop = clock() + seconds
    group, times = 1, []
    gc.disable()
    try:
        for n in range(WARM_UPS + CALLS):
            start = clock()
            for _ in range(group):
                call()
            now = clock()
            times.append((now - start) / group)
            if n < WARM_UPS and times[-1] < seconds / 10:
                group = max(1, round(SHORT / max(times.pop(), 1e-9)))
            if times and now > stop:
                break
    finally:
        gc.enable()
    return times


def return_blocks(size: int) -> None:
    """Lets malloc return free blocks from this size on, and all that are free now.

    A later call then does not reuse them unseen. This needs the functions of glibc.
    Elsewhere the function does nothing, and the growth of the resident set may leave
    out reused blocks.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(MMAP, size)
        libc.mallopt(TRIM, size)
        libc.malloc_trim(0)
