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


class Playback:
    """Hands the facts of an observed call to a later run of the same call."""

    def __init__(self, facts: Facts, numbers: Sequence[Structure]) -> None:
        self.numbers, self.decisions = iter(numbers), iter(facts.decisions)


_facts: ContextVar[Facts | Playback | None] = ContextVar("facts", default=None)


@contextmanager
def using(facts: Facts | Playback | None) -> Iterator[None]:
    """Context manager in which a call collects facts, plays them back, or neither."""
    token = _facts.set(facts)
    try:
        yield
    finally:
        _facts.reset(token)


def random_input(function: Callable[[], Structure]) -> Structure:
    """Calls a function that depends on no tensor, as each replay does at its start."""
    facts = _facts.get()
    if isinstance(facts, Playback):
        return next(facts.numbers)
    numbers = function()
    if facts is not None:
        facts.functions.append(function)
        facts.numbers.append(numbers)
    return numbers


def decision(flag: Tensor) -> bool:
    """Returns a boolean tensor as a Python one; another result ends a replay."""
    facts = _facts.get()
    if isinstance(facts, Playback):
        expected = next(facts.decisions)
        _holds(flag, expected)
        return expected
    result = bool(flag)
    if facts is not None:
        facts.decisions.append(result)
    return result


def expect(condition: Callable[[], Tensor]) -> None:
    """Adds a condition beside a check that raises; a replay ends where it fails."""
    if _facts.get() is not None:
        decision(condition())


def will_be_known(tensor: Tensor) -> bool:
    """Returns whether a call is traced, and its replay will know the values."""
    is_tensor = isinstance(tensor, torch.Tensor)
    return isinstance(_facts.get(), Playback) and is_tensor and tensor.is_cpu


# Functions by the operations that stand for them in a trace
FUNCTIONS: dict[Any, Callable] = {}


def operation(name: str, function: Callable, like: Callable) -> Callable:
    """Returns a function that a trace contains as one operation with this name.

    The function computes tensors from tensors, with type annotations of torch. It may
    read values. `like` returns fake tensors with the shapes and dtypes of the results.
    """
    path = f"keras_attention::{name}"
    traced = torch.library.custom_op(path, function, mutates_args=())
    traced.register_fake(like)
    FUNCTIONS[getattr(torch.ops.keras_attention, name).default] = function

    def call(*args: Any) -> Any:
        # Outside traces, an operation would only take time.
        return (traced if isinstance(_facts.get(), Playback) else function)(*args)

    return call


def _check(flag: torch.Tensor, expected: bool) -> None:
    if bool(flag) is not expected:
        raise Changed


_holds = operation("holds", _check, lambda flag, expected: None)
HOLDS = torch.ops.keras_attention.holds.default
