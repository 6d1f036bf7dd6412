"""CUDA graphs of traced calls: one launch for all operations of a call.

A graph reads and writes the same memory at each replay. The arguments are therefore
copied into its buffers, and the results are copied out of them. It holds as long as
the trace, whose rules keep the addresses of the weights. The gradient is a second
graph, which reads what the first one has left in its memory. So while the gradient of
a call may still be needed, other calls run operation by operation.

Dropout draws from torch's default generator, which each replay moves on. A call is not
captured if it reads values (as a decision does), or if an argument is not on a GPU.

This was not run on a GPU yet, so it is off unless the environment variable
KERAS_ATTENTION_CUDA_GRAPHS is 1 when a call is traced.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

# Torch's own CUDA graphs ask in the same way; there is no public name.
from torch.multiprocessing.reductions import StorageWeakRef

Tensor = Any

VARIABLE = "KERAS_ATTENTION_CUDA_GRAPHS"
DEVICE = "cuda"
WARM_UPS = 3  # calls on another stream, before a capture; as torch advises


def are_on() -> bool:
    """Returns whether traced calls shall become CUDA graphs."""
    return os.environ.get(VARIABLE) == "1"


class Graphs:
    """The two functions of a traced call, which become CUDA graphs at the first call.

    They are f(*inputs) = results, saved; and f(*saved, *slopes) = gradients.

    Args:
        forward: the first function.
        backward: the second function.
        results: the number of results.
        slopes: the shape, strides, dtype and device of each slope; without slopes, the
            call has no gradient.
        reads: whether a function reads values of tensors.
    """

    def __init__(
        self,
        forward: Callable[..., list[Tensor]],
        backward: Callable[..., list[Tensor | None]],
        results: int,
        slopes: Sequence[tuple],
        reads: bool,
    ) -> None:
        self.functions, self.count = (forward, backward), results
        self.refusal = "no CUDA graph: the call reads values" if reads else ""
        self._slopes = slopes
        self._replays: list[Callable[[Sequence[Tensor]], list]] = []
        # Of a tensor that lives as long as the gradient of a replay may be needed
        self._pending: StorageWeakRef | None = None
        self._lock = threading.Lock()

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        """Returns results and what `backward` takes before the slopes."""
        with self._lock:
            if not self._can_replay(inputs):
                return self.functions[0](*inputs)
            results = self._replays[0](inputs)
            if self._slopes:
                results.append(torch.empty(1))
                self._pending = StorageWeakRef(results[-1].untyped_storage())
            return results

    def backward(self, *tensors: Tensor) -> list[Tensor | None]:
        """Returns the gradients."""
        with self._lock:
            first = StorageWeakRef(tensors[0].untyped_storage())
            if self._pending is None or first != self._pending:
                return self.functions[1](*tensors)
            return self._replays[1](tensors[1:])

    def _can_replay(self, inputs: Sequence[Tensor]) -> bool:
        if self.refusal or (self._pending and not self._pending.expired()):
            return False
        if not self._replays:
            reason = _reason(inputs)
            try:
                if not reason:
                    self._capture(inputs)
            except RuntimeError as error:  # torch has no other for what it refuses
                reason = " ".join(str(error).split())[:200] or "a capture has failed"
            self.refusal = f"no CUDA graph: {reason}" if reason else ""
        return not self.refusal

    def _capture(self, inputs: Sequence[Tensor]) -> None:
        device = inputs[0].device
        facts = [(x.shape, x.stride(), x.dtype, x.device) for x in inputs]
        buffers, slopes = (
            [torch.empty_strided(*f[:2], dtype=f[2], device=f[3]).zero_() for f in fs]
            for fs in (facts, self._slopes)
        )
        for buffer, x in zip(buffers, inputs):
            buffer.copy_(x)
        graph, results = record(partial(self.functions[0], *buffers), device)
        replays = [partial(_replay, graph, buffers, results[: self.count])]
        if slopes:
            function = partial(self.functions[1], *results[self.count :], *slopes)
            second, gradients = record(function, device, graph.pool())
            replays.append(partial(_replay, second, slopes, gradients))
        self._replays = replays


def _replay(
    graph: Any,
    buffers: Sequence[Tensor],
    results: Sequence[Tensor | None],
    inputs: Sequence[Tensor],
) -> list[Any]:
    """Returns copies of the results for these inputs."""
    for buffer, x in zip(buffers, inputs, strict=True):
        buffer.copy_(x)
    graph.replay()
    return [None if x is None else x.clone() for x in results]


def _reason(inputs: Sequence[Tensor]) -> str:
    """Returns why arguments cannot be copied into buffers; "" if they can."""
    if len({x.device for x in inputs}) != 1 or inputs[0].device.type != DEVICE:
        return "its arguments must be on one GPU"
    if any(n > 1 and not step for x in inputs for n, step in zip(x.shape, x.stride())):
        return "an argument repeats its memory, as after `expand`"
    return ""


def record(
    function: Callable[[], list], device: torch.device, pool: Any = None
) -> tuple[Any, list]:
    """Captures a call of a function.

    Returns:
        The graph, and the result, in the memory that each replay writes to.
    """
    with torch.cuda.device(device):
        stream, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(stream)
        with torch.cuda.stream(side), torch.random.fork_rng([device]):
            for _ in range(WARM_UPS):
                function()
        stream.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads, such as those of a data loader, may use the GPU meanwhile.
            with torch.cuda.graph(graph, pool, capture_error_mode="thread_local"):
                result = function()
        finally:
            torch.cuda.set_stream(stream)  # torch does not after an error
    return graph, result
