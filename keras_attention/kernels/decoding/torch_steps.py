"""Steps of a loop in torch, recorded once as a list of operations and then replayed.

A step of a Keras model is some sixty operations of torch, and around them more than as
much time in Python: layers that look at their arguments, open scopes, check shapes. All
of that comes out the same at every step. So the first step of each loop inside a
compiled function is recorded, and from then on the operations alone run, without those
that `torch_graph.py` finds to be of no use.

What a step closes over is recorded as it is. Weights may be closed over: they change in
place, and other ones in their place are noticed. A step that closes over any other
tensor, asks what number is in a tensor, assigns to a weight, or changes the shapes of
its state is not recorded, and runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import keras
import torch

# Nothing public records operations with their real numbers, in milliseconds:
# `torch.export` takes seconds, `torch.compile` guards every call, or a compiler.
from torch.fx.experimental.proxy_tensor import make_fx

from keras_attention.kernels.decoding import torch_graph

Tensor = Any
Structure = Any
Step = Callable[[Any, Structure], Structure]
Done = Callable[[Structure], Tensor] | None
FRESH = (torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.lift_fresh.default)


class Program(NamedTuple):
    """A recorded step on the tensors of a state, flat and without Nones."""

    run: Callable[..., list[Tensor]]  # f(index, *tensors): [whether done,] tensors
    tensors: list[Tensor]  # those of the first state
    pack: Callable[[Sequence[Tensor]], Structure]  # tensors in the state's structure


class Recorder:
    """The recorded loops of one compiled function.

    Args:
        variables: those that the function uses.
    """

    def __init__(self, variables: Sequence[Any]) -> None:
        self.variables = variables
        self._weights: list[Tensor] = []
        self._kept: dict[Any, Callable | None] = {}
        self._numbers: tuple = ()
        self._loops = 0

    @contextmanager
    def recording(self, args: Structure) -> Iterator[None]:
        """One call of the function, with these arguments."""
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

    def program(self, step: Step, done: Done, state: Structure) -> Program | None:
        """The next loop's step, recorded, or None where it cannot be."""
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

        key = (self._loops, self._numbers, done is None, *is_tensor, *_kinds(tensors))
        if key not in self._kept:
            self._kept[key] = self._record(flat_step, tensors)
        run = self._kept[key]
        return None if run is None else Program(run, tensors, pack)

    def _record(self, function: Callable, tensors: list[Tensor]) -> Callable | None:
        """The operations of one step, which is taken on copies and assigns nothing."""
        place = torch.ones((), dtype=torch.int64, device=tensors[0].device)

        def copies() -> list[Tensor]:
            return [x.clone() for x in tensors]

        held = list(zip(self.variables, self._weights))
        scope = keras.StatelessScope(state_mapping=held)
        before = dict(scope.state_mapping)
        token = _active.set(None)
        try:
            with scope:
                graph = make_fx(function)(place, *copies())
        except (RuntimeError, _Unrecordable):  # torch raises the first one
            return None
        finally:
            _active.reset(token)
        assigned = scope.state_mapping.items()
        if not all(value is before.get(key) for key, value in assigned):
            return None
        if not self._is_whole(graph):
            return None
        return torch_graph.shortened(graph, (place, *copies()))

    def _is_whole(self, graph: Any) -> bool:
        """Whether all that it holds of tensors are weights, read, and fresh numbers."""
        weights = {w.untyped_storage().data_ptr() for w in self._weights}
        for node in graph.graph.nodes:
            if node.op != "get_attr":
                continue
            held = getattr(graph, node.target)
            if any(user.op != "call_function" for user in node.users):
                return False  # it is handed on as a part of the state
            fresh = all(user.target in FRESH for user in node.users)
            weight = held.untyped_storage().data_ptr() in weights
            written = any(user.target._schema.is_mutable for user in node.users)
            if written or not (fresh or weight):
                return False
        return True


class _Unrecordable(Exception):
    """A step that does something else the next time."""


_active: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


def program(step: Step, done: Done, state: Structure) -> Program | None:
    """The recorded step of a loop; None outside of compiled functions, too."""
    recorder = _active.get()
    return None if recorder is None else recorder.program(step, done, state)


def _kinds(tensors: Sequence[Tensor]) -> list[tuple]:
    return [(tuple(x.shape), x.dtype, x.device) for x in tensors]
