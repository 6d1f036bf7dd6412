"""Tracing and replay of the calls of a layer or model on torch.

A small step of a Keras model spends most of its time in Python, with the same result
at each call. A `Replayer` traces a call and its gradient (`torch_trace.py`), shortens
the operations (`torch_rewrite.py`), and replays them while all of this holds:

- the arguments have the same structure, shapes, strides, dtypes and devices, and the
  modes of torch are the same (gradients, autocast, inference);
- the weights are the same tensors at the same addresses. Their values may change;
- no attribute of a layer was replaced, nor an item of a list, dict or set of it (of
  more than 256 items, only the number counts), and no layer has a hook;
- each decision that depends on values (`decision`) has the same result.

A call is refused if it reads the values of a tensor in another way, adds a loss,
changes attributes of its layers, or gives other numbers when it is replayed. On a GPU,
a replay can be a CUDA graph (`torch_graphs.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from itertools import chain
from typing import Any

import keras
import numpy as np
import torch

# No public names tell in which scope of Keras or mode of torch a call runs.
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.backend.common.variables import get_autocast_scope
from torch.utils._python_dispatch import _get_current_dispatch_mode

from keras_attention.kernels.replay import reference
from keras_attention.kernels.replay.torch_facts import (
    Changed,
    decision,
    expect,
    random_input,
    will_be_known,
)
from keras_attention.kernels.replay.torch_graphs import are_on
from keras_attention.kernels.replay.torch_rewrite import Untraceable
from keras_attention.kernels.replay.torch_trace import VALUES, Call, Program, plan

Tensor = Any
Structure = Any

__all__ = ["Replayer", "State", "decision", "expect", "random_input", "will_be_known"]

MOST_PROGRAMS = 64  # of one replayer; the oldest is dropped
# Seconds that a trace takes for each operation of a call without its gradient
COST = 2.5e-3
MOST_MISSES = 8  # replays of a trace whose decisions had another result
_DIRECTIONS = ("forward", "forward_pre", "backward", "backward_pre")
_HOOKS = [f"_{direction}_hooks" for direction in _DIRECTIONS]
PLAIN = (torch.Tensor, torch.nn.Parameter)
_tracing: ContextVar[bool] = ContextVar("tracing", default=False)


class Replayer:
    """Replays traced calls of a function.

    Args:
        function: maps structures of tensors and Python values to one of tensors. It
            may use the weights of `layers`.
        layers: a function that returns the Keras layers that `function` calls.
        after: the seconds that calls of one signature must have taken in total before
            the signature is traced. If it is not 0, they must also have taken as long
            as tracing will probably take.
    """

    def __init__(
        self, function: Callable, layers: Callable[[], Sequence], after: float = 0.0
    ) -> None:
        self.function, self.layers, self.after = function, layers, after
        self._has_graphs = are_on()
        self._signatures: dict[Any, _Signature] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Structure:
        """Replays the trace of the call's signature, or calls the function."""
        if _tracing.get() or not _is_plain_context():
            return self.function(*args, **kwargs)
        leaves: dict[int, Tensor] = {}
        if self._has_graphs:
            args, kwargs = keras.tree.map_structure(_on_device, (args, kwargs))
        structure = signature((args, kwargs), leaves)
        if structure is None:
            leaves.clear()
            args, kwargs = keras.tree.map_structure(_as_tensor, (args, kwargs))
            structure = signature((args, kwargs), leaves)
        if structure is None:
            return self.function(*args, **kwargs)
        scope = get_autocast_scope()
        dtype = None if scope is None else scope.dtype
        key = (structure, torch.is_grad_enabled(), dtype, keras.backend.floatx())
        calls = self._signatures.get(key)
        if calls is None:
            if len(self._signatures) >= MOST_PROGRAMS:
                self._signatures.pop(next(iter(self._signatures)))
            calls = self._signatures.setdefault(key, _Signature(self.after))
        if calls.trace is not None and not calls.is_current():
            calls.drop()
        if calls.trace is None:
            return self._observe(calls, args, kwargs, leaves)
        program, state = calls.trace
        random = RandomState(state.seeds) if program.may_end else None
        try:
            return program([*leaves.values()])
        except Changed:
            if random is not None:
                random.restore()
            output = self.function(*args, **kwargs)  # may raise an error
            calls.misses += 1
            if calls.misses > MOST_MISSES:
                calls.refuse("its decisions depend on the values")
            return output

    @property
    def has_settled(self) -> bool:
        """Whether all signatures of more than one call are traced or refused."""
        signatures = self._signatures.values()
        done = [bool(s.trace or s.reason) for s in signatures]
        return any(done) and all(d or s.calls < 2 for d, s in zip(done, signatures))

    @property
    def traces(self) -> int:
        """The number of signatures that are replayed."""
        return sum(s.trace is not None for s in self._signatures.values())

    @property
    def reasons(self) -> list[str]:
        """Returns why signatures are refused, without repetitions."""
        signatures = self._signatures.values()
        graphs = (s.trace[0].graphs for s in signatures if s.trace)
        reasons = [s.reason for s in signatures]
        reasons += [g.refusal for g in graphs if g is not None]
        return list(dict.fromkeys(filter(None, reasons)))

    def _observe(
        self, calls: _Signature, args: tuple, kwargs: dict, leaves: dict[int, Tensor]
    ) -> Structure:
        """Calls the function, and traces its signature for the next call."""
        if calls.reason or calls.waits:
            start = time.perf_counter()
            output = self.function(*args, **kwargs)
            calls.seconds += time.perf_counter() - start
            calls.calls += 1
            return output
        structure, state = plan((args, kwargs), leaves), State(self.layers())
        output = self.function(*args, **kwargs)
        if state.has_losses():  # a second call would remove them
            calls.refuse("a call adds a loss")
        elif not (state.is_plain and state.is_current()):
            calls.changes += 1
            if calls.changes > 1:
                calls.refuse("a call changes attributes of its layers")
        else:
            weights = (state.variables, state.weights)
            call = Call(
                *(self.function, structure, leaves, *weights),
                has_graphs=self._has_graphs,
            )
            self._trace(calls, call, state)
        return output

    def _trace(self, calls: _Signature, call: Call, state: State) -> None:
        token = _tracing.set(True)
        try:
            operations = call.observe()
            if self.after and not calls.operations:
                calls.operations = operations
                calls.after = max(self.after, COST * operations)
            if not calls.waits:
                calls.trace = (call.trace(), state)
        except Untraceable as error:
            calls.refuse(str(error))
        finally:
            _tracing.reset(token)


class _Signature:
    """The calls of one signature: their trace and the state in which it holds."""

    def __init__(self, after: float) -> None:
        self.trace: tuple[Program, State] | None = None
        self.seconds, self.after, self.operations = 0.0, after, 0
        self.calls = self.misses = self.changes = self.drops = 0
        self.reason = ""

    @property
    def waits(self) -> bool:
        """Whether it is too early for a trace; the first call may build layers."""
        return not self.calls or self.seconds < self.after

    def is_current(self) -> bool:
        """Returns whether there is a trace that holds for the weights of now."""
        return self.trace is not None and self.trace[1].is_current()

    def drop(self) -> None:
        """Drops the trace, and waits longer each time before the next one."""
        self.trace = None
        self.drops += 1
        self.seconds, self.after = 0.0, 2.0**self.drops / 4

    def refuse(self, reason: str) -> None:
        self.reason, self.trace = reason, None


def _is_plain_context() -> bool:
    """Returns whether torch runs operations as usual: no tracing, modes or scopes."""
    return not (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or any(map(torch.is_autocast_enabled, ("cpu", "cuda")))
        or _get_current_dispatch_mode() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch.is_inference_mode_enabled()
        or in_stateless_scope()
    )


def _as_tensor(x: Any) -> Any:
    is_array = type(x) is np.ndarray and x.dtype.kind in "biuf"
    return keras.ops.convert_to_tensor(x) if is_array else x


def _on_device(x: Any) -> Any:
    """Moves a tensor without a mask to Keras' device, as the called layer would."""
    is_plain = type(x) in PLAIN and getattr(x, "_keras_mask", None) is None
    return keras.ops.convert_to_tensor(x) if is_plain else x


def signature(x: Structure, leaves: dict[int, Tensor]) -> Any:
    """Returns a hashable description of tensors and Python values, or None for others.

    `leaves` gets the tensors by their ids, in their order. The mask that Keras attached
    to a tensor follows it.
    """
    kind = type(x)
    if kind in PLAIN:
        if id(x) in leaves:
            return [*leaves].index(id(x))
        if x.is_meta or x.layout is not torch.strided or x.is_inference():
            return None
        leaves[id(x)] = x
        facts = (x.shape, x.stride(), x.dtype, x.device, x.requires_grad)
        mask = getattr(x, "_keras_mask", None)
        if mask is None:
            return facts
        described = signature(mask, leaves)
        return None if described is None else (facts, described)
    if kind in VALUES:
        return (kind, repr(x))  # 0.0 and −0.0 are equal, but not the same
    if kind not in (dict, list, tuple):
        return None
    parts = [signature(value, leaves) for value in (x.values() if kind is dict else x)]
    return None if None in parts else (kind, *(x if kind is dict else ()), *parts)


class State(reference.State):
    """The weights and the attributes of layers at the time of a trace."""

    def __init__(self, objects: Sequence[Any], variables: Sequence[Any] = ()) -> None:
        layers = (x for x in objects if isinstance(x, keras.layers.Layer))
        # Of modules of torch in the layers; a layer counts those of its sublayers, too.
        buffers = {id(b): b for layer in layers for b in layer.buffers()}
        self._buffers = [*buffers.values()]
        super().__init__(objects, variables)
        self.weights = [v._value for v in self.variables]
        self.is_plain = all(type(w) in PLAIN for w in self.weights)
        dicts = [layer.__dict__ for layer in self.layers]
        self._hooks = [d[name] for d in dicts for name in _HOOKS if name in d]
        # Keras has no public name of the seeds of a layer.
        seeds = chain.from_iterable(d.get("_seed_generators", ()) for d in dicts)
        self.seeds = [seed.state for seed in seeds]

    def has_losses(self) -> bool:
        """Returns whether the last call of a layer has added a loss."""
        # Keras has no public name of the losses that a single layer added.
        return any(layer.__dict__.get("_losses") for layer in self.layers)

    def is_current(self) -> bool:
        """Returns whether all weights and attributes are still the same objects."""
        return (
            self.is_plain
            and super().is_current()
            and not any(self._hooks)
            and not torch.nn.modules.module._has_any_global_hook()
        )

    def _current(self) -> tuple[list[Any], Iterator[Any]]:
        numbers, objects = super()._current()
        weights = [v._value for v in self.variables]
        plain = (w for w in weights if type(w) in PLAIN)
        memory = [(w.data_ptr(), w.shape, w.stride(), w.requires_grad) for w in plain]
        versions = [buffer._version for buffer in self._buffers]
        return [memory, versions, *numbers], chain(weights, objects)


class RandomState:
    """The states of torch's random generators and of the seeds of a traced call."""

    def __init__(self, seeds: Sequence[Any]) -> None:
        self._seeds = [(v, v._value.clone()) for v in seeds]
        self._cpu, cuda = torch.random.get_rng_state(), torch.cuda.is_initialized()
        self._cuda = torch.cuda.get_rng_state_all() if cuda else []

    def restore(self) -> None:
        for variable, value in self._seeds:
            variable.assign(value)
        torch.random.set_rng_state(self._cpu)
        torch.cuda.set_rng_state_all(self._cuda)  # does nothing for an empty list
