"""Recording and replay of loop steps on torch.

A step of a Keras model runs about sixty torch operations, but spends more time in
Python: layers inspect arguments, open scopes and check shapes. This work has the same
result in every step. The first step of each loop inside a compiled function is
therefore recorded. Later steps only replay its operations, optimized by
`torch_graph.py`.

Tensors that a step closes over become constants of the recording. Weights are allowed:
they change in place, and replaced weights are detected. A step runs unrecorded if it
closes over any other tensor, reads the value of a tensor, assigns to a weight or
changes the shapes of its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import keras
import torch

from keras_attention.kernels.decoding import torch_graph, torch_packing
from keras_attention.kernels.tracing.torch_graphs import graph_of

Tensor = Any
Structure = Any
Step = Callable[[Any, Structure], Structure]
Done = Callable[[Structure], Tensor] | None
FRESH = (torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.lift_fresh.default)


class Program(NamedTuple):
    """A recorded step, which works on the flat list of the tensors in a state."""

    run: Callable[..., list[Tensor]]  # f(index, *tensors): [done,] tensors
    tensors: list[Tensor]  # the tensors of the first state
    pack: Callable[[Sequence[Tensor]], Structure]  # restores the state's structure


class Recorder:
    """The recorded loops of one compiled function.

    Args:
        variables: the variables that the function uses.
    """

    def __init__(self, variables: Sequence[Any]) -> None:
        self.variables = variables
        self._weights: list[Tensor] = []
        self._kept: dict[Any, Callable | None] = {}
        self._numbers: tuple = ()
        self._loops = 0

    @contextmanager
    def recording(self, args: Structure) -> Iterator[None]:
        """Context manager for one call with `args`; records the steps of its loops."""
        weights = [v.value for v in self.variables]
        if [id(w) for w in weights] != [id(w) for w in self._weights]:
            self._kept, self._weights = {}, weights
        leaves = keras.tree.flatten(args)
        self._numbers = tuple(x for x in leaves if isinstance(x, (int, float)))
        self._loops = 0
        token = _active.set(self)
        try:
            yield
        finally:
            _active.reset(token)

    def program(
        self, step: Step, done: Done, state: Structure, steps: int
    ) -> Program | None:
        """Returns the recorded step of the next loop, or None if recording fails.

        The step is for this loop only, because its weights may be copies.
        """
        leaves = keras.tree.flatten(state)
        is_tensor = [x is not None for x in leaves]
        tensors = [x for x in leaves if x is not None]
        self._loops += 1
        if not tensors or not all(isinstance(x, torch.Tensor) for x in tensors):
            return None
        tensors = [x.contiguous() for x in tensors]

        def pack(flat: Sequence[Tensor]) -> Structure:
            rest = iter(flat)
            filled = [next(rest) if t else None for t in is_tensor]
            return keras.tree.pack_sequence_as(state, filled)

        def flat_step(index: Tensor, *flat: Tensor) -> list[Tensor]:
            state = step(index, pack(flat))
            leaves = (x for x in keras.tree.flatten(state) if x is not None)
            new = [x.contiguous() for x in leaves]
            if _kinds(new) != _kinds(flat):
                raise _Unrecordable
            return new if done is None else [done(state), *new]

        packs = torch_packing.pays(tensors[0], steps)
        kinds = _kinds(tensors)
        key = (self._loops, self._numbers, done is None, packs, *is_tensor, *kinds)
        if key not in self._kept:
            self._kept[key] = self._record(flat_step, tensors, packs)
        bind = self._kept[key]
        return None if bind is None else Program(bind(), tensors, pack)

    def _record(
        self, function: Callable, tensors: list[Tensor], packs: bool
    ) -> Callable[[], Callable] | None:
        """Records one step on copies of the tensors, or returns None if this fails.

        Returns:
            A function that returns the step for one loop.
        """
        place = torch.ones((), dtype=torch.int64, device=tensors[0].device)

        def copies() -> list[Tensor]:
            return [x.clone() for x in tensors]

        held = list(zip(self.variables, self._weights))
        scope = keras.StatelessScope(state_mapping=held)
        before = dict(scope.state_mapping)
        token = _active.set(None)
        try:
            with scope:
                graph = graph_of(function, place, *copies())
        except (RuntimeError, _Unrecordable):  # torch raises RuntimeErrors
            return None
        finally:
            _active.reset(token)
        assigned = scope.state_mapping.items()
        if not all(value is before.get(key) for key, value in assigned):
            return None
        if not self._is_whole(graph):
            return None
        inputs = (place, *copies())
        if packs:
            return torch_graph.packing(graph, inputs)
        run = torch_graph.shortened(graph, inputs)
        return lambda: run

    def _is_whole(self, graph: Any) -> bool:
        """Returns whether the graph holds only constants and unmodified weights."""
        weights = {w.untyped_storage().data_ptr() for w in self._weights}
        for node in graph.graph.nodes:
            if node.op != "get_attr":
                continue
            held = getattr(graph, node.target)
            if any(user.op != "call_function" for user in node.users):
                return False  # the step returns the held tensor in its state
            fresh = all(user.target in FRESH for user in node.users)
            weight = held.untyped_storage().data_ptr() in weights
            written = any(user.target._schema.is_mutable for user in node.users)
            if written or not (fresh or weight):
                return False
        return True


class _Unrecordable(Exception):
    """Raised for a step that may behave differently in later iterations."""


_active: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


def program(step: Step, done: Done, state: Structure, steps: int) -> Program | None:
    """Returns the recorded step of a loop of at most `steps` steps, or None.

    There is none outside compiled functions or if recording fails.
    """
    recorder = _active.get()
    return None if recorder is None else recorder.program(step, done, state, steps)


def _kinds(tensors: Sequence[Tensor]) -> list[tuple]:
    return [(tuple(x.shape), x.dtype, x.device) for x in tensors]
