"""Calls on backends that compile, or that only predict: nothing is replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Tensor = Any
Structure = Any
decision = bool  # of a boolean tensor


class Replayer:
    """Calls a function as it is; see `torch.py` for the arguments."""

    def __init__(
        self, function: Callable[..., Structure], layers: Any, after: float = 0.0
    ) -> None:
        self.function = function
        self.traces: int = 0
        self.reasons: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Structure:
        """Calls the function."""
        return self.function(*args, **kwargs)


def random_input(function: Callable[[], Structure]) -> Structure:
    """Calls the function, which returns random numbers."""
    return function()


def expect(condition: Callable[[], Tensor]) -> None:
    """Does nothing, because nothing is replayed."""


def will_be_known(tensor: Tensor) -> bool:
    """Returns False."""
    return False
