"""Decoding on torch: a Python loop with in-place updates and few device syncs.

Inside a compiled function, the first step of each loop is traced (see `replay/`), and
replayed for the later ones. A step may close over weights: they change in place, and
replaced weights are detected. A step is refused, and runs as it is, if it closes over
another tensor, reads a value, assigns to a variable or changes the shapes of its state.
Long loops on CPUs pack the weights (see `torch_packing.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
import torch

from keras_attention.kernels.decoding.reference import Done, Step, tensors
from keras_attention.kernels.decoding.torch_packing import MIN_STEPS, packing
from keras_attention.kernels.replay.torch_rewrite import Untraceable
from keras_attention.kernels.replay.torch_trace import Call, plan

Tensor = Any

# An accelerator runs asynchronously, and each check for the end makes Python wait.
# Extra steps after the end change nothing and cost less than a check after each step.
PATIENCE = 8


def generate(step: Step, state: Any, start: Any, stop: Any, done: Done) -> Any:
    """Runs a Python loop, which replays the traced step if there is one.

    `step` receives the index as a number. A traced step receives it as a tensor.
    """
    start, stop = int(start), int(stop)
    if start >= stop or (done is not None and done(state)):
        return state
    leaves = keras.tree.flatten(state)
    devices = (x.device.type for x in leaves if isinstance(x, torch.Tensor))
    patience = 1 if next(devices, "cpu") == "cpu" else PATIENCE
    loops = _active.get()
    traced = None if loops is None else loops.traced(step, done, state, stop - start)
    if traced is None:
        for index in range(start, stop):
            asks = index > start and (index - start) % patience == 0
            if asks and done is not None and done(state):
                break
            state = step(index, state)
        return state
    (run, flat, pack), ended = traced, None
    places = torch.arange(stop, device=flat[0].device).unbind()
    for index in range(start, stop):
        if ended is not None and (index - start) % patience == 0 and ended:
            break
        flat = run(places[index], *flat)
        if done is not None:
            ended, *flat = flat
    return pack(flat)


def read(tensor: Tensor, index: Any) -> Tensor:
    """Returns a view; if the index is a tensor, a copy without a device sync."""
    if not isinstance(index, torch.Tensor):
        return tensor[:, index]
    return tensor.index_select(1, index.reshape(1)).squeeze(1)


def write(tensor: Tensor, index: Any, values: Tensor) -> Tensor:
    """Updates the tensor in place, except in traces or when a gradient must flow."""
    if tensor.requires_grad or torch.compiler.is_compiling() or torch.jit.is_tracing():
        tensor = tensor.clone()
    if not isinstance(index, torch.Tensor):
        tensor[:, index] = values
        return tensor
    values = values.to(tensor.dtype).unsqueeze(1)
    return tensor.index_copy_(1, index.reshape(1).long(), values)


def compiled(function: Callable, variables: Sequence, jit_compile: bool) -> Callable:
    """Wraps a function to run without autograd and to replay the steps of loops."""
    loops = _Loops(variables)

    def run(*args: Any) -> Any:
        with torch.inference_mode(), loops.calling(args):
            output = function(*tensors(args))
        # Copies that are made outside inference mode are regular tensors.
        return keras.tree.map_structure(
            lambda x: x.clone() if isinstance(x, torch.Tensor) else x, output
        )

    return run


class _Loops:
    """The traced loops of one compiled function, which uses the variables."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self.variables = variables
        self._weights: list[Tensor] = []
        self._steps: dict[Any, tuple[Callable, Callable] | None] = {}
        self._numbers: tuple = ()
        self._count = 0

    @contextmanager
    def calling(self, args: Any) -> Iterator[None]:
        """Context manager for one call with `args`, whose loops are traced."""
        weights = [v.value for v in self.variables]
        if [*map(id, weights)] != [*map(id, self._weights)]:
            self._steps, self._weights = {}, weights
        leaves = keras.tree.flatten(args)
        self._numbers = tuple(x for x in leaves if isinstance(x, (int, float)))
        self._count = 0
        # A trace would keep the dtypes of autocast
        is_autocast = any(map(torch.is_autocast_enabled, ("cpu", "cuda")))
        token = _active.set(None if is_autocast else self)
        try:
            yield
        finally:
            _active.reset(token)

    def traced(self, step: Step, done: Done, state: Any, steps: int) -> tuple | None:
        """Returns the traced step of the next loop, or None if it is refused.

        That is f(index, *tensors) = [done,] tensors, for this loop only; the tensors
        of the first state; and a function that restores the structure of a state.
        """
        leaves = keras.tree.flatten(state)
        is_tensor = [x is not None for x in leaves]
        tensors = [x for x in leaves if x is not None]
        self._count += 1
        if not tensors or not all(isinstance(x, torch.Tensor) for x in tensors):
            return None
        # Views, so that each tensor is another object without a mask
        tensors = [x.contiguous().view_as(x) for x in tensors]
        facts = _facts(tensors)

        def pack(flat: Sequence[Tensor]) -> Any:
            values = iter(flat)
            leaves = [next(values) if t else None for t in is_tensor]
            return keras.tree.pack_sequence_as(state, leaves)

        def flat_step(index: Tensor, *flat: Tensor) -> list[Tensor]:
            state = step(index, pack(flat))
            leaves = (x for x in keras.tree.flatten(state) if x is not None)
            new = [x.contiguous().view_as(x) for x in leaves]
            if _facts(new) != facts:
                raise Untraceable("a step changes the shapes of its state")
            return new if done is None else [done(state), *new]

        key = (self._count, self._numbers, done is None, *is_tensor, *facts)
        if key not in self._steps:
            self._steps[key] = self._trace(flat_step, tensors)
        runs = self._steps[key]
        if runs is None:
            return None
        unpacked, packed = runs
        return (packed() if steps >= MIN_STEPS else unpacked), tensors, pack

    def _trace(
        self, function: Callable, tensors: list[Tensor]
    ) -> tuple[Callable, Callable] | None:
        """Traces one step on copies of the tensors; None if it is refused.

        Returns the step, and a function that packs weights for it and returns it.
        """
        index = torch.ones((), dtype=torch.int64, device=tensors[0].device)
        leaves: dict[int, Tensor] = {}
        arguments = plan(((index, *tensors), {}), leaves)
        weights, token = (self.variables, self._weights), _active.set(None)
        try:
            with torch.inference_mode(False), torch.no_grad():
                call = Call(function, arguments, leaves, *weights, in_place=True)
                forward = call.trace().forward
                return forward, packing(forward)
        except Untraceable:
            return None
        finally:
            _active.reset(token)


_active: ContextVar[_Loops | None] = ContextVar("loops", default=None)


def _facts(tensors: Sequence[Tensor]) -> list[tuple]:
    return [(tuple(x.shape), x.dtype, x.device) for x in tensors]
