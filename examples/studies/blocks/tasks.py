"""The lessons of the block puzzles, and their puzzles.

Shapes: B puzzles, K episodes per puzzle, T' steps of the constraints, D = 97 inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_attention.datasets import blocks
from studies.blocks.wording import asking, numbered_by_place, renamed_together

Lesson = Sequence[Mapping[str, Any]]
FRESH = 8  # one puzzle in eight is new, the others are renamed
FIRST = 64  # so many puzzles are new before any is renamed


def is_reserved(puzzle: blocks.Puzzle, by_place: bool) -> bool:
    """Returns whether a puzzle is for tests only, in the form that a network gets.

    With `by_place`, puzzles that differ only in the numbers of the blocks are the same
    puzzle.
    """
    return blocks.is_of_the_test(numbered_by_place(puzzle) if by_place else puzzle)


class Puzzles:
    """Draws training puzzles of a lesson, with all of their goals.

    To draw a puzzle and to solve it for each of its goals is slow, so most puzzles are
    earlier ones with other block numbers and other letters. No reserved puzzle is ever
    drawn, whichever of its goals is requested; see `is_reserved`.

    Args:
        lesson: arguments of `blocks.draw_puzzles`; one of them is chosen per puzzle.
        seed: the seed of the new puzzles.
        by_place: whether the blocks are numbered by their places on the first board,
            see `numbered_by_place`.
        count: how many new puzzles were drawn before. They are drawn again if needed.
    """

    def __init__(
        self,
        lesson: Lesson,
        seed: Sequence[int],
        by_place: bool = False,
        count: int = 0,
    ) -> None:
        self._lesson, self._by_place, self._seed = lesson, by_place, seed
        self.count = count
        self._known: dict[int, list[blocks.Puzzle]] = {}

    def draw(self, episodes: int, random: np.random.Generator) -> list[blocks.Puzzle]:
        """Returns K puzzles that differ only in the requested goal.

        Each goal is requested equally often, or once more than others.

        Args:
            episodes: K.
            random: decides which puzzle is drawn, and how it is renamed.
        """
        if self.count < FIRST or random.random() * FRESH < 1:
            asked = self._new(self.count)
            self.count += 1
        else:
            asked = self._renamed(self._new(int(random.integers(self.count))), random)
        if self._by_place:
            asked = [numbered_by_place(puzzle) for puzzle in asked]
        order = random.permutation(len(asked))
        return [asked[order[n % len(asked)]] for n in range(episodes)]

    def _new(self, number: int) -> list[blocks.Puzzle]:
        """Returns a new puzzle, which depends on the seed and the number alone."""
        random = np.random.default_rng([*self._seed, number])
        while number not in self._known:
            kind = self._lesson[int(random.integers(len(self._lesson)))]
            puzzle = blocks.draw_puzzles(1, **kind, split="all", seed=random)[0]
            asked = [asking(puzzle, letter) for letter in puzzle.goals]
            if not any(is_reserved(one, self._by_place) for one in asked):
                self._known[number] = asked
        return self._known[number]

    def _renamed(
        self, puzzles: list[blocks.Puzzle], random: np.random.Generator
    ) -> list[blocks.Puzzle]:
        while True:
            asked = renamed_together(puzzles, random)
            if not any(is_reserved(one, self._by_place) for one in asked):
                return asked


def _kinds(most: int, depth: int, **rest: Any) -> list[dict[str, Any]]:
    """Returns puzzles with 1 to `most` constraints per goal."""
    return [
        {"constraints": number, "depth": (1, depth), **rest}
        for number in range(1, most + 1)
    ]


LESSONS: list[list[dict[str, Any]]] = [
    _kinds(1, 2, goals=(1, 2), blocks=6),
    _kinds(3, 2, goals=(1, 3), blocks=6),
    _kinds(4, 3, goals=(1, 4), blocks=6),
    _kinds(6, 4, goals=(1, 4), blocks=6),
]
NETWORK: dict[str, Any] = {
    "letter_width": 24,
    "features": 96,
    "hidden": 64,
    "head": [256, 128],
    "lookup": True,
    "memory_slots": 24,
    "word_width": 64,
    "read_heads": 2,
}
TRAINING: dict[str, Any] = {
    "puzzles": 32,
    "episodes": 8,
    "minibatch": 16,
    "passes": 3,
    "rate": 1e-3,
    "last_rate": 0.1,
    "clipnorm": 1.0,
    "entropy": 0.03,
    "value": 0.5,
    "clip": 0.2,
    "decay": 0.9,
    "bar": 0.7,
    "recent": 8,
    "latest": 0.1,
    "earlier": 0.1,
    "extra": 4,
    "rounding": 12,
    "steps": 6,
    "by_place": True,
    "reported": 20,
}
TESTED: dict[str, Any] = {
    "goals": [1, 2, 3, 4],
    "constraints": [1, 2, 3, 4, 5, 6],
    "count": 100,
    "blocks": 6,
    "depth": [1, 4],
}
