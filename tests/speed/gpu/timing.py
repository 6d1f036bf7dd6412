"""Times, memory and rates of a device, and the calls that are timed.

On torch, a region is timed by events of the device and by the clock of the host. The
events also count the time in which the device waits for Python. On JAX, a region ends
when the result of its last call is complete, and only the clock of the host is read.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from speed import harness
from speed.compare import backends

SAMPLE = 0.02  # seconds of a region, at least
WARM_UP = 0.2  # seconds of warm-ups, at most, unless one call takes longer
LEAST_PAIRS = 5
SIDE = {"full": 8192, "quick": 128}  # of the square matrices of the floor


EAGER, GRAPHS = "ours, eager", "ours, CUDA graphs"  # of sides that replay calls
SWITCH = "KERAS_ATTENTION_CUDA_GRAPHS"  # read when a model is made


class Call(NamedTuple):
    """A call that is timed.

    Attributes:
        run: The call. It returns the output, or a list of it and all gradients.
        memory: Bytes of the call as the compiler tells them, or None.
        again: The call with another cotangent, in the same program.
    """

    run: Callable[[], Any]
    memory: int | None = None
    again: Any = None


def call_of(
    backend: str,
    function: Callable[..., Any],
    tensors: Sequence[Any],
    extras: Sequence[Any] = (),
    cotangent: Any = None,
) -> Call:
    """Returns a call of `function(*tensors, *extras)`, compiled as users of JAX do.

    Args:
        backend: "jax" or "torch".
        function: A function that returns one tensor.
        tensors: The arguments with gradients.
        extras: More arguments, structures of tensors.
        cotangent: The gradient of the output; None for no gradients.

    Returns:
        A `Call`.
    """
    if backend == "torch":
        torch_run = _torch_call(function, tensors, extras, cotangent is not None)
        return Call(lambda: torch_run(cotangent), None, torch_run)
    import jax

    def forward(g: Any, tensors: Any, extras: Any) -> Any:
        return function(*tensors, *extras)

    def both(g: Any, tensors: Any, extras: Any) -> Any:
        output, pull = jax.vjp(lambda *x: function(*x, *extras), *tensors)
        return [output, *pull(g.astype(output.dtype))]

    arguments = cotangent, tuple(tensors), tuple(extras)
    step = jax.jit(forward if cotangent is None else both)
    program = step.lower(*arguments).compile()
    sizes = program.memory_analysis()
    memory = sizes and int(sizes.temp_size_in_bytes + sizes.output_size_in_bytes)

    def run(g: Any) -> Any:
        return program(g, *arguments[1:])

    return Call(lambda: program(*arguments), memory, run)


def _torch_call(
    function: Callable[..., Any], tensors: Any, extras: Any, has_gradients: bool
) -> Callable[[Any], Any]:
    import torch

    if not has_gradients:

        def forward(slope: Any) -> Any:
            with torch.no_grad():
                return function(*tensors, *extras)

        return forward
    # Weights are leaves already.
    leaves = [x if x.requires_grad else x.detach().requires_grad_() for x in tensors]

    def both(slope: Any) -> Any:
        output = function(*leaves, *extras)
        gradients = torch.autograd.grad(output, leaves, slope.to(output.dtype))
        return [output.detach(), *gradients]

    return both


class Timer:
    """Times regions of calls on the device of a backend.

    Args:
        backend: "jax" or "torch".
        pairs: The number of interleaved pairs of a comparison, at most.
        seconds: The time of one comparison, unless `LEAST_PAIRS` take longer.
    """

    def __init__(self, backend: str, pairs: int, seconds: float) -> None:
        self.pairs, self.seconds = pairs, seconds
        self._cuda: Any = None
        if backend == "torch":
            import torch

            self._cuda = torch.cuda if torch.cuda.is_available() else None

    @property
    def has_events(self) -> bool:
        """Returns whether the device is timed by its events."""
        return self._cuda is not None

    def region(self, call: Callable[[], Any], count: int) -> tuple[float, float]:
        """Returns the seconds of a call by the host's clock and by the device's.

        The second number is NaN if the device has no events.
        """
        device = float("nan")
        if self._cuda is None:
            start = time.perf_counter()
            for _ in range(count):
                result = call()
            backends.wait(result)
            return (time.perf_counter() - start) / count, device
        events = [self._cuda.Event(enable_timing=True) for _ in range(2)]
        self._cuda.synchronize()
        start = time.perf_counter()
        events[0].record()
        for _ in range(count):
            call()
        events[1].record()
        self._cuda.synchronize()
        wall = time.perf_counter() - start
        return wall / count, events[0].elapsed_time(events[1]) / 1e3 / count

    def calls(self, call: Callable[[], Any]) -> int:
        """Warms up, and returns the number of calls of a region."""
        stop, took = time.perf_counter() + WARM_UP, 0.0
        for n in range(harness.WARM_UPS):
            took = self.region(call, 1)[0]
            if n and time.perf_counter() > stop:
                break
        if took < SAMPLE / 4:
            took = self.region(call, 5)[0]  # without the time of a synchronization
        return harness.calls_to_last(took, SAMPLE)

    def compare(self, calls: Sequence[Callable[[], Any]], counts: Any) -> np.ndarray:
        """Times two functions in alternation.

        Returns:
            Seconds of a call, (pairs, function, clock); see `region` for the clocks.
        """
        took = [self.region(call, n)[0] * n for call, n in zip(calls, counts)]
        pairs = int(self.seconds / sum(took))
        pairs = min(max(pairs, LEAST_PAIRS), self.pairs)
        seconds = np.empty((pairs, 2, 2))
        for pair, order in enumerate(harness.abba(pairs)):
            for which in order:
                seconds[pair, which] = self.region(calls[which], counts[which])
        return seconds

    def release(self) -> None:
        """Gives memory of torch that nothing uses back to the device."""
        if self._cuda is not None:
            with contextlib.suppress(RuntimeError):  # the device is broken
                self._cuda.empty_cache()

    def memory(self, call: Call) -> int | None:
        """Returns the peak memory of a call in bytes, without its arguments.

        On torch it is measured, with the output. On JAX it is what the compiler plans.
        """
        if self._cuda is None:
            return call.memory
        self._cuda.synchronize()
        self._cuda.reset_peak_memory_stats()
        before = self._cuda.memory_allocated()
        call.run()
        self._cuda.synchronize()
        return int(self._cuda.max_memory_allocated() - before)


def rates(backend: str, timer: Timer, quick: bool) -> dict[str, float]:
    """Measures products of square matrices, in operations a second, and `bytes`.

    `bytes` are those that a negation reads and writes in a second. The numbers are
    random.
    """
    from keras import ops

    side = SIDE["quick" if quick else "full"]
    numbers = np.random.default_rng(harness.SEED).standard_normal(
        (side, side), dtype="float32"
    )
    matrix, found = ops.convert_to_tensor(numbers), {}
    with true_float32(backend):
        for dtype in ("bfloat16", "float32"):
            x = ops.cast(matrix, dtype)
            product = call_of(backend, ops.matmul, [x, x]).run
            found[dtype] = 2 * side**3 / _best(timer, product)
    turned = call_of(backend, ops.negative, [matrix]).run  # JAX would drop a copy
    found["bytes"] = 2 * numbers.nbytes / _best(timer, turned)
    return found


def _best(timer: Timer, call: Callable[[], Any]) -> float:
    count = timer.calls(call)
    return min(np.nanmin(timer.region(call, count)) for _ in range(7))


def replayed_sides(backend: str) -> tuple[list[str], dict[str, str]]:
    """Returns the names of our sides of a small step, and why others are left out.

    "ours" replays traced calls on torch. JAX compiles each step, and has only "ours".
    """
    if backend == "jax":
        return ["ours"], {}
    import torch

    if torch.cuda.is_available():
        return ["ours", EAGER, GRAPHS], {}
    return ["ours", EAGER], {GRAPHS: "needs a GPU"}


@contextlib.contextmanager
def tracing(name: str) -> Iterator[None]:
    """Context manager in which traced calls become CUDA graphs if `name` is `GRAPHS`.

    The switch is as before afterwards.
    """
    before = os.environ.pop(SWITCH, None)
    os.environ[SWITCH] = "1" if name == GRAPHS else "0"
    try:
        yield
    finally:
        os.environ.pop(SWITCH)
        if before is not None:
            os.environ[SWITCH] = before


def check_graph(name: str, model: Any) -> None:
    """Raises an error if a side has the name of CUDA graphs, and no call became one.

    Args:
        name: The name of the side.
        model: The model that replays traced calls, after some calls.
    """
    if name == GRAPHS and model._replayer.reasons:
        raise RuntimeError("; ".join(model._replayer.reasons))


def true_float32(backend: str) -> Any:
    """Context manager in which JAX computes products of float32 in float32.

    On a GPU, JAX uses TF32 otherwise, whose error is about 3e-4. torch does not.
    """
    if backend == "jax":
        import jax

        return jax.default_matmul_precision("highest")
    return contextlib.nullcontext()
