"""CUDA graphs of traced calls: one launch for all operations of a call.

A graph reads and writes the same memory at each replay, so arguments are copied into
its buffers, and results out of them. It holds as long as the trace, whose rules keep
the addresses of the weights. The gradient is a second graph, which reads what the first
one left in its memory. While the gradient of a call may still be needed, other calls
therefore run operation by operation. Dropout draws from torch's default generator,
which each replay moves on.

This was not run on a GPU yet, so it is off unless the environment variable
KERAS_ATTENTION_CUDA_GRAPHS is 1 when a model is made.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any

import torch

# Torch's own CUDA graphs ask in the same way; there is no public name.
from torch.multiprocessing.reductions import StorageWeakRef

from keras_attention.kernels.replay.torch_facts import FUNCTIONS

Tensor = Any

VARIABLE = "KERAS_ATTENTION_CUDA_GRAPHS"
DEVICE = "cuda"
REFUSED = "a call has no CUDA graph"
WARM_UPS = 3  # calls on another stream, before a capture; as torch advises


def are_on() -> bool:
    """Returns whether traced calls of a new model become CUDA graphs."""
    return os.environ.get(VARIABLE) == "1"


class Graphs:
    """The functions of a traced call, which become CUDA graphs at its first replay.

    They are f(*inputs) = results, saved; and f(*saved, *slopes) = gradients. `results`
    is the number of results, `slopes` has the shape, strides, dtype and device of each
    slope, and `nodes` are the operations of both functions.
    """

    def __init__(
        self,
        functions: tuple[Callable, Callable],
        results: int,
        slopes: Sequence[tuple],
        nodes: Iterable[Any],
    ) -> None:
        self.functions, self.count, self.slopes = functions, results, slopes
        reads = any(node.target in FUNCTIONS for node in nodes)
        self.refusal = f"{REFUSED}: it reads values" if reads else ""
        self._replays: list[Callable[[Sequence[Tensor]], list]] = []
        # Of a tensor that lives as long as the gradient of a replay may be needed
        self._pending: StorageWeakRef | None = None
        self._lock = threading.Lock()

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        """Returns the results, and what `backward` takes before the slopes."""
        with self._lock:
            if not self._can_replay(inputs):
                return self.functions[0](*inputs)
            results = self._replays[0](inputs)
            if self.slopes:
                results.append(torch.empty(1, device="cpu"))
                self._pending = StorageWeakRef(results[-1].untyped_storage())
            return results

    def backward(self, *tensors: Tensor) -> list[Tensor | None]:
        """Returns the gradients."""
        with self._lock:
            first = StorageWeakRef(tensors[0].untyped_storage())
            if self._pending is not None and self._pending == first:
                return self._replays[1](tensors[1:])
        return self.functions[1](*tensors)

    def _can_replay(self, inputs: Sequence[Tensor]) -> bool:
        if self.refusal or (self._pending and not self._pending.expired()):
            return False
        if not self._replays:
            try:
                reason = self._capture(inputs)
            except RuntimeError as error:  # what CUDA and torch raise
                reason = " ".join(str(error).split())[:200]
            self.refusal = f"{REFUSED}: {reason}" if reason else ""
        return not self.refusal

    def _capture(self, inputs: Sequence[Tensor]) -> str:
        """Captures the graphs, or returns why the inputs allow none."""
        if len({x.device for x in inputs}) != 1 or inputs[0].device.type != DEVICE:
            return "its arguments must be on one GPU"
        facts = [(x.shape, x.stride(), x.dtype, x.device) for x in inputs]
        if any(n > 1 and not step for f in facts for n, step in zip(*f[:2])):
            return "an argument repeats its memory, as after `expand`"
        buffers, slopes = (
            [torch.empty_strided(*f[:2], dtype=f[2], device=f[3]).zero_() for f in fs]
            for fs in (facts, self.slopes)
        )
        _copy(buffers, inputs)
        forward, backward = self.functions
        calls = [lambda _: forward(*buffers)]
        if slopes:
            calls += [lambda results: backward(*results[self.count :], *slopes)]
        graphs, results = record(calls, inputs[0].device)
        places = buffers, slopes
        results[0] = results[0][: self.count]
        self._replays = [partial(_replay, *x) for x in zip(graphs, places, results)]
        return ""


def _copy(buffers: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
    for buffer, x in zip(buffers, inputs, strict=True):
        buffer.copy_(x)


def _replay(graph: Any, buffers: list, results: list, inputs: Sequence[Tensor]) -> list:
    """Returns copies of the results for these inputs."""
    _copy(buffers, inputs)
    graph.replay()
    return [None if x is None else x.clone() for x in results]


def record(calls: Sequence[Callable], device: Any) -> tuple[list, list]:
    """Captures calls, each of which takes the result of the one before.

    Returns:
        The graphs, and the results, in the memory that each replay writes to.
    """
    graphs: list[Any] = []
    results: list[Any] = [None]
    with torch.cuda.device(device):
        stream, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(stream)
        with torch.cuda.stream(side), torch.random.fork_rng([device]):
            for _ in range(WARM_UPS):
                reduce(lambda x, call: call(x), calls, None)
        stream.wait_stream(side)
        try:
            for call in calls:
                graph = torch.cuda.CUDAGraph()
                pool = graphs[0].pool() if graphs else None
                # Another thread, as of a data loader, may use the GPU meanwhile.
                with torch.cuda.graph(graph, pool, capture_error_mode="thread_local"):
                    results.append(call(results[-1]))
                graphs.append(graph)
        finally:
            torch.cuda.set_stream(stream)  # torch does not after an error
    return graphs, results[1:]
