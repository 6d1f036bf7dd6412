"""What a traced call depends on besides its arguments: random numbers, decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch

Tensor = Any
Structure = Any


class Changed(Exception):
    """A decision of a traced call had another result in this call."""


class Facts(NamedTuple):
    """The facts of one call, in their order."""

    functions: list[Callable[[], Structure]]  # that return random numbers
    numbers: list[Structure]  # their results
    decisions: list[bool]


class _Playback:
    """Hands the facts of an observed call to a later run of the same call."""

    def __init__(self, facts: Facts, numbers: Sequence[Structure]) -> None:
        self.numbers = iter(numbers)
        self.decisions = iter(facts.decisions)


_facts: ContextVar[Facts | _Playback | None] = ContextVar("facts", default=None)


@contextmanager
def _as_facts(facts: Facts | _Playback | None) -> Iterator[None]:
    token = _facts.set(facts)
    try:
        yield
    finally:
        _facts.reset(token)


def collected(facts: Facts | None) -> Any:
    """Context manager that adds the facts of a call to `facts`.

    With None, a call that decides or reads a seed cannot be traced.
    """
    return _as_facts(facts)


def played_back(facts: Facts, numbers: Sequence[Structure]) -> Any:
    """Context manager in which a call gets these random numbers and decisions."""
    return _as_facts(_Playback(facts, numbers))


def random_input(function: Callable[[], Structure]) -> Structure:
    """Calls a function that returns random numbers.

    A replay calls the function anew, before its operations. The function must therefore
    not depend on a tensor.
    """
    facts = _facts.get()
    if isinstance(facts, _Playback):
        return next(facts.numbers)
    numbers = function()
    if facts is not None:
        facts.functions.append(function)
        facts.numbers.append(numbers)
    return numbers


def decision(flag: Tensor) -> bool:
    """Returns a boolean tensor as a Python boolean.

    Each replay compares it; another result ends the replay.
    """
    facts = _facts.get()
    if isinstance(facts, _Playback):
        expected = next(facts.decisions)
        _holds(flag, expected)
        return expected
    result = bool(flag)
    if facts is not None:
        facts.decisions.append(result)
    return result


def expect(condition: Callable[[], Tensor]) -> None:
    """Adds a condition to a trace; if it does not hold, the replay ends.

    Use it beside a check that raises an error. Outside traces, nothing happens.
    """
    if _facts.get() is not None:
        decision(condition())


def will_be_known(tensor: Tensor) -> bool:
    """Returns whether a call is traced, and its replay will know the values."""
    is_tensor = isinstance(tensor, torch.Tensor)
    return isinstance(_facts.get(), _Playback) and is_tensor and tensor.is_cpu


def check(flag: torch.Tensor, expected: bool) -> None:
    """Raises `Changed` if a decision has another result than in the trace."""
    if bool(flag) is not expected:
        raise Changed


# Functions by the operations that stand for them in a trace
FUNCTIONS: dict[Any, Callable] = {}


def operation(name: str, function: Callable, like: Callable) -> Callable:
    """Returns a function that a trace contains as one operation.

    Args:
        name: the name of the operation.
        function: computes tensors from tensors, with type annotations of torch. It may
            read values.
        like: returns fake tensors with the shapes and dtypes of the results.
    """
    traced = torch.library.custom_op(
        f"keras_attention::{name}", function, mutates_args=()
    )
    traced.register_fake(like)
    FUNCTIONS[getattr(torch.ops.keras_attention, name).default] = function

    def call(*args: Any) -> Any:
        # Outside traces, an operation would only take time.
        return (traced if isinstance(_facts.get(), _Playback) else function)(*args)

    return call


_holds = operation("holds", check, lambda flag, expected: None)
HOLDS = torch.ops.keras_attention.holds.default
