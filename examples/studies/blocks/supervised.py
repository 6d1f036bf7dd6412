"""Puzzles as sequences with shortest solutions, for training with a teacher.

Shapes: N puzzles, T steps of a sequence.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from keras_attention.datasets.blocks import (
    INPUTS,
    PASS,
    Puzzle,
    is_reached,
    moved,
)
from keras_attention.datasets.blocks.boards import Board, all_boards, moves_to
from keras_attention.datasets.blocks.puzzles import fact_of, goal_boards
from keras_attention.datasets.blocks.vectors import ACTIONS, GO, show, tell, told
from keras_attention.datasets.ragged import empty_sequences
from keras_attention.datasets.sizes import check_size


class Verdict(NamedTuple):
    """The results of played puzzles.

    Attributes:
        solved: (N,) bool, True if the last board satisfies the requested goal.
        fewest: (N,) bool, True if the puzzle is solved in the minimum number of moves.
    """

    solved: np.ndarray
    fewest: np.ndarray


class Played(NamedTuple):
    """The output of `play`.

    Attributes:
        moves: The actions of each puzzle, up to the first pass or the last step.
        verdict: Whether the actions solve each puzzle.
        data: The played examples. The inputs contain the boards reached during play,
            and the targets contain the best action on each of them.
    """

    moves: list[tuple[int, ...]]
    verdict: Verdict
    data: dict[str, np.ndarray]


def vectorize(
    puzzles: Sequence[Puzzle], steps: int | None = None
) -> dict[str, np.ndarray]:
    """Turns N puzzles into training arrays.

    Each constraint takes one step: goal letter, block, relation, block. The next step
    contains the go cue and the letter of the requested goal. The answer steps contain
    only the go cue: one step per move, and a final pass. Every step also shows the
    board. During the answer, this is the board after the previous moves.

    Args:
        puzzles: The puzzles.
        steps: T. Defaults to the length of the longest sequence.

    Returns:
        `"inputs"`: (N, T, 97) float32, one-hot: letter (26), block (6), relation (4:
        above, below, left, right), block (6), go cue (1), block on each square (9 times
        6, from the bottom, columns from left to right). `"answer_mask"`: (N, T) bool.
        `"targets"`: (N, T, 7) float32, one-hot actions: the six moves of `MOVES`, and
        pass. `"lengths"`: (N,) int32.

    Raises:
        ValueError: no puzzles, or too few `steps`.

    Example:
        ```python
        data = vectorize(draw_puzzles(count=32, seed=1))
        ```
    """
    if not puzzles:
        raise ValueError("`puzzles` must hold at least one. Received: puzzles=[]")
    begin = np.array([told(puzzle) for puzzle in puzzles])
    lengths = begin + [len(puzzle.moves) + 1 for puzzle in puzzles]
    data = empty_sequences(lengths, INPUTS, ACTIONS, steps)
    inputs, mask, targets, _ = data.values()
    for n, puzzle in enumerate(puzzles):
        tell(puzzle, inputs[n])
        board, at = puzzle.board, begin[n]
        for action in (*puzzle.moves, PASS):
            inputs[n, at, GO] = 1
            show(board, inputs[n, at])
            mask[n, at], targets[n, at, action] = True, 1
            board, at = moved(board, action), at + 1
    return data


def check_moves(puzzles: Sequence[Puzzle], moves: Sequence[Sequence[int]]) -> Verdict:
    """Plays moves and checks whether the requested goals are then satisfied.

    Args:
        puzzles: The puzzles.
        moves: The actions for each puzzle, as indices into `MOVES`; 6 is pass. An
            impossible action leaves the board unchanged and counts as a move.

    Returns:
        `Verdict`.

    Raises:
        ValueError: the numbers of puzzles and of action lists differ, or an action is
            outside 0 to 6.

    Example:
        ```python
        puzzles = draw_puzzles(count=32)
        check_moves(puzzles, [puzzle.moves for puzzle in puzzles]).solved.all()  # True
        ```
    """
    if len(puzzles) != len(moves):
        raise ValueError(
            f"`moves` must be as many as puzzles, {len(puzzles)}. "
            f"Received: len(moves)={len(moves)}"
        )
    solved, fewest = [], []
    for puzzle, actions in zip(puzzles, moves, strict=True):
        board = puzzle.board
        for action in actions:
            if not 0 <= action < ACTIONS:
                raise ValueError(
                    f"`moves` must be from 0 to {PASS}. Received: {action}"
                )
            board = moved(board, action)
        solved.append(is_reached(board, puzzle.goals[puzzle.asked]))
        made = sum(action != PASS for action in actions)
        fewest.append(solved[-1] and made == len(puzzle.moves))
    return Verdict(np.array(solved), np.array(fewest))


def play(
    predict: Callable[[dict[str, np.ndarray]], np.ndarray],
    puzzles: Sequence[Puzzle],
    extra: int = 6,
    steps: int | None = None,
) -> Played:
    """Lets a network play and shows it the resulting board after each move.

    Args:
        predict: Maps `{"inputs": (N, T, 97), "answer_mask": (N, T)}` to (N, T, 7)
            logits, for example a model's `predict`. It must be causal. It is called
            once per answer step, always with the same T.
        puzzles: N puzzles.
        extra: Number of moves allowed beyond the minimum, not counting the final
            action; 6 in the paper.
        steps: T. Defaults to the number of steps that may be needed.

    Returns:
        `Played`.

    Raises:
        ValueError: an `extra` that is negative or not a whole number; no puzzles, or
            too few `steps`.

    Example:
        ```python
        played = play(model.predict, draw_puzzles(count=100, split="test"))
        played.verdict.solved.mean()
        ```
    """
    check_size("extra", extra, least=0)
    if not puzzles:
        raise ValueError("`puzzles` must hold at least one. Received: puzzles=[]")
    begin = np.array([told(puzzle) for puzzle in puzzles])
    most = np.array([len(puzzle.moves) + 1 + extra for puzzle in puzzles])
    data = empty_sequences(begin + most, INPUTS, ACTIONS, steps)
    inputs, mask, targets, _ = data.values()
    for n, puzzle in enumerate(puzzles):
        tell(puzzle, inputs[n])
    boards = [puzzle.board for puzzle in puzzles]
    left = [distance_to(puzzle) for puzzle in puzzles]
    moves: list[tuple[int, ...]] = [()] * len(puzzles)
    for step in range(int(most.max())):
        going = [
            n for n, made in enumerate(moves) if step < most[n] and PASS not in made
        ]
        if not going:
            break
        at = begin + step
        for n in going:
            inputs[n, at[n], GO] = 1
            show(boards[n], inputs[n, at[n]])
            mask[n, at[n]] = True
            best = best_action(left[n], boards[n])
            targets[n, at[n], best] = 1
        scores = np.asarray(predict({"inputs": inputs, "answer_mask": mask}))
        for n in going:
            action = int(scores[n, at[n]].argmax())
            moves[n] = (*moves[n], action)
            boards[n] = moved(boards[n], action)
    lengths = begin + [len(made) for made in moves]
    data["lengths"] = lengths.astype(np.int32)
    return Played(moves, check_moves(puzzles, moves), data)


def distance_to(puzzle: Puzzle) -> np.ndarray:
    """Returns the distance from every board to the requested goal, (boards,) int8."""
    boards = all_boards(sum(map(len, puzzle.board)))
    facts = [fact_of(constraint) for constraint in puzzle.goals[puzzle.asked]]
    return moves_to(boards, goal_boards(boards, facts))


def best_action(left: np.ndarray, board: Board) -> int:
    """Returns the first move of a shortest solution, or pass at the goal.

    `left` is the output of `distance_to`.
    """
    boards = all_boards(sum(map(len, board)))
    here = boards.place[board]
    if left[here] == 0:
        return PASS
    return int(left[boards.moved[here]].argmin())
