"""The calls that are timed, and the times, the memory and the rates of a device.

On torch, a GPU is timed by its events and by the clock of the host. The time by events
includes that in which the GPU waits for Python. Elsewhere, only the clock of the host
is read, when the result of the last call is complete.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from speed import harness
from speed.compare import backends

CLOCKS = ("wall_ms", "device_ms")  # of the host; of events
KERAS, TORCH = "keras.layers", "torch.nn"
EAGER, GRAPHS = "ours, eager", "ours, CUDA graphs"  # sides of small models on torch
XLA = ", XLA"  # ends the name of a side that TensorFlow compiles with XLA
SWITCH = "KERAS_ATTENTION_CUDA_GRAPHS"  # read when a model is made


class Side(NamedTuple):
    """One side of a row."""

    run: Callable[..., Any]  # returns a structure of tensors
    check: Callable[[], float] = lambda: float("nan")  # its error, or NaN for no check
    memory: int | None = None  # bytes of the call, as JAX' compiler plans them


def call_of(
    backend: str,
    function: Callable[..., Any],
    tensors: Sequence[Any],
    extras: Sequence[Any] = (),
    cotangent: Any = None,
    xla: bool = False,
) -> tuple[Callable[..., Any], int | None]:
    """Returns a call of `function(*tensors, *extras)`, compiled as users compile it.

    The second value is the memory of the call in bytes, as JAX' compiler plans it, or
    None.

    Args:
        backend: The framework of the tensors.
        function: A function of tensors.
        tensors: Its first arguments, which may get gradients.
        extras: Its other arguments.
        cotangent: The gradient of the output. With it, the call returns a list of the
            output and the gradients of `tensors`. The call may get another one.
        xla: Whether TensorFlow compiles with XLA.
    """
    framework = importlib.import_module(backend)

    def step(slope: Any, tensors: Any, extras: Any) -> Any:
        def forward(*tensors: Any) -> Any:
            return function(*tensors, *extras)

        if slope is None:
            return forward(*tensors)
        if backend == "jax":
            output, pull = framework.vjp(forward, *tensors)
            return [output, *pull(slope.astype(output.dtype))]
        if backend == "tensorflow":
            with framework.GradientTape() as tape:
                tape.watch(tensors)
                output = forward(*tensors)
            slope = framework.cast(slope, output.dtype)
            return [output, *tape.gradient(output, tensors, slope)]
        output = forward(*tensors)
        slopes = framework.autograd.grad(output, tensors, slope.to(output.dtype))
        return [output.detach(), *slopes]

    run: Any = step
    if backend == "torch" and cotangent is None:
        run = framework.no_grad()(step)
    elif backend == "torch":  # weights are leaves already
        leaves = (x if x.requires_grad else x.detach() for x in tensors)
        tensors = [x.requires_grad_() for x in leaves]
    elif backend == "tensorflow":
        run = framework.function(step, jit_compile=xla)
    arguments, memory = (tuple(tensors), tuple(extras)), None
    if backend == "jax":
        run = framework.jit(step).lower(cotangent, *arguments).compile()
        if sizes := run.memory_analysis():
            memory = int(sizes.temp_size_in_bytes + sizes.output_size_in_bytes)
    return lambda slope=cotangent: run(slope, *arguments), memory


class Timer:
    """Times calls on the device of a backend; if `quick`, as few as possible."""

    def __init__(self, backend: str, quick: bool) -> None:
        # The fewest seconds of a region of calls, and those of its warm-up
        self.least, self.warm_up = (1e-4, 0.0) if quick else (0.02, 0.2)
        # The fewest and the most pairs of a comparison, and its seconds
        self.pairs, self.seconds = ((2, 2), 0.0) if quick else ((5, 15), 1.5)
        self._last: Any = None
        self._cuda: Any = None
        self._first: Any = None
        if backend == "torch":
            import torch

            self._cuda = torch.cuda if torch.cuda.is_available() else None

    def watched(self, call: Callable[[], Any]) -> Callable[[], None]:
        """Returns a call for whose result the clock waits."""

        def run() -> None:
            self._last = call()

        return run

    def clock(self) -> np.ndarray:
        """Returns the seconds of `CLOCKS` when all calls are complete."""
        last, self._last = self._last, None
        if self._cuda is None:
            backends.wait(last)
            return np.array([time.perf_counter()])
        event = self._cuda.Event(enable_timing=True)
        event.record()
        self._cuda.synchronize()
        self._first = self._first or event
        milliseconds = self._first.elapsed_time(event)
        return np.array([time.perf_counter(), milliseconds / 1e3])

    def region(self, call: Callable[[], None], count: int = 1) -> np.ndarray:
        """Returns the seconds of a call on each clock."""
        start = self.clock()
        for _ in range(count):
            call()
        return (self.clock() - start) / count

    def calls(self, call: Callable[[], None]) -> int:
        """Warms up, and returns the number of calls of a region."""
        stop, took = time.perf_counter() + self.warm_up, 0.0
        for n in range(harness.WARM_UPS):
            took = self.region(call)[0]
            if n and time.perf_counter() > stop:
                break
        if took < self.least / 4:
            took = self.region(call, 5)[0]  # without the time of a synchronization
        return harness.calls_to_last(took, self.least)

    def compare(self, calls: Sequence[Callable[[], None]], counts: Any) -> np.ndarray:
        """Returns seconds of two calls in alternation, (pairs, call, clock)."""
        self._first = None  # its times in milliseconds have few digits
        took = sum(self.region(call, n)[0] * n for call, n in zip(calls, counts))
        pairs = int(np.clip(self.seconds / took, *self.pairs))
        ours, theirs = calls
        return harness.time_pairs(ours, theirs, pairs, tuple(counts), self.clock)

    def memory(self, side: Side) -> int | None:
        """Returns the peak memory of a call in bytes, without its arguments.

        On torch it is measured, with the output. On JAX it is what the compiler plans.
        """
        if self._cuda is None:
            return side.memory
        self._cuda.synchronize()
        self._cuda.reset_peak_memory_stats()
        before = self._cuda.memory_allocated()
        side.run()
        self._cuda.synchronize()
        return int(self._cuda.max_memory_allocated() - before)

    def release(self) -> None:
        """Gives memory of torch that nothing uses back to the device."""
        if self._cuda is not None:
            with contextlib.suppress(RuntimeError):  # the device is broken
                self._cuda.empty_cache()


def rates(backend: str, timer: Timer, size: int) -> dict[str, float]:
    """Measures what the device computes and moves in a second, with random numbers.

    Returns:
        The operations of products of square matrices in "bfloat16" and "float32", and
        the "bytes" that a negation reads and writes.
    """
    from keras import ops

    random = np.random.default_rng(harness.SEED)
    matrix = ops.convert_to_tensor(random.standard_normal((size, size), "float32"))
    calls = {"bytes": (ops.negative, [matrix])}  # JAX would drop a copy
    for dtype in ("bfloat16", "float32"):
        calls[dtype] = ops.matmul, [ops.cast(matrix, dtype)] * 2
    rates = {}
    with true_float32(backend):
        for name, (function, tensors) in calls.items():
            call = timer.watched(call_of(backend, function, tensors)[0])
            count = timer.calls(call)
            seconds = min(timer.region(call, count).min() for _ in range(7))
            rates[name] = (8 * size**2 if name == "bytes" else 2 * size**3) / seconds
    return rates


def layer_sides(backend: str) -> list[str]:
    """Returns the names of our side and of its peers, of a layer or model."""
    names = ["ours", KERAS, *([TORCH] if backend == "torch" else [])]
    return names + [n + XLA for n in names if backend == "tensorflow"]


def replayed_sides(backend: str) -> list[str]:
    """Returns the names of our sides of a small model or layer.

    "ours" replays traced calls on torch. JAX compiles each step, and has only "ours".
    """
    if backend != "torch":
        return ["ours"]
    import torch

    return ["ours", EAGER, *([GRAPHS] if torch.cuda.is_available() else [])]


def graphs(name: str) -> Any:
    """Returns a context in which traced calls become CUDA graphs if `name` says so."""
    return mock.patch.dict(os.environ, {SWITCH: str(int(name == GRAPHS))})


def check_graphs(replayer: Any) -> None:
    """Raises an error if no call became a CUDA graph."""
    traces = [x.trace[0] for x in replayer._signatures.values() if x.trace]
    if not any(t.graphs and t.graphs._replays for t in traces):
        raise RuntimeError("; ".join(replayer.reasons) or "no call became a CUDA graph")


def true_float32(backend: str) -> Any:
    """Returns a context in which products of float32 are computed in float32.

    On a GPU, JAX and TensorFlow use TF32 otherwise, whose error is about 3e-4.
    """
    framework = importlib.import_module(backend)
    if backend == "jax":
        return framework.default_matmul_precision("highest")
    if backend == "tensorflow":
        framework.config.experimental.enable_tensor_float_32_execution(False)
    return contextlib.nullcontext()
