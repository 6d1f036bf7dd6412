"""Tests agents and random players on puzzles that are reserved for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_attention.datasets import blocks
from keras_attention.datasets.blocks.puzzles import fact_of
from studies.blocks.agent import Agent
from studies.blocks.rollouts import play
from studies.blocks.supervised import check_moves
from studies.blocks.tasks import is_reserved
from studies.blocks.wording import numbered_by_place
from studies.command_line import UsageError

Player = Callable[[Sequence[blocks.Puzzle]], list[tuple[int, ...]]]
EXTRA = 6  # moves allowed beyond the minimum, as in the paper
ROUNDING = 12
MOST_TRIES = 300  # for each puzzle


def agent_player(agent: Agent, by_place: bool, batch_size: int = 256) -> Player:
    """Returns a player that takes the most probable action of an agent.

    Args:
        agent: the agent.
        by_place: whether it was trained with blocks numbered by their places.
        batch_size: the number of puzzles that are played at once.
    """

    def moves(puzzles: Sequence[blocks.Puzzle]) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        shown = [numbered_by_place(one) if by_place else one for one in puzzles]
        for start in range(0, len(shown), batch_size):
            part = shown[start : start + batch_size]
            # All batches have the same size, since a backend may compile for each.
            filled = [*part, *(part[:1] * (min(batch_size, len(shown)) - len(part)))]
            rollout = play(agent, [[one] for one in filled], None, EXTRA, ROUNDING)
            for n in range(len(part)):
                made = rollout.actions[n][rollout.valid[n]]
                found.append(tuple(int(action) for action in made))
        return found

    return moves


def random_player(seed: int, stops: bool) -> Player:
    """Returns a player whose actions are random.

    Args:
        seed: the seed of its random numbers.
        stops: whether it passes as soon as the goal is met and never before, which a
            player cannot know without the goal. Otherwise, a pass is as probable as
            each of the six moves.
    """

    def moves(puzzles: Sequence[blocks.Puzzle]) -> list[tuple[int, ...]]:
        random, game = np.random.default_rng(seed), blocks.Game(puzzles, EXTRA)
        made: list[tuple[int, ...]] = [()] * len(puzzles)
        while not game.ended.all():
            going = ~game.ended
            actions = random.integers(0, blocks.PASS + (not stops), len(puzzles))
            if stops:
                actions = np.where(game.is_met(), blocks.PASS, actions)
            game.step(actions)
            for n in np.flatnonzero(going):
                made[n] = (*made[n], int(actions[n]))
        return made

    return moves


def tested(
    player: Player,
    goals: Sequence[int],
    constraints: Sequence[int],
    count: int,
    seed: int,
    by_place: bool,
    **kind: Any,
) -> list[dict[str, Any]]:
    """Tests a player for each number of goals and of constraints.

    Args:
        player: returns the actions for puzzles.
        goals: the numbers of goals in memory.
        constraints: the numbers of constraints of each goal.
        count: the puzzles per pair of numbers. All of them are reserved for tests, see
            `is_reserved`.
        seed: the seed of the puzzles.
        by_place: whether puzzles that differ only in the numbers of the blocks are the
            same puzzle.
        **kind: other arguments of `blocks.draw_puzzles`.

    Returns:
        One dict per pair: "goals", "constraints", "puzzles"; how many of them are
        "distinct" by their first board and requested goal; the share "met" of goals
        whose constraints are all satisfied on the last board, the share "fewest" met in
        the minimum number of moves, and the mean share of "satisfied" constraints.
    """
    found, puzzles = [], []
    for number in goals:
        for size in constraints:
            random = np.random.default_rng([seed, number, size])
            kind |= {"goals": number, "constraints": size, "split": "all"}
            puzzles += _reserved(count, by_place, random, kind)
    moves = player(puzzles)
    verdict = check_moves(puzzles, moves)
    satisfied = np.array([_satisfied(*pair) for pair in zip(puzzles, moves)])
    pairs = [(number, size) for number in goals for size in constraints]
    for n, (number, size) in enumerate(pairs):
        rows = slice(n * count, (n + 1) * count)
        found.append(
            {
                "goals": number,
                "constraints": size,
                "puzzles": count,
                "distinct": len({_key(one, by_place) for one in puzzles[rows]}),
                "met": float(verdict.solved[rows].mean()),
                "fewest": float(verdict.fewest[rows].mean()),
                "satisfied": float(satisfied[rows].mean()),
            }
        )
    return found


def _reserved(
    count: int, by_place: bool, random: np.random.Generator, kind: dict[str, Any]
) -> list[blocks.Puzzle]:
    """Draws puzzles that are reserved for tests, about one puzzle in ten."""
    found: list[blocks.Puzzle] = []
    for _ in range(MOST_TRIES * count):
        (puzzle,) = blocks.draw_puzzles(1, seed=random, **kind)
        if is_reserved(puzzle, by_place):
            found.append(puzzle)
        if len(found) == count:
            return found
    raise UsageError(
        f"The test needs {count} puzzles, but too few or no puzzle of this kind is "
        f"reserved for tests. Received: {kind}"
    )


def _key(puzzle: blocks.Puzzle, by_place: bool) -> Any:
    """Returns the first board and the requested constraints, in any order."""
    puzzle = numbered_by_place(puzzle) if by_place else puzzle
    return puzzle.board, frozenset(map(fact_of, puzzle.goals[puzzle.asked]))


def _satisfied(puzzle: blocks.Puzzle, actions: Sequence[int]) -> float:
    board = puzzle.board
    for action in actions:
        board = blocks.moved(board, action)
    goal = puzzle.goals[puzzle.asked]
    return float(np.mean([blocks.holds(board, constraint) for constraint in goal]))
