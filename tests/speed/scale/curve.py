"""What a curve is: a size that grows, and series of functions to measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Call = Callable[[], Any]


@dataclass(frozen=True)
class Series:
    """A function at growing sizes.

    Attributes:
        name: Its name in tables and pictures.
        make: A function from a size and the name of a backend to a function without
            arguments. The inputs exist when `make` returns. The first call may compile.
        pictured: Whether the picture shows the series. Tables show all series.
    """

    name: str
    make: Callable[[int, str], Call]
    pictured: bool = True


@dataclass(frozen=True)
class Curve:
    """Series over the same sizes.

    Attributes:
        name: The name on the command line.
        size: What grows, as the label of the axis.
        sizes: The sizes, in ascending order.
        few: The sizes of a quick run.
        title: What is measured, with the other sizes.
        series: The series.
    """

    name: str
    size: str
    sizes: tuple[int, ...]
    few: tuple[int, ...]
    title: str
    series: tuple[Series, ...]

    def series_named(self, name: str) -> Series:
        """Returns the series with this name."""
        return next(one for one in self.series if one.name == name)


def once(make: Callable[[], Call]) -> Call:
    """Returns a function that calls `make` in its first call, and then its result.

    The time of the first call thus includes what `make` builds and compiles.
    """
    made: list[Call] = []

    def call() -> Any:
        if not made:
            made.append(make())
        return made[0]()

    return call
