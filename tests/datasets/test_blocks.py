"""Block puzzles: moves, goals, shortest solutions, and splits."""

import itertools
from collections import Counter

import numpy as np
import pytest
from block_puzzles import after, fewest_moves, is_true, squares

from keras_attention.datasets import blocks

KINDS = [
    {"goals": 2, "blocks": 3, "constraints": 1, "depth": 1},
    {"goals": (2, 4), "blocks": (3, 5), "constraints": (1, 2), "depth": (1, 3)},
    {"goals": 6, "blocks": 6, "constraints": (2, 4), "depth": (3, 5)},
]


def test_moves():
    board = ((1, 2), (), (3, 4, 5))
    assert blocks.moved(board, blocks.MOVES.index((0, 1))) == ((1,), (2,), (3, 4, 5))
    assert blocks.moved(board, blocks.MOVES.index((1, 0))) == board  # nothing to move
    assert blocks.moved(board, blocks.MOVES.index((0, 2))) == board  # no room
    assert blocks.moved(board, blocks.PASS) == board
    assert len(blocks.MOVES) == blocks.PASS == 6


@pytest.mark.parametrize("kind", KINDS)
def test_puzzles(kind):
    puzzles = blocks.draw_puzzles(40, **kind, seed=1)
    spans = {k: (v, v) if isinstance(v, int) else v for k, v in kind.items()}
    for puzzle in puzzles:
        placed = squares(puzzle.board)
        assert sorted(placed) == list(range(1, len(placed) + 1))
        assert spans["blocks"][0] <= len(placed) <= spans["blocks"][1]
        assert max(map(len, puzzle.board)) <= 3
        low, high = spans["goals"]
        assert low <= len(puzzle.goals) <= high
        assert puzzle.asked in puzzle.goals
        for letter, goal in puzzle.goals.items():
            assert letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
            low, high = spans["constraints"]
            assert low <= len(goal) <= high
            pairs = {frozenset((first, second)) for first, _, second in goal}
            assert len(pairs) == len(goal)  # nothing is said twice
            for constraint in goal:
                assert not is_true(puzzle.board, constraint)  # nothing is so already
        goal = puzzle.goals[puzzle.asked]
        board = puzzle.board
        for action in puzzle.moves:
            assert not blocks.is_reached(board, goal)
            board = after(board, action)
        assert all(is_true(board, constraint) for constraint in goal)
        assert blocks.is_reached(board, goal)
        assert len(puzzle.moves) == fewest_moves(puzzle.board, goal)
        assert 1 <= len(puzzle.moves) <= spans["depth"][1]
    words = Counter(c[1] for p in puzzles for goal in p.goals.values() for c in goal)
    assert set(words) == {"above", "below", "left", "right"}


def test_of_the_shortest_solutions_the_first_is_taken():
    for puzzle in blocks.draw_puzzles(30, blocks=3, depth=(2, 3), seed=2):
        goal = puzzle.goals[puzzle.asked]
        solutions = []
        for moves in itertools.product(range(6), repeat=len(puzzle.moves)):
            board = puzzle.board
            for action in moves:
                board = board and after(board, action)
            if board and all(is_true(board, constraint) for constraint in goal):
                solutions.append(moves)
        assert puzzle.moves == min(solutions)


def key(puzzle):
    """A board and what is asked of it, however it is said."""
    turned = {"below": "above", "right": "left"}
    asked = puzzle.goals[puzzle.asked]
    facts = [(c, turned[r], a) if r in turned else (a, r, c) for a, r, c in asked]
    return puzzle.board, frozenset(facts)


@pytest.mark.slow
def test_no_puzzle_is_both_trained_and_tested():
    kind = {"goals": 2, "blocks": 3, "constraints": 1, "depth": (1, 2)}
    train = {key(p) for p in blocks.draw_puzzles(1500, **kind, seed=1)}
    test = {key(p) for p in blocks.draw_puzzles(150, **kind, split="test", seed=2)}
    every = {key(p) for p in blocks.draw_puzzles(1500, **kind, split="all", seed=3)}
    assert not train & test
    assert len(test & every) > 10
    assert len(train & every) > 100
    tested = [blocks.is_of_the_test(p) for p in blocks.draw_puzzles(900, split="all")]
    assert 0.05 < np.mean(tested) < 0.15
    for split, wanted in (("train", False), ("test", True)):
        drawn = blocks.draw_puzzles(20, split=split, seed=4)
        assert {blocks.is_of_the_test(puzzle) for puzzle in drawn} == {wanted}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: blocks.draw_puzzles(1, blocks=7),
            r"`blocks` must be at most 6\. Received: blocks=7",
        ),
        (
            lambda: blocks.draw_puzzles(1, goals=(2, 27)),
            r"`goals` must be at most 26\. Received: goals=\(2, 27\)",
        ),
        (
            lambda: blocks.draw_puzzles(1, depth=0),
            r"`depth` must be a number of at lea",
        ),
        (lambda: blocks.draw_puzzles(0), r"`count` must be at least 1"),
        (
            lambda: blocks.draw_puzzles(1, split="valid"),
            r"`split` must be 'train', 'test' or 'all'\. Received: split='valid'",
        ),
        (
            lambda: blocks.draw_puzzles(1, blocks=3, constraints=6),
            r"^No goal of 6 new facts was found within 1 to 2 moves: raise `depth` or "
            r"`blocks`, or lower `constraints`\. .* constraints=\(6, 6\)",
        ),
        (
            lambda: blocks.draw_puzzles(1, blocks=1, constraints=1, depth=1),
            "^No goal of 1 new fact was found within 1 move: raise",
        ),
    ],
)
def test_what_does_not_fit(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_same_by_seed():
    one, same, other = (blocks.draw_puzzles(9, seed=s) for s in (1, 1, 2))
    assert one == same
    assert one != other
