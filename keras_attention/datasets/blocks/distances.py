"""Minimum numbers of moves between boards, from tables.

The numbers on the blocks do not affect which moves are possible. A breadth-first search
from one board of each shape therefore gives the distances between all boards.

The shape of a board is the heights of its columns. `boards.all_boards` lists the boards
shape by shape. A shape has one board for each permutation of the blocks.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np

from keras_attention.datasets.blocks.boards import Fact, all_boards, moves_to


def moves_from(blocks: int, start: int) -> np.ndarray:
    """Returns the minimum number of moves from one board to every board.

    Args:
        blocks: Number of blocks.
        start: Index of the board in `all_boards(blocks)`.

    Returns:
        (boards,) int8.
    """
    number = len(_permutations(blocks))
    shape, order = divmod(start, number)
    # The numbers are exchanged so that the first board becomes the first of its shape.
    away = _from_shapes(blocks)[shape].reshape(-1, number)  # shapes × permutations
    return away[:, _renumbered(blocks)[order]].ravel()


def goal_boards(blocks: int, facts: Sequence[Fact]) -> np.ndarray:
    """Returns which boards satisfy all facts, (boards,) bool."""
    boards = all_boards(blocks)
    columns = [boards.all_facts[fact] for fact in facts]
    return np.asarray(boards.true[:, columns].all(axis=1))


@functools.cache
def _permutations(blocks: int) -> np.ndarray:
    """Returns the orders of the blocks as `all_boards` lists them.

    The shape is (permutations, blocks).
    """
    return np.array(list(itertools.permutations(range(blocks))))


@functools.cache
def _from_shapes(blocks: int) -> np.ndarray:
    """Returns the distances (shapes, boards) from the first board of each shape."""
    boards, number = all_boards(blocks), len(_permutations(blocks))
    firsts = range(0, len(boards.boards), number)
    goal = np.zeros((len(firsts), len(boards.boards)), bool)
    goal[range(len(firsts)), firsts] = True
    return np.stack([moves_to(boards, row) for row in goal])


@functools.cache
def _renumbered(blocks: int) -> np.ndarray:
    """Returns a table of renumbered boards, (permutations, permutations).

    Entry (p, q) is the permutation that q becomes when the blocks are renumbered so
    that p becomes the first permutation.
    """
    orders = _permutations(blocks)
    inverse = np.argsort(orders, axis=1)  # permutations × blocks
    weights = (blocks + 1) ** np.arange(blocks)[::-1]
    keys = orders @ weights  # increases, since the permutations are sorted
    renumbered = inverse[:, orders]  # permutations × permutations × blocks
    return np.searchsorted(keys, renumbered @ weights).astype(np.int16)
