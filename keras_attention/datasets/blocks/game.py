"""Plays many puzzles at once, with rewards.

Shapes: N puzzles. The tables have a row for each board of any number of blocks.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_attention.datasets.blocks.boards import (
    MOST_BLOCKS,
    MOVES,
    PASS,
    Board,
    Fact,
    all_boards,
)
from keras_attention.datasets.blocks.puzzles import Puzzle, fact_of
from keras_attention.datasets.blocks.vectors import ACTIONS, GO, INPUTS, SQUARES, show
from keras_attention.datasets.sizes import check_size


class Rewards(NamedTuple):
    """The rewards of a game.

    A step is rewarded with the change of the share of satisfied constraints. A move and
    its reversal therefore gain nothing, and the sum over an episode is the share at the
    end.

    Attributes:
        met: Reward at the end of an episode if all constraints are satisfied.
        unmet: Reward at the end of an episode otherwise.
        move: Reward of every move, to prefer short solutions.
        impossible: Additional reward of a move from an empty column or onto a full one.
    """

    met: float = 1.0
    unmet: float = -0.5
    move: float = -0.02
    impossible: float = -0.05


class Stepped(NamedTuple):
    """The output of `Game.step`.

    Attributes:
        rewards: (N,) float32, 0 for puzzles that had ended before.
        ended: (N,) bool, True after a pass or the last allowed action.
    """

    rewards: np.ndarray
    ended: np.ndarray


class Game:
    """Plays N puzzles at once, in NumPy.

    Each action is one of the six `MOVES` or a pass. A pass ends the puzzle. Otherwise
    the puzzle ends after the minimum number of moves plus `extra` plus one actions.

    Args:
        puzzles: N puzzles.
        extra: Number of moves allowed beyond the minimum; 6 in the paper.
        rewards: The rewards.

    Attributes:
        boards: (N,), indices of the boards, see `board`.
        made: (N,), the number of actions, including passes.
        ended: (N,) bool.

    Raises:
        ValueError: no puzzles; an `extra` that is negative or not a whole number; or
            `rewards` that are not `Rewards`.

    Example:
        ```python
        game = Game(draw_puzzles(count=64))
        game.step(np.zeros(64, int)).rewards.shape  # (64,)
        ```

    References:
        Graves et al. (2016), Methods, "Mini-SHRDLU". There, every step is rewarded with
        the number of satisfied constraints, and a pass does not end the episode.
    """

    def __init__(
        self, puzzles: Sequence[Puzzle], extra: int = 6, rewards: Rewards | None = None
    ) -> None:
        if not puzzles:
            raise ValueError("`puzzles` must hold at least one. Received: puzzles=[]")
        check_size("extra", extra, least=0)
        if not isinstance(rewards, Rewards | None):
            raise ValueError(
                f"`rewards` must be `blocks.Rewards`, or None. Received: {rewards=}"
            )
        tables = _tables()
        self.rewards = Rewards() if rewards is None else rewards
        self.boards = np.array([tables.place[puzzle.board] for puzzle in puzzles])
        self.fewest = np.array([len(puzzle.moves) for puzzle in puzzles])
        self.most = self.fewest + 1 + extra
        self.made = np.zeros(len(puzzles), int)
        self.ended = np.zeros(len(puzzles), bool)
        self._wanted = np.zeros((len(puzzles), tables.true.shape[1]), bool)  # N × facts
        for wanted, puzzle in zip(self._wanted, puzzles, strict=True):
            goal = puzzle.goals[puzzle.asked]
            wanted[[tables.facts[fact_of(constraint)] for constraint in goal]] = True
        self._size = self._wanted.sum(axis=1)

    def observe(self) -> np.ndarray:
        """Returns the inputs of an answer step, (N, 97) float32: go cue and board.

        `environment.MiniSHRDLU` lists the 97 inputs.
        """
        rows = np.zeros((len(self.boards), INPUTS), np.float32)
        rows[:, GO] = 1
        rows[:, SQUARES:] = _tables().squares[self.boards]
        return rows

    def satisfied(self) -> np.ndarray:
        """Returns the share of satisfied constraints of the requested goals, (N,)."""
        true = _tables().true[self.boards] & self._wanted
        return np.asarray(true.sum(axis=1) / self._size)

    def is_met(self) -> np.ndarray:
        """Returns whether all constraints of the requested goal are satisfied, (N,)."""
        return np.asarray(self.satisfied() == 1)

    def step(self, actions: np.ndarray) -> Stepped:
        """Performs one action per puzzle. Puzzles that have ended do not change.

        Args:
            actions: (N,) integers from 0 to 6.

        Raises:
            ValueError: other actions, or another number of them.
        """
        actions = np.asarray(actions)
        if (
            actions.shape != self.boards.shape
            or not np.isin(actions, range(ACTIONS)).all()
        ):
            raise ValueError(
                f"`actions` must be {len(self.boards)} numbers from 0 to {PASS}. "
                f"Received: actions={actions!r}"
            )
        going, before = ~self.ended, self.satisfied()
        boards = np.where(going, _tables().moved[self.boards, actions], self.boards)
        passed = actions == PASS
        impossible = (boards == self.boards) & ~passed
        self.boards = boards
        self.made += going
        self.ended = self.ended | passed | (self.made >= self.most)
        gained = self.satisfied() - before
        gained += np.where(passed, 0, self.rewards.move)
        gained += np.where(impossible, self.rewards.impossible, 0)
        last = np.where(self.is_met(), self.rewards.met, self.rewards.unmet)
        gained += np.where(self.ended, last, 0)
        return Stepped(np.where(going, gained, 0).astype(np.float32), self.ended.copy())

    def board(self, number: int) -> Board:
        """Returns the board of a puzzle: its columns, each from the bottom."""
        return _tables().boards[self.boards[number]]


class _Tables(NamedTuple):
    """The tables of `all_boards` for 1 to 6 blocks, one after another."""

    boards: tuple[Board, ...]
    place: dict[Board, int]
    moved: np.ndarray  # boards × 7, the board after each action
    facts: dict[Fact, int]
    true: np.ndarray  # boards × facts
    squares: np.ndarray  # boards × 54


@functools.cache
def _tables() -> _Tables:
    parts = [all_boards(blocks) for blocks in range(1, MOST_BLOCKS + 1)]
    facts = parts[-1].all_facts
    boards = tuple(board for part in parts for board in part.boards)
    moved = np.zeros((len(boards), ACTIONS), int)
    true = np.zeros((len(boards), len(facts)), bool)
    squares = np.zeros((len(boards), INPUTS), np.float32)
    start = 0
    for part in parts:
        rows = slice(start, start + len(part.boards))
        moved[rows, : len(MOVES)] = start + part.moved
        moved[rows, PASS] = np.arange(rows.start, rows.stop)
        if part.all_facts:
            true[rows, [facts[fact] for fact in part.all_facts]] = part.true
        start = rows.stop
    for row, board in zip(squares, boards, strict=True):
        show(board, row)
    place = {board: n for n, board in enumerate(boards)}

    return _Tables(boards, place, moved, facts, true, squares[:, SQUARES:].copy())
