"""Recording and replay of the calls of a layer or model on torch.

A Keras model on torch spends most of the time of a small step in Python: each layer
inspects its arguments, opens scopes and checks shapes. This work has the same result in
each call with the same shapes. A `Recorder` therefore traces one call and its gradient
(`torch_trace.py`), shortens the operations (`torch_rewrite.py`), and replays them in
later calls.

A recording is used only while all of this holds; otherwise the layer is called as usual:

- the arguments have the same structure, shapes, strides, dtypes and devices, and the
  modes of torch are the same (gradients, autocast, inference);
- the weights are the same tensors at the same addresses. Their values may change;
- no attribute of a layer was replaced, no list or dict of it has another length, and no
  layer has a hook;
- each decision that depends on values (`decision`) has the same result.

A call is not recorded if it reads the values of a tensor in another way, adds a loss,
changes attributes of its layers, or gives other numbers when it is replayed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from operator import is_
from typing import Any

import keras
import torch
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.backend.common.variables import get_autocast_scope
from torch.utils._python_dispatch import _get_current_dispatch_mode

from keras_attention.kernels.recording import torch_trace
from keras_attention.kernels.recording.torch_trace import (
    Changed,
    Program,
    Unrecordable,
    decision,
    random_input,
)

Tensor = Any
Structure = Any

__all__ = ["Recorder", "decision", "is_replaying", "random_input", "replaying"]

MOST_PROGRAMS = 64  # of one recorder; the oldest is dropped
MOST_MISSES = 8  # calls of a recording whose decisions had another result
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_VALUES = (type(None), bool, int, float, str)
_HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks"),
    *("_backward_hooks", "_backward_pre_hooks"),
)
_recording: ContextVar[bool] = ContextVar("recording", default=False)
_owner: ContextVar[Any] = ContextVar("owner", default=None)


@contextmanager
def replaying(owner: Any) -> Iterator[None]:
    """Context manager in which `is_replaying(owner)` is True."""
    token = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(token)


def is_replaying(owner: Any) -> bool:
    """Returns whether the innermost `replaying` context has this owner."""
    return _owner.get() is owner


class Recorder:
    """Replays recorded calls of a function.

    Args:
        function: a function of structures of tensors and Python values that returns a
            structure of tensors. It may use the weights of `layers`.
        layers: a function without arguments that returns the Keras layers that
            `function` calls.
        after: the seconds that calls of one signature must have taken in total before
            the signature is recorded. A recording takes about as long as 20 calls.
    """

    def __init__(
        self,
        function: Callable[..., Structure],
        layers: Callable[[], Sequence[Any]],
        after: float = 0.0,
    ) -> None:
        self.function = function
        self.layers = layers
        self.after = after
        self._entries: dict[Any, _Entry] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Structure:
        """Replays the recording of the call's signature, or calls the function."""
        leaves: dict[int, Tensor] = {}
        if _recording.get() or not _is_plain_context():
            return self.function(*args, **kwargs)
        structure = _signature((args, kwargs), leaves)
        if structure is None:
            return self.function(*args, **kwargs)
        scope = get_autocast_scope()
        dtype = None if scope is None else scope.dtype
        key = (structure, torch.is_grad_enabled(), dtype, keras.backend.floatx())
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= MOST_PROGRAMS:
                self._entries.pop(next(iter(self._entries)))
            entry = self._entries.setdefault(key, _Entry())
        if entry.program is not None:
            if entry.state.is_current():
                try:
                    return entry.program([*leaves.values()])
                except Changed:
                    entry.misses += 1
                    if entry.misses > MOST_MISSES:
                        entry.refuse("its decisions depend on the values")
                    return self.function(*args, **kwargs)
            entry.program = entry.state = None
        return self._observe(entry, args, kwargs, [*leaves.values()])

    @property
    def reasons(self) -> list[str]:
        """Returns why signatures are not recorded, without repetitions."""
        found = (entry.reason for entry in self._entries.values())
        return list(dict.fromkeys(reason for reason in found if reason))

    def _observe(
        self, entry: _Entry, args: tuple, kwargs: dict, leaves: list[Tensor]
    ) -> Structure:
        """Calls the function, and records its signature for the next call."""
        # The first call may build the layers.
        if entry.reason or not entry.calls or entry.seconds < self.after:
            start = time.perf_counter()
            output = self.function(*args, **kwargs)
            entry.seconds += time.perf_counter() - start
            entry.calls += 1
            return output
        structure = torch_trace.plan((args, kwargs), {})
        before = _State(self.layers())
        output = self.function(*args, **kwargs)
        if not before.is_current():
            entry.changes += 1
            if entry.changes > 1:
                entry.refuse("a call changes attributes of its layers")
            return output
        token = _recording.set(True)
        try:
            entry.program = torch_trace.record(
                self.function, structure, leaves, before.variables
            )
            entry.state = before
        except Unrecordable as error:
            entry.refuse(str(error))
        finally:
            _recording.reset(token)
        return output


class _Entry:
    """What is known of one signature."""

    def __init__(self) -> None:
        self.program: Program | None = None
        self.state: Any = None
        self.seconds = 0.0
        self.calls = self.misses = self.changes = 0
        self.reason = ""

    def refuse(self, reason: str) -> None:
        self.reason, self.program, self.state = reason, None, None


class _State:
    """The weights and the attributes of layers at the time of a recording."""

    def __init__(self, layers: Sequence[Any]) -> None:
        distinct = {id(layer): layer for layer in layers}.values()
        found = {id(v): v for layer in distinct for v in layer.variables}
        self.variables = list(found.values())
        self._weights = [(v, v._value) for v in self.variables]
        self.is_built = all(w is not None for _, w in self._weights)
        self._places = [
            (w.data_ptr(), w.requires_grad) for _, w in self._weights if w is not None
        ]
        self._dicts = [layer.__dict__ for layer in distinct]
        self._values = [*chain.from_iterable(d.values() for d in self._dicts)]
        sized = {id(x): x for x in self._values if isinstance(x, (list, dict, set))}
        self._sized = [(x, len(x)) for x in sized.values()]
        self._hooks = [d[name] for d in self._dicts for name in _HOOKS if name in d]

    def is_current(self) -> bool:
        """Returns whether all weights and attributes are still the same objects."""
        for (variable, weight), place in zip(self._weights, self._places):
            if variable._value is not weight:
                return False
            if (weight.data_ptr(), weight.requires_grad) != place:
                return False
        values = chain.from_iterable(d.values() for d in self._dicts)
        return (
            sum(map(len, self._dicts)) == len(self._values)
            and all(map(is_, values, self._values))
            and all(len(x) == size for x, size in self._sized)
            and not any(self._hooks)
            and not torch.nn.modules.module._has_any_global_hook()
        )


def _is_plain_context() -> bool:
    """Returns whether torch runs operations as usual: no tracing, modes or scopes."""
    return not (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch.is_autocast_enabled("cpu")
        or torch.is_autocast_enabled("cuda")
        or _get_current_dispatch_mode() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch.is_inference_mode_enabled()
        or in_stateless_scope()
    )


def _signature(x: Any, leaves: dict[int, Tensor]) -> Any:
    """Returns a hashable description of a structure, or None if it has other objects.

    The tensors are added to `leaves`, each with the mask that Keras attached to it.
    """
    kind = type(x)
    if kind in _PLAIN:
        if id(x) in leaves:
            return [*leaves].index(id(x))
        if x.is_meta or x.layout is not torch.strided or x.is_inference():
            return None
        leaves[id(x)] = x
        own = (x.shape, x.stride(), x.dtype, x.device, x.requires_grad)
        mask = getattr(x, "_keras_mask", None)
        if mask is None:
            return own
        found = _signature(mask, leaves)
        return None if found is None else (own, found)
    if kind in _VALUES:
        return (kind, x)
    if kind is dict:
        parts = [(name, _signature(value, leaves)) for name, value in x.items()]
        return None if any(p is None for _, p in parts) else (kind, *parts)
    if kind in (list, tuple):
        parts = [_signature(value, leaves) for value in x]
        return None if any(p is None for p in parts) else (kind, *parts)
    return None
