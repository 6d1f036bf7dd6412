"""Puzzles: a board, several lettered goals, and the requested goal."""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_attention.datasets.blocks.boards import (
    MOST_BLOCKS,
    RELATIONS,
    Board,
    Boards,
    Fact,
    all_boards,
    moves_to,
)
from keras_attention.datasets.choices import check_choice
from keras_attention.datasets.ragged import Range, Seed, at_least_one, span

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TRIES = 2000  # attempts to sample a valid puzzle of the split
_TEST_SHARE = 10  # one puzzle in ten belongs to the test split

Constraint = tuple[int, str, int]  # block, relation, block


class Puzzle(NamedTuple):
    """A board, its goals, the requested goal and a shortest solution.

    Attributes:
        board: The columns from left to right, each with its blocks from the bottom.
        goals: Maps a letter to constraints such as (1, "above", 2): block 1 is directly
            above block 2. "left" and "right" refer to adjacent blocks in a row.
        asked: The letter of the requested goal.
        moves: A shortest solution, as indices into `MOVES`. Ties are resolved in the
            order of `MOVES`.
    """

    board: Board
    goals: dict[str, tuple[Constraint, ...]]
    asked: str
    moves: tuple[int, ...]


def draw_puzzles(
    count: int,
    goals: Range = (2, 4),
    blocks: Range = (3, 4),
    constraints: Range = (1, 2),
    depth: Range = (1, 2),
    split: str = "train",
    seed: Seed = 0,
) -> list[Puzzle]:
    """Samples puzzles as in the paper.

    Blocks are placed on the board at random. For each goal, a board that is `depth`
    moves away is sampled. The goal's constraints are facts that are true on that board
    but not on the first board. Each is stated from the perspective of one of its two
    blocks. One goal is requested. It may be reachable in fewer than `depth` moves.

    Args:
        count: Number of puzzles.
        goals: Number of goals, or a (minimum, maximum) range; at most 26.
        blocks: Number of blocks; at most 6.
        constraints: Number of constraints per goal; at most the number of new facts
            of a board, which `depth` limits: with the default `blocks` and `depth`, a
            board has at most three. Larger numbers of a range are then never drawn.
        depth: Distance in moves from the board to the board that a goal describes.
        split: `"train"`, `"test"` or `"all"`. The first two are disjoint. The split
            depends on the board and the constraints of the requested goal, not on their
            wording. One puzzle in ten belongs to `"test"`.
        seed: Seed for `numpy.random.default_rng`.

    Raises:
        ValueError: unknown `split`, a size below 1, a range with its minimum above its
            maximum, too many blocks or goals, or an impossible puzzle, such as six
            constraints with three blocks.

    Example:
        ```python
        puzzle = draw_puzzles(count=1, blocks=3)[0]
        puzzle.goals[puzzle.asked]  # such as ((1, "above", 3),)
        ```
    """
    at_least_one(count=count)
    ranges = {"goals": goals, "blocks": blocks, "constraints": constraints}
    spans = {name: span(value, name) for name, value in ranges.items()}
    spans["depth"] = span(depth, "depth")
    for name, most in (("blocks", MOST_BLOCKS), ("goals", len(LETTERS))):
        if spans[name][1] > most:
            raise ValueError(
                f"`{name}` must be at most {most}. Received: {name}={ranges[name]}"
            )
    check_choice("split", split, ("train", "test", "all"))
    random = np.random.default_rng(seed)
    return [_draw(spans, split, random) for _ in range(count)]


def holds(board: Board, constraint: Constraint) -> bool:
    """Returns whether a constraint is satisfied on a board."""
    boards = all_boards(sum(map(len, board)))
    return fact_of(constraint) in boards.facts[boards.place[board]]


def is_reached(board: Board, goal: tuple[Constraint, ...]) -> bool:
    """Returns whether all constraints of a goal are satisfied on a board."""
    return all(holds(board, constraint) for constraint in goal)


def is_of_the_test(puzzle: Puzzle) -> bool:
    """Returns whether a puzzle belongs to the test split."""
    facts = [fact_of(constraint) for constraint in puzzle.goals[puzzle.asked]]
    return _is_of_the_test(puzzle.board, facts)


def _draw(
    spans: dict[str, tuple[int, int]], split: str, random: np.random.Generator
) -> Puzzle:
    def pick(name: str) -> int:
        low, high = spans[name]
        return int(random.integers(low, high + 1))

    is_found = False  # for another split
    for _ in range(_TRIES):
        count = pick("blocks")
        boards = all_boards(count)
        start = int(random.integers(len(boards.boards)))
        board = boards.boards[start]
        asked = _goal(boards, start, pick("depth"), pick("constraints"), random)
        if asked is None:
            continue
        if split != "all" and _is_of_the_test(board, asked) != (split == "test"):
            is_found = True
            continue
        goals = [asked]
        wanted = pick("goals")
        for _ in range(_TRIES):
            if len(goals) == wanted:
                break
            goal = _goal(boards, start, pick("depth"), pick("constraints"), random)
            if goal is not None:
                goals.append(goal)
        if len(goals) == wanted:
            return _puzzle(boards, board, goals, random)
    facts = _counted(spans["constraints"], "new fact")
    missing = f"puzzle of the split {split!r}" if is_found else f"goal of {facts}"
    raise ValueError(
        f"No {missing} was found within {_counted(spans['depth'], 'move')}: raise "
        "`depth` or `blocks`, or lower `constraints`. "
        f"Received: {', '.join(f'{k}={v}' for k, v in spans.items())}, {split=}"
    )


def _counted(pair: tuple[int, int], noun: str) -> str:
    """Returns a range as text, such as "1 to 2 moves"."""
    least, most = pair
    number = f"{most}" if least == most else f"{least} to {most}"
    return f"{number} {noun if most == 1 else noun + 's'}"


def _goal(
    boards: Boards, start: int, depth: int, size: int, random: np.random.Generator
) -> list[Fact] | None:
    """Returns `size` new facts of a board `depth` moves away; None if it has fewer."""
    is_start = np.arange(len(boards.boards)) == start
    away = np.flatnonzero(moves_to(boards, is_start, depth) == depth)
    if not len(away):
        return None
    elsewhere = boards.facts[int(random.choice(away))]
    new = sorted(elsewhere - boards.facts[start])
    if len(new) < size:
        return None
    return [new[i] for i in random.choice(len(new), size, replace=False)]


def _puzzle(
    boards: Boards, board: Board, goals: list[list[Fact]], random: np.random.Generator
) -> Puzzle:
    """Builds a puzzle with shuffled goals and a solution for the first of `goals`."""
    letters = [LETTERS[i] for i in random.choice(len(LETTERS), len(goals), False)]
    order = random.permutation(len(goals))
    named = {
        letters[i]: tuple(worded(fact, bool(random.integers(2))) for fact in goals[i])
        for i in order
    }
    return Puzzle(board, named, letters[0], solution(boards, board, goals[0]))


def solution(boards: Boards, board: Board, facts: Sequence[Fact]) -> tuple[int, ...]:
    """Returns a shortest solution; ties are resolved in the order of `MOVES`."""
    left, here = moves_to(boards, goal_boards(boards, facts)), boards.place[board]
    moves = []
    while left[here]:
        moves.append(int(left[boards.moved[here]].argmin()))
        here = boards.moved[here, moves[-1]]
    return tuple(moves)


def goal_boards(boards: Boards, facts: Sequence[Fact]) -> np.ndarray:
    """Returns which boards satisfy all facts, (boards,) bool."""
    columns = [boards.all_facts[fact] for fact in facts]
    return np.asarray(boards.true[:, columns].all(axis=1))


def worded(fact: Fact, turned: bool) -> Constraint:
    """Returns the constraint that states a fact, from either of its blocks."""
    first, relation, second = fact.worded(turned)
    return first, RELATIONS[relation], second


def fact_of(constraint: Constraint) -> Fact:
    """Returns the fact that a constraint states, whichever block comes first."""
    first, relation, second = constraint
    kind, turned = divmod(RELATIONS.index(relation), 2)
    return Fact(kind, second, first) if turned else Fact(kind, first, second)


def _is_of_the_test(board: Board, facts: list[Fact]) -> bool:
    key = repr((board, sorted(map(tuple, facts))))
    return zlib.crc32(key.encode()) % _TEST_SHARE == 0
