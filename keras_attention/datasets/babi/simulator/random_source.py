"""Uniform random numbers, drawn in blocks because single draws of NumPy are slow."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

_BLOCK = 4096

_T = TypeVar("_T")


class RandomSource:
    """Uniform random numbers that a NumPy generator produces in blocks."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._block: list[float] = []

    def draw(self) -> float:
        """Returns a number in [0, 1)."""
        if not self._block:
            self._block = self._generator.random(_BLOCK).tolist()
        return self._block.pop()

    def below(self, size: int) -> int:
        """Returns an integer in [0, size)."""
        return int(self.draw() * size)

    def choose(self, options: Sequence[_T]) -> _T:
        """Returns one of the options, uniformly at random."""
        return options[int(self.draw() * len(options))]

    def other(self, options: Sequence[_T], *taken: _T) -> _T:
        """Returns one of the options that are not in `taken`."""
        while True:
            option = options[int(self.draw() * len(options))]
            if option not in taken:
                return option

    def some(self, options: Sequence[_T], size: int) -> list[_T]:
        """Returns `size` distinct options in random order."""
        chosen: list[_T] = []
        while len(chosen) < size:
            chosen.append(self.other(options, *chosen))
        return chosen

    def cycle(self, items: list[_T]) -> None:
        """Permutes a list in place by a random cycle, so that no item keeps its index.

        The released files of task 14 use this shuffle: two items always change places.
        """
        for last in range(len(items) - 1, 0, -1):
            index = self.below(last)
            items[last], items[index] = items[index], items[last]
