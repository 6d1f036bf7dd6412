"""Uniform draws in blocks: a NumPy generator asked for one number at a time is slow."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

_BLOCK = 4096

_T = TypeVar("_T")


class RandomSource:
    """Uniform draws, taken from a NumPy generator in blocks.

    Args:
        generator: Where the draws come from.

    Example:
        ```python
        random_source = RandomSource(np.random.default_rng(0))
        random_source.choose(("apple", "milk"))
        ```
    """

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._block: list[float] = []

    def draw(self) -> float:
        """A number from [0, 1)."""
        if not self._block:
            self._block = self._generator.random(_BLOCK).tolist()
        return self._block.pop()

    def below(self, size: int) -> int:
        """A whole number from [0, size)."""
        return int(self.draw() * size)

    def choose(self, options: Sequence[_T]) -> _T:
        """One of the options, each as likely as another."""
        return options[int(self.draw() * len(options))]

    def other(self, options: Sequence[_T], *taken: _T) -> _T:
        """One of the options that are not taken."""
        while True:
            option = options[int(self.draw() * len(options))]
            if option not in taken:
                return option

    def some(self, options: Sequence[_T], size: int) -> list[_T]:
        """So many different ones of the options, in random order."""
        chosen: list[_T] = []
        while len(chosen) < size:
            chosen.append(self.other(options, *chosen))
        return chosen

    def cycle(self, items: list[_T]) -> None:
        """Reorders a list by a random cycle, in place: no item keeps its index.

        The released task 14 is shuffled so: two items always change places.
        """
        for last in range(len(items) - 1, 0, -1):
            index = self.below(last)
            items[last], items[index] = items[index], items[last]
