"""Recordings on backends that compile, or that only predict: none are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Tensor = Any
Structure = Any


class Recorder:
    """Calls a function as it is; see `torch.py` for the arguments."""

    def __init__(
        self, function: Callable[..., Structure], layers: Any, after: float = 0.0
    ) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Structure:
        """Calls the function."""
        return self.function(*args, **kwargs)

    @property
    def recordings(self) -> int:
        """Returns 0."""
        return 0

    @property
    def reasons(self) -> list[str]:
        """Returns an empty list: nothing is refused, because nothing is recorded."""
        return []


def random_input(function: Callable[[], Structure]) -> Structure:
    """Calls the function, which returns random numbers."""
    return function()


def decision(flag: Tensor) -> bool:
    """Returns a boolean tensor as a Python boolean."""
    return bool(flag)


def expect(condition: Callable[[], Tensor]) -> None:
    """Does nothing, because nothing is recorded."""


def will_be_known(tensor: Tensor) -> bool:
    """Returns False."""
    return False


@contextmanager
def replaying(owner: Any) -> Iterator[None]:
    """Context manager without an effect."""
    yield


def is_replaying(owner: Any) -> bool:
    """Returns False."""
    return False
