"""Boards of three columns with three squares, and the result of each move.

A board lists its columns from left to right, and each column lists its blocks from
bottom to top. Blocks are numbered from 1. The number of boards is small, so all of them
are listed once with the result of every move.
"""

import functools
import itertools
from typing import NamedTuple

import numpy as np

SIZE = 3
MOST_BLOCKS = 6
MOVES = tuple((a, b) for a in range(SIZE) for b in range(SIZE) if a != b)
"""The six moves: the top block of one column, from the left, onto another."""

PASS = len(MOVES)
"""The seventh action: leave the board as it is."""

RELATIONS = ("above", "below", "left", "right")
"""What a constraint may say of two blocks that touch."""

_ABOVE, _LEFT = 0, 1  # the two kinds of facts

Board = tuple[tuple[int, ...], ...]


class Fact(NamedTuple):
    """Two touching blocks: `first` is directly above or left of `second`."""

    kind: int
    first: int
    second: int

    def worded(self, turned: bool) -> tuple[int, int, int]:
        """Returns (first, relation, second), or (second, inverse relation, first)."""
        if turned:
            return self.second, 2 * self.kind + 1, self.first
        return self.first, 2 * self.kind, self.second


class Boards(NamedTuple):
    """All boards with a given number of blocks.

    Attributes:
        blocks: Number of blocks.
        boards: The boards.
        place: Maps each board to its index in `boards`.
        moved: (boards, 6), the index of the board after each of `MOVES`. A move from an
            empty column or onto a full column changes nothing.
        facts: The facts that are true on each board.
        true: (boards, facts) bool, True if a fact of `all_facts` is true on a board.
        all_facts: Maps every possible fact to its column in `true`.
    """

    blocks: int
    boards: tuple[Board, ...]
    place: dict[Board, int]
    moved: np.ndarray
    facts: tuple[frozenset[Fact], ...]
    true: np.ndarray
    all_facts: dict[Fact, int]


def touching(board: Board) -> frozenset[Fact]:
    """Returns all facts that are true on a board."""
    facts = []
    for column in board:
        facts += [Fact(_ABOVE, b, a) for a, b in itertools.pairwise(column)]
    for left, right in itertools.pairwise(board):
        facts += [Fact(_LEFT, a, b) for a, b in zip(left, right, strict=False)]
    return frozenset(facts)


def moved(board: Board, action: int) -> Board:
    """Returns the board after an action; an impossible action changes nothing."""
    if action == PASS:
        return board
    start, end = MOVES[action]
    if not board[start] or len(board[end]) == SIZE:
        return board
    columns = [*board]
    columns[end] = (*board[end], board[start][-1])
    columns[start] = board[start][:-1]
    return tuple(columns)


@functools.cache
def all_boards(blocks: int) -> Boards:
    """Lists the boards with blocks 1 to `blocks`: 60 for three, 7,200 for six."""
    heights = [
        h for h in itertools.product(range(SIZE + 1), repeat=SIZE) if sum(h) == blocks
    ]
    boards: list[Board] = []
    for cut in heights:
        ends = list(itertools.accumulate(cut, initial=0))
        for order in itertools.permutations(range(1, blocks + 1)):
            boards.append(tuple(order[a:b] for a, b in itertools.pairwise(ends)))
    place = {board: i for i, board in enumerate(boards)}
    table = [[place[moved(b, action)] for action in range(PASS)] for b in boards]
    facts = tuple(touching(board) for board in boards)
    names = {fact: i for i, fact in enumerate(sorted(frozenset().union(*facts)))}
    true = np.zeros((len(boards), len(names)), bool)
    for row, true_facts in zip(true, facts, strict=True):
        row[[names[fact] for fact in true_facts]] = True
    return Boards(blocks, tuple(boards), place, np.array(table), facts, true, names)


def moves_to(boards: Boards, goal: np.ndarray, most: int | None = None) -> np.ndarray:
    """Returns the minimum number of moves to any goal board, (boards,) int8.

    A breadth-first search of at most `most` moves starts from the goal boards, `goal`
    (boards,) bool. Every move can be undone. Boards that are farther away get -1.
    """
    left = np.where(goal, 0, -1).astype(np.int8)
    front, step = np.flatnonzero(goal), 0
    while len(front) and step != most:
        step += 1
        reached = boards.moved[front].ravel()
        left[reached[left[reached] < 0]] = step
        front = np.flatnonzero(left == step)
    return left
