"""Tracing and replay of the calls of a layer or model on torch.

A Keras model on torch spends most of the time of a small step in Python: each layer
inspects its arguments, opens scopes and checks shapes. This work has the same result in
each call with the same shapes. A `Replayer` therefore traces one call and its gradient
(`torch_trace.py`), shortens the operations (`torch_rewrite.py`), and replays them in
later calls.

A trace is replayed while all of this holds; otherwise the layer is called as usual:

- the arguments have the same structure, shapes, strides, dtypes and devices, and the
  modes of torch are the same (gradients, autocast, inference);
- the weights are the same tensors at the same addresses. Their values may change;
- no attribute of a layer was replaced, nor an item of a list, dict or set of it (of
  more than 256 items, only the number counts), and no layer has a hook;
- each decision that depends on values (`decision`) has the same result.

A call is refused, and never replayed, if it reads the values of a tensor in another
way, adds a loss, changes attributes of its layers, or gives other numbers when it is
replayed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
import torch

# No public names tell in which scope of Keras or mode of torch a call runs.
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.backend.common.variables import get_autocast_scope
from torch.utils._python_dispatch import _get_current_dispatch_mode

from keras_attention.kernels.replay.torch_facts import (
    Changed,
    decision,
    expect,
    random_input,
    will_be_known,
)
from keras_attention.kernels.replay.torch_program import Program
from keras_attention.kernels.replay.torch_rewrite import Untraceable
from keras_attention.kernels.replay.torch_state import RandomState, State
from keras_attention.kernels.replay.torch_structures import (
    plan,
    signature,
    with_tensors,
)
from keras_attention.kernels.replay.torch_trace import ADDS_LOSS, Call

Tensor = Any
Structure = Any

__all__ = [
    "Replayer",
    "decision",
    "expect",
    "is_replaying",
    "random_input",
    "replaying",
    "will_be_known",
]

MOST_PROGRAMS = 64  # of one replayer; the oldest is dropped
# Seconds that a trace takes for each operation of a call without its gradient
COST = 2.5e-3
MOST_MISSES = 8  # replays of a trace whose decisions had another result
_tracing: ContextVar[bool] = ContextVar("tracing", default=False)
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


class Replayer:
    """Replays traced calls of a function.

    Args:
        function: a function of structures of tensors and Python values that returns a
            structure of tensors. It may use the weights of `layers`.
        layers: a function without arguments that returns the Keras layers that
            `function` calls.
        after: the seconds that calls of one signature must have taken in total before
            the signature is traced. If it is not 0, they must also have taken as long
            as tracing will probably take.
    """

    def __init__(
        self,
        function: Callable[..., Structure],
        layers: Callable[[], Sequence[Any]],
        after: float = 0.0,
    ) -> None:
        self.function, self.layers, self.after = function, layers, after
        self._signatures: dict[Any, _Signature] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Structure:
        """Replays the trace of the call's signature, or calls the function."""
        leaves: dict[int, Tensor] = {}
        if _tracing.get() or not _is_plain_context():
            return self.function(*args, **kwargs)
        args, kwargs = with_tensors((args, kwargs))
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
        tensors = [*leaves.values()]
        if calls.program is None or calls.state is None:
            return self._observe(calls, args, kwargs, tensors)
        if not calls.is_current():
            calls.drop()
            return self._observe(calls, args, kwargs, tensors)
        random = RandomState(calls.state.seeds) if calls.program.may_end else None
        try:
            return calls.program(tensors)
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
        done = [bool(s.program or s.reason) for s in signatures]
        return any(done) and all(d or s.calls < 2 for d, s in zip(done, signatures))

    @property
    def traces(self) -> int:
        """The number of signatures that are replayed."""
        return sum(s.program is not None for s in self._signatures.values())

    @property
    def reasons(self) -> list[str]:
        """Returns why signatures are refused, without repetitions."""
        reasons = (s.reason for s in self._signatures.values() if s.reason)
        return list(dict.fromkeys(reasons))

    def _observe(
        self, calls: _Signature, args: tuple, kwargs: dict, leaves: list[Tensor]
    ) -> Structure:
        """Calls the function, and traces its signature for the next call."""
        if calls.reason or calls.waits:
            start = time.perf_counter()
            output = self.function(*args, **kwargs)
            calls.seconds += time.perf_counter() - start
            calls.calls += 1
            return output
        structure = plan((args, kwargs), {})
        before = State(self.layers())
        output = self.function(*args, **kwargs)
        if before.has_losses():  # a second call would remove them
            calls.refuse(ADDS_LOSS)
            return output
        if not (before.is_plain and before.is_current()):
            calls.changes += 1
            if calls.changes > 1:
                calls.refuse("a call changes attributes of its layers")
            return output
        token = _tracing.set(True)
        try:
            weights = [v._value for v in before.variables]
            call = Call(self.function, structure, leaves, before.variables, weights)
            operations = call.observe()
            if self.after and not calls.operations:
                calls.operations = operations
                calls.after = max(self.after, COST * operations)
                if calls.waits:
                    return output
            calls.program, calls.state = call.trace(), before
        except Untraceable as error:
            calls.refuse(str(error))
        finally:
            _tracing.reset(token)
        return output


class _Signature:
    """The calls of one signature: their trace and the state in which it holds."""

    def __init__(self, after: float) -> None:
        self.program: Program | None = None
        self.state: State | None = None
        self.seconds, self.after, self.operations = 0.0, after, 0
        self.calls = self.misses = self.changes = self.drops = 0
        self.reason = ""

    @property
    def waits(self) -> bool:
        """Whether it is too early for a trace; the first call may build layers."""
        return not self.calls or self.seconds < self.after

    def is_current(self) -> bool:
        """Returns whether the trace holds for the weights and attributes of now."""
        return self.state is not None and self.state.is_current()

    def drop(self) -> None:
        """Drops the trace, and waits longer each time before the next one."""
        self.program = self.state = None
        self.drops += 1
        self.seconds, self.after = 0.0, 2.0**self.drops / 4

    def refuse(self, reason: str) -> None:
        self.reason, self.program, self.state = reason, None, None


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
