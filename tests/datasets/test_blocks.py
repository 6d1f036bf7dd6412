"""Block puzzles: moves, goals, shortest solutions, splits, sequences, and playing."""

import itertools
from collections import Counter

import numpy as np
import pytest

from keras_attention.datasets import blocks

KINDS = [
    {"goals": 2, "blocks": 3, "constraints": 1, "depth": 1},
    {"goals": (2, 4), "blocks": (3, 5), "constraints": (1, 2), "depth": (1, 3)},
    {"goals": 6, "blocks": 6, "constraints": (2, 4), "depth": (3, 5)},
]


def squares(board):
    """Where each block is: its row from the bottom, and its column."""
    return {
        block: (row, column)
        for column, stack in enumerate(board)
        for row, block in enumerate(stack)
    }


def is_true(board, constraint):
    """What a constraint says, from the squares alone."""
    first, relation, second = constraint
    (row, column), (other_row, other_column) = (
        squares(board)[b] for b in (first, second)
    )
    across = {"above": (1, 0), "below": (-1, 0), "left": (0, -1), "right": (0, 1)}
    return (row - other_row, column - other_column) == across[relation]


def after(board, action):
    """The board after a move, by hand; None where it cannot be made."""
    if action == 6:
        return board
    pairs = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    start, end = pairs[action]
    columns = [list(stack) for stack in board]
    if not columns[start] or len(columns[end]) == 3:
        return None
    columns[end].append(columns[start].pop())
    return tuple(map(tuple, columns))


def fewest_moves(board, goal):
    """By trying everything."""
    boards, seen, moves = {board}, {board}, 0
    while not any(all(is_true(b, c) for c in goal) for b in boards):
        boards = (
            {after(b, action) for b in boards for action in range(6)} - {None} - seen
        )
        seen |= boards
        moves += 1
    return moves


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


def seen_board(row):
    """The board that a step shows."""
    columns = [[], [], []]
    for square, code in enumerate(row[43:].reshape(9, 6)):
        assert code.sum() <= 1
        if code.any():
            assert len(columns[square % 3]) == square // 3  # rests on another
            columns[square % 3].append(int(code.argmax()) + 1)
    return tuple(map(tuple, columns))


def test_sequences_tell_the_whole_puzzle():
    puzzles = blocks.draw_puzzles(30, goals=(2, 5), blocks=(3, 6), seed=5)
    data = blocks.vectorize(puzzles)
    assert data["inputs"].shape[2] == 97
    assert data["targets"].shape[2] == 7
    words = ("above", "below", "left", "right")
    for row, puzzle in enumerate(puzzles):
        length = data["lengths"][row]
        inputs, mask = data["inputs"][row, :length], data["answer_mask"][row]
        assert not data["inputs"][row, length:].any()
        answers = data["targets"][row][mask].argmax(1).tolist()
        assert answers == [*puzzle.moves, blocks.PASS]
        assert not data["targets"][row][~mask].any()
        begin = length - len(answers)
        assert np.flatnonzero(mask).tolist() == list(range(begin, length))
        assert np.flatnonzero(inputs[:, 42]).tolist() == list(range(begin - 1, length))
        goals = {}
        for step in inputs[: begin - 1]:
            assert step[:42].sum() == 4
            letter = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[step[:26].argmax()]
            first, second = (int(step[a : a + 6].argmax()) + 1 for a in (26, 36))
            told = (first, words[step[32:36].argmax()], second)
            goals.setdefault(letter, []).append(told)
            assert seen_board(step) == puzzle.board
        assert goals == {name: [*goal] for name, goal in puzzle.goals.items()}
        asked = inputs[begin - 1]
        assert "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[asked[:26].argmax()] == puzzle.asked
        assert asked[:42].sum() == 1
        board = puzzle.board
        for step, action in zip(inputs[begin:], answers, strict=True):
            assert not step[:42].any()
            assert seen_board(step) == board
            board = after(board, action)
    assert blocks.vectorize(puzzles, steps=70)["inputs"].shape[1] == 70


def test_moves_are_judged():
    puzzles = blocks.draw_puzzles(20, depth=2, seed=6)
    right = [puzzle.moves for puzzle in puzzles]
    verdict = blocks.check_moves(puzzles, right)
    assert verdict.solved.all()
    assert verdict.fewest.all()
    assert not blocks.check_moves(puzzles, [()] * 20).solved.any()
    assert not blocks.check_moves(puzzles, [moves[:-1] for moves in right]).solved.any()
    late = [(blocks.PASS, *moves, blocks.PASS) for moves in right]
    assert blocks.check_moves(puzzles, late).fewest.all()  # to pass is no move
    detour = []
    for puzzle in puzzles:  # a move, and back
        there = next(a for a in range(6) if after(puzzle.board, a))
        start, end = blocks.MOVES[there]
        detour.append((there, blocks.MOVES.index((end, start)), *puzzle.moves))
    verdict = blocks.check_moves(puzzles, detour)
    assert verdict.solved.all()
    assert not verdict.fewest.any()


def test_play():
    puzzles = blocks.draw_puzzles(40, blocks=(3, 4), depth=(1, 3), seed=7)

    def knows(arrays):
        """Reads the board of the last step, and knows the goal."""
        scores = np.zeros((*arrays["answer_mask"].shape, 7))
        for row, mask in enumerate(arrays["answer_mask"]):
            step = np.flatnonzero(mask)[-1]
            board = seen_board(arrays["inputs"][row, step])
            goal = puzzles[row].goals[puzzles[row].asked]
            left = [
                (after(board, a) and fewest_moves(after(board, a), goal))
                for a in range(6)
            ]
            solved = all(is_true(board, constraint) for constraint in goal)
            able = [a for a in range(6) if left[a] is not None]
            best = 6 if solved else min(able, key=left.__getitem__)
            scores[row, step, best] = 1
        return scores

    played = blocks.play(knows, puzzles)
    assert played.verdict.fewest.all()
    assert played.moves == [(*puzzle.moves, blocks.PASS) for puzzle in puzzles]
    plain = blocks.vectorize(puzzles, steps=played.data["inputs"].shape[1])
    for name, array in plain.items():
        np.testing.assert_array_equal(played.data[name], array)
    random = np.random.default_rng(1)
    guessed = blocks.play(
        lambda arrays: random.normal(size=(*arrays["answer_mask"].shape, 7)), puzzles
    )
    assert guessed.verdict.solved.mean() < 0.6
    for row, puzzle in enumerate(puzzles):  # the targets lead back onto the way
        goal = puzzle.goals[puzzle.asked]
        mask = guessed.data["answer_mask"][row]
        assert mask.sum() == len(guessed.moves[row]) <= len(puzzle.moves) + 7
        for step in np.flatnonzero(mask):
            board = seen_board(guessed.data["inputs"][row, step])
            best = guessed.data["targets"][row, step].argmax()
            left = fewest_moves(board, goal)
            if left == 0:
                assert best == blocks.PASS
            else:
                assert fewest_moves(after(board, best), goal) == left - 1


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
        (lambda: blocks.vectorize([]), r"`puzzles` must hold at least one"),
        (
            lambda: blocks.vectorize(blocks.draw_puzzles(2), steps=2),
            r"`steps` must hold the longest sequence",
        ),
        (
            lambda: blocks.check_moves(blocks.draw_puzzles(1), []),
            r"`moves` must be as many as puzzles, 1\. Received: len\(moves\)=0",
        ),
        (
            lambda: blocks.check_moves(blocks.draw_puzzles(1), [[7]]),
            r"`moves` must be from 0 to 6\. Received: 7",
        ),
        (
            lambda: blocks.play(len, blocks.draw_puzzles(1), extra=-1),
            r"`extra` must be a whole number of at least 0\. Received: extra=-1",
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
