"""Encodes puzzles as the inputs of a network."""

import numpy as np

from keras_attention.datasets.blocks.boards import (
    MOST_BLOCKS,
    MOVES,
    RELATIONS,
    SIZE,
    Board,
)
from keras_attention.datasets.blocks.puzzles import LETTERS, Puzzle

ACTIONS = len(MOVES) + 1
FIRST = len(LETTERS)  # the channels: letter, block, relation, block, go, squares
_RELATION = FIRST + MOST_BLOCKS
_SECOND = _RELATION + len(RELATIONS)
GO = _SECOND + MOST_BLOCKS
SQUARES = GO + 1
INPUTS = SQUARES + SIZE * SIZE * MOST_BLOCKS  # 97


def told(puzzle: Puzzle) -> int:
    """Returns the number of steps for the constraints and the question."""
    return sum(map(len, puzzle.goals.values())) + 1


def tell(puzzle: Puzzle, inputs: np.ndarray) -> None:
    """Writes the goals and the question into (T, 97) inputs."""
    step = 0
    for letter, constraints in puzzle.goals.items():
        for first, relation, second in constraints:
            row = inputs[step]
            row[LETTERS.index(letter)] = 1
            row[FIRST + first - 1] = 1
            row[_RELATION + RELATIONS.index(relation)] = 1
            row[_SECOND + second - 1] = 1
            show(puzzle.board, row)
            step += 1
    inputs[step, [LETTERS.index(puzzle.asked), GO]] = 1
    show(puzzle.board, inputs[step])


def show(board: Board, row: np.ndarray) -> None:
    """Writes the board into (97,) inputs."""
    for column, blocks in enumerate(board):
        for height, block in enumerate(blocks):
            square = SIZE * height + column
            row[SQUARES + MOST_BLOCKS * square + block - 1] = 1
