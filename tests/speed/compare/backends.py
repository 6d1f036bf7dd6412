"""Backend functions of the speed cases: compile, differentiate, wait, measure.

"Compiled" means what is usual on each backend: `jax.jit` on JAX, `tf.function` on
TensorFlow (by default without XLA), and eager mode on torch.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

NAMES = ("query", "key", "value")  # arguments that have gradients
Compiled = tuple[Callable[[], Any], Callable[[], Any] | None]
PEAK_PRODUCT = (1, 1024, 1024, 1024)
LEAST_FLOPS = 2e7  # least number of operations in one timed call
MOST_NUMBERS = 2**25  # maximum size of the factors in one timed call


def compiled(
    function: Callable[..., Any], arguments: Any, backend: str, xla: bool = False
) -> Compiled:
    """Returns a function without arguments that calls `function`, compiled as usual.

    Args:
        function: A differentiable function from tensors to a dict of tensors.
        arguments: Tensors.
        backend: "jax", "tensorflow" or "torch".
        xla: Whether TensorFlow compiles with XLA.

    Returns:
        The function, and another function that returns the scratch bytes of the
        compiled form. The other function is None if the backend does not report them.
    """
    if backend == "jax":
        jitted = importlib.import_module("jax").jit(function)
        return lambda: jitted(*arguments), lambda: _scratch_bytes(jitted, arguments)
    if backend == "tensorflow":
        graph = importlib.import_module("tensorflow").function(
            function, jit_compile=True if xla else None
        )
        return lambda: graph(*arguments), None
    torch = importlib.import_module("torch")

    def eager() -> Any:
        with torch.no_grad():
            return function(*arguments)

    return eager, None


def compiled_with_gradients(
    function: Callable[..., Any],
    arguments: Any,
    cotangent: Any,
    backend: str,
    xla: bool = False,
) -> Compiled:
    """Same as `compiled`, but the function also returns gradients.

    Args:
        function: A function from query, key and value to a dict with the key "output".
        arguments: The three tensors.
        cotangent: A tensor with the output's shape. The function whose gradients are
            returned is the sum of output times cotangent.
        backend: "jax", "tensorflow" or "torch".
        xla: Same as in `compiled`.

    Returns:
        Same as `compiled`; the dict also has "dquery", "dkey" and "dvalue".
    """
    if backend == "torch":
        return _torch_gradients(function, arguments, cotangent), None
    differentiate = _jax_gradients if backend == "jax" else _tensorflow_gradients
    return compiled(differentiate(function, cotangent), arguments, backend, xla)


def _named(result: dict[str, Any], gradients: Any) -> dict[str, Any]:
    return {**result, **{f"d{n}": g for n, g in zip(NAMES, gradients, strict=True)}}


def _jax_gradients(function: Callable[..., Any], cotangent: Any) -> Callable[..., Any]:
    import jax

    def loss(*arguments: Any) -> Any:
        result = function(*arguments)
        return (result["output"] * cotangent).sum(), result

    def run(*arguments: Any) -> Any:
        differentiated = jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)
        (_, result), gradients = differentiated(*arguments)
        return _named(result, gradients)

    return run


def _tensorflow_gradients(
    function: Callable[..., Any], cotangent: Any
) -> Callable[..., Any]:
    import tensorflow as tf

    def run(*arguments: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            result = function(*arguments)
            loss = tf.reduce_sum(result["output"] * cotangent)
        return _named(result, tape.gradient(loss, arguments))

    return run


def _torch_gradients(
    function: Callable[..., Any], arguments: Any, cotangent: Any
) -> Callable[[], Any]:
    import torch

    leaves = [tensor.detach().clone().requires_grad_() for tensor in arguments]

    def run() -> Any:
        result = function(*leaves)
        loss = (result["output"] * cotangent).sum()
        gradients = torch.autograd.grad(loss, leaves)
        detached = {name: tensor.detach() for name, tensor in result.items()}
        return _named(detached, gradients)

    return run


def _scratch_bytes(jitted: Any, arguments: Any) -> int | None:
    analysis = jitted.lower(*arguments).compile().memory_analysis()
    return None if analysis is None else int(analysis.temp_size_in_bytes)


def _leaves(result: Any) -> list[Any]:
    if isinstance(result, dict):
        return [leaf for value in result.values() for leaf in _leaves(value)]
    if isinstance(result, (list, tuple)):
        return [leaf for value in result for leaf in _leaves(value)]
    return [result]


def wait(result: Any) -> None:
    """Waits until all tensors in `result` are computed."""
    for leaf in _leaves(result):
        if hasattr(leaf, "block_until_ready"):  # jax
            leaf.block_until_ready()
        elif hasattr(leaf, "is_cuda"):  # torch, which is synchronous on the CPU
            if leaf.is_cuda:
                sys.modules["torch"].cuda.synchronize()
        elif "tensorflow" in sys.modules and sys.modules["tensorflow"].is_tensor(leaf):
            sys.modules["tensorflow"].test.experimental.sync_devices()


def to_numpy(result: dict[str, Any]) -> dict[str, np.ndarray]:
    """Converts a dict of tensors of any backend to a dict of arrays."""
    return {
        name: np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        for name, value in result.items()
    }


def blocking(call: Callable[[], Any]) -> Callable[[], Any]:
    """Wraps a function so that it waits for its result."""

    def run() -> Any:
        result = call()
        wait(result)
        return result

    return run


class Rates:
    """Rates of this machine. Each rate is measured when it is first used.

    Args:
        backend: The backend that computes the measured matrix products.
        threads: The number of copy threads.
        clock: Returns the time in seconds.
    """

    def __init__(
        self, backend: str, threads: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._backend, self._threads, self._clock = backend, threads, clock
        self._products: dict[tuple[int, int, int, int], float] = {}
        self._copies: dict[int, float] = {}

    def product(self, shape: tuple[int, int, int, int]) -> float:
        """Returns operations per second of a product of (batch, rows, inner, columns).

        Small products are measured in groups, whose factors have up to MOST_NUMBERS
        numbers. The overhead of a call thus has little effect.
        """
        if shape not in self._products:
            from keras import ops

            batch, rows, inner, columns = shape
            flops = 2 * batch * rows * inner * columns
            room = MOST_NUMBERS // (batch * (rows * inner + inner * columns))
            many = batch * max(1, min(round(LEAST_FLOPS / flops), room))
            generator = np.random.default_rng(0)
            factors = [
                ops.convert_to_tensor(generator.random(size, dtype="float32"))
                for size in ((many, rows, inner), (many, inner, columns))
            ]
            call, _ = compiled(ops.matmul, factors, self._backend)
            seconds = self._best(blocking(call))
            self._products[shape] = many / batch * flops / seconds
        return self._products[shape]

    def copy(self, size: float) -> float:
        """Returns bytes per second of a copy that reads and writes `size` bytes."""
        count = max(int(size) // 8, 64)  # float32 numbers, each read and written
        if count not in self._copies:
            source, target = np.ones(count, "float32"), np.empty(count, "float32")
            seconds = self._best(lambda: np.copyto(target, source))
            if self._threads > 1 and count > 2**18:
                seconds = min(seconds, self._best_shared_copy(target, source))
            self._copies[count] = 8 * count / seconds
        return self._copies[count]

    def _best_shared_copy(self, target: np.ndarray, source: np.ndarray) -> float:
        parts = list(
            zip(
                np.array_split(target, self._threads),
                np.array_split(source, self._threads),
                strict=True,
            )
        )
        with ThreadPoolExecutor(self._threads) as pool:
            return self._best(lambda: list(pool.map(lambda x: np.copyto(*x), parts)))

    def _best(
        self, call: Callable[[], Any], repeats: int = 7, at_least: float = 0.005
    ) -> float:
        """Returns the shortest time of one call after a warm-up, in seconds."""
        for _ in range(2):
            call()
        start = self._clock()
        call()
        calls = max(1, int(at_least / max(self._clock() - start, 1e-9)))
        best = float("inf")
        for _ in range(repeats):
            start = self._clock()
            for _ in range(calls):
                call()
            best = min(best, (self._clock() - start) / calls)
        return max(best, 1e-9)

    def to_json(self) -> dict[str, dict[str, float]]:
        """Returns the measured rates in GFLOP/s and GB/s."""
        return {
            "product_gflops": {
                "x".join(map(str, shape)): rate / 1e9
                for shape, rate in self._products.items()
            },
            "copy_gbytes": {
                str(8 * count): rate / 1e9 for count, rate in self._copies.items()
            },
        }
