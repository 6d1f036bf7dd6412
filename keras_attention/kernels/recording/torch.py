"""Recording and replay of the calls of a layer or model on torch.

A Keras model on torch spends most of the time of a small step in Python: each layer
inspects its arguments, opens scopes and checks shapes. This work has the same result in
each call with the same shapes. A `Recorder` therefore traces one call and its gradient
(`torch_trace.py`), shortens the operations (`torch_rewrite.py`), and replays them in
later calls.

A recording is used while all of this holds; otherwise the layer is called as usual:

- the arguments have the same structure, shapes, strides, dtypes and devices, and the
  modes of torch are the same (gradients, autocast, inference);
- the weights are the same tensors at the same addresses. Their values may change;
- no attribute of a layer was replaced, nor an item of a list, dict or set of it (of
  more than 256 items, only the number counts), and no layer has a hook;
- each decision that depends on values (`decision`) has the same result.

A call is not recorded if it reads the values of a tensor in another way, adds a loss,
changes attributes of its layers, or gives other numbers when it is replayed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import keras
import torch

# No public names tell in which scope of Keras or mode of torch a call runs.
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.backend.common.variables import get_autocast_scope
from torch.utils._python_dispatch import _get_current_dispatch_mode

from keras_attention.kernels.recording.torch_facts import (
    Changed,
    decision,
    expect,
    random_input,
    will_be_known,
)
from keras_attention.kernels.recording.torch_program import Program
from keras_attention.kernels.recording.torch_rewrite import Unrecordable
from keras_attention.kernels.recording.torch_state import RandomState, State
from keras_attention.kernels.recording.torch_structures import (
    plan,
    signature,
    with_tensors,
)
from keras_attention.kernels.recording.torch_trace import ADDS_LOSS, Call

Tensor = Any
Structure = Any

__all__ = [
    "Recorder",
    "decision",
    "expect",
    "is_replaying",
    "random_input",
    "replaying",
    "will_be_known",
]

MOST_PROGRAMS = 64  # of one recorder; the oldest is dropped
# Seconds that a recording takes for each operation of a call without its gradient
COST = 2.5e-3
MOST_MISSES = 8  # calls of a recording whose decisions had another result
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
            the signature is recorded. If it is not 0, they must also have taken as long
            as the recording will probably take.
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
        args, kwargs = with_tensors((args, kwargs))
        structure = signature((args, kwargs), leaves)
        if structure is None:
            return self.function(*args, **kwargs)
        scope = get_autocast_scope()
        dtype = None if scope is None else scope.dtype
        key = (structure, torch.is_grad_enabled(), dtype, keras.backend.floatx())
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= MOST_PROGRAMS:
                self._entries.pop(next(iter(self._entries)))
            entry = self._entries.setdefault(key, _Entry(self.after))
        recording = entry.recording
        if recording is not None:
            if recording.state.is_current():
                random = (
                    RandomState(recording.state.seeds)
                    if recording.program.may_end
                    else None
                )
                try:
                    return recording.program([*leaves.values()])
                except Changed:
                    if random is not None:
                        random.restore()
                    output = self.function(*args, **kwargs)  # may raise an error
                    entry.misses += 1
                    if entry.misses > MOST_MISSES:
                        entry.refuse("its decisions depend on the values")
                    return output
            entry.drop()
        return self._observe(entry, args, kwargs, [*leaves.values()])

    @property
    def has_settled(self) -> bool:
        """Whether all signatures of more than one call are recorded or refused."""
        entries = self._entries.values()
        done = [bool(entry.recording or entry.reason) for entry in entries]
        return any(done) and all(d or e.calls < 2 for d, e in zip(done, entries))

    @property
    def recordings(self) -> int:
        """The number of signatures that are recorded."""
        return sum(entry.recording is not None for entry in self._entries.values())

    @property
    def reasons(self) -> list[str]:
        """Returns why signatures are not recorded, without repetitions."""
        found = (entry.reason for entry in self._entries.values())
        return list(dict.fromkeys(reason for reason in found if reason))

    def _observe(
        self, entry: _Entry, args: tuple, kwargs: dict, leaves: list[Tensor]
    ) -> Structure:
        """Calls the function, and records its signature for the next call."""
        if entry.reason or entry.waits:
            start = time.perf_counter()
            output = self.function(*args, **kwargs)
            entry.seconds += time.perf_counter() - start
            entry.calls += 1
            return output
        structure = plan((args, kwargs), {})
        before = State(self.layers())
        output = self.function(*args, **kwargs)
        if before.has_losses():  # a second call would remove them
            entry.refuse(ADDS_LOSS)
            return output
        if not (before.is_plain and before.is_current()):
            entry.changes += 1
            if entry.changes > 1:
                entry.refuse("a call changes attributes of its layers")
            return output
        token = _recording.set(True)
        try:
            call = Call(self.function, structure, leaves, before.variables)
            if self.after and not entry.operations:
                entry.operations = call.operations
                entry.after = max(self.after, COST * entry.operations)
                if entry.waits:
                    return output
            entry.recording = _Recording(call.record(), before)
        except Unrecordable as error:
            entry.refuse(str(error))
        finally:
            _recording.reset(token)
        return output


class _Recording(NamedTuple):
    """A recorded call and the state in which it holds."""

    program: Program
    state: State


class _Entry:
    """What is known of one signature."""

    def __init__(self, after: float) -> None:
        self.recording: _Recording | None = None
        self.seconds, self.after, self.operations = 0.0, after, 0
        self.calls = self.misses = self.changes = self.drops = 0
        self.reason = ""

    @property
    def waits(self) -> bool:
        """Whether it is too early for a recording; the first call may build layers."""
        return not self.calls or self.seconds < self.after

    def drop(self) -> None:
        """Drops the recording, and waits longer each time before the next one."""
        self.recording = None
        self.drops += 1
        self.seconds, self.after = 0.0, 2.0**self.drops / 4

    def refuse(self, reason: str) -> None:
        self.reason, self.recording = reason, None


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
