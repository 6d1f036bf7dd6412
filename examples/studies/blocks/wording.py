"""The same puzzles in other words: other numbers, letters, wordings and requests."""

from collections.abc import Sequence

import numpy as np

from keras_attention.datasets.blocks import Puzzle
from keras_attention.datasets.blocks.boards import all_boards
from keras_attention.datasets.blocks.puzzles import (
    LETTERS,
    Constraint,
    fact_of,
    solution,
    worded,
)
from keras_attention.datasets.choices import check_choice
from keras_attention.datasets.ragged import Seed


def renamed(puzzle: Puzzle, seed: Seed = 0) -> Puzzle:
    """Rewords a puzzle; the solution stays the same.

    Blocks get new numbers, goals get new letters and a new order, and each constraint
    is stated from the perspective of one of its two blocks, chosen at random. A
    training puzzle may become a test puzzle; see `is_of_the_test`.

    Args:
        puzzle: The puzzle.
        seed: A seed of `numpy.random.default_rng`, or a generator.

    Returns:
        `Puzzle`.

    Example:
        ```python
        puzzle = draw_puzzles(count=1)[0]
        renamed(puzzle, seed=1).moves == puzzle.moves  # True
        ```
    """
    return renamed_together([puzzle], seed)[0]


def renamed_together(puzzles: Sequence[Puzzle], seed: Seed = 0) -> list[Puzzle]:
    """Rewords puzzles that differ only in the requested goal, all in the same way.

    Args:
        puzzles: At least one puzzle. Their boards and goals must be the same.
        seed: A seed of `numpy.random.default_rng`, or a generator.

    Returns:
        The puzzles, see `renamed`.

    Raises:
        ValueError: no puzzles, or other boards or goals.
    """
    if not puzzles or any(
        (other.board, other.goals) != (puzzles[0].board, puzzles[0].goals)
        for other in puzzles
    ):
        raise ValueError(
            "`puzzles` must hold puzzles with the same board and goals. "
            f"Received: {puzzles=}"
        )
    random, first = np.random.default_rng(seed), puzzles[0]
    number = [0, *(1 + random.permutation(sum(map(len, first.board)))).tolist()]
    first = _renumbered(first, number)
    letters = [LETTERS[i] for i in random.choice(len(LETTERS), len(first.goals), False)]
    letter = dict(zip(first.goals, letters, strict=True))

    def told(constraint: Constraint) -> Constraint:
        return worded(fact_of(constraint), bool(random.integers(2)))

    order = [*first.goals]
    random.shuffle(order)
    goals = {letter[goal]: tuple(map(told, first.goals[goal])) for goal in order}
    return [
        Puzzle(first.board, goals, letter[puzzle.asked], puzzle.moves)
        for puzzle in puzzles
    ]


def numbered_by_place(puzzle: Puzzle) -> Puzzle:
    """Numbers the blocks by their places on the board; the solution stays the same.

    The blocks get the numbers 1, 2, … column by column from the left, and in each
    column from the bottom. Puzzles that differ only in the numbers become equal.

    Args:
        puzzle: The puzzle.

    Returns:
        `Puzzle`.

    Example:
        ```python
        numbered_by_place(draw_puzzles(count=1)[0]).board  # such as ((1, 2), (), (3,))
        ```
    """
    order = [block for column in puzzle.board for block in column]
    number = [0] * (len(order) + 1)
    for place, block in enumerate(order, 1):
        number[block] = place
    return _renumbered(puzzle, number)


def asking(puzzle: Puzzle, letter: str) -> Puzzle:
    """Returns the same puzzle with another requested goal, and its solution.

    Args:
        puzzle: The puzzle.
        letter: The letter of one of its goals.

    Raises:
        ValueError: the puzzle has no goal of this letter.

    Example:
        ```python
        puzzle = draw_puzzles(count=1)[0]
        others = [asking(puzzle, letter) for letter in puzzle.goals]
        ```
    """
    check_choice("letter", letter, puzzle.goals, f"one of {[*puzzle.goals]}")
    if letter == puzzle.asked:
        return puzzle
    facts = [fact_of(constraint) for constraint in puzzle.goals[letter]]
    boards = all_boards(sum(map(len, puzzle.board)))
    moves = solution(boards, puzzle.board, facts)
    return puzzle._replace(asked=letter, moves=moves)


def _renumbered(puzzle: Puzzle, number: Sequence[int]) -> Puzzle:
    """Gives each block the number `number[block]`."""

    def told(constraint: Constraint) -> Constraint:
        first, relation, second = constraint
        return number[first], relation, number[second]

    return puzzle._replace(
        board=tuple(tuple(number[b] for b in column) for column in puzzle.board),
        goals={letter: tuple(map(told, goal)) for letter, goal in puzzle.goals.items()},
    )
