"""Puzzles as sequences, judged and played."""

import numpy as np
import pytest
from block_puzzles import after, fewest_moves, is_true, seen_board

from keras_attention.datasets import blocks
from studies.blocks import supervised

KIND = {"goals": (1, 3), "blocks": (2, 6), "constraints": (1, 2), "depth": (1, 3)}


def test_sequences_tell_the_whole_puzzle():
    puzzles = blocks.draw_puzzles(30, goals=(2, 5), blocks=(3, 6), seed=5)
    data = supervised.vectorize(puzzles)
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
    assert supervised.vectorize(puzzles, steps=70)["inputs"].shape[1] == 70


def test_moves_are_judged():
    puzzles = blocks.draw_puzzles(20, depth=2, seed=6)
    right = [puzzle.moves for puzzle in puzzles]
    verdict = supervised.check_moves(puzzles, right)
    assert verdict.solved.all()
    assert verdict.fewest.all()
    assert not supervised.check_moves(puzzles, [()] * 20).solved.any()
    assert not supervised.check_moves(
        puzzles, [moves[:-1] for moves in right]
    ).solved.any()
    late = [(blocks.PASS, *moves, blocks.PASS) for moves in right]
    assert supervised.check_moves(puzzles, late).fewest.all()  # to pass is no move
    detour = []
    for puzzle in puzzles:  # a move, and back
        there = next(a for a in range(6) if after(puzzle.board, a))
        start, end = blocks.MOVES[there]
        detour.append((there, blocks.MOVES.index((end, start)), *puzzle.moves))
    verdict = supervised.check_moves(puzzles, detour)
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

    played = supervised.play(knows, puzzles)
    assert played.verdict.fewest.all()
    assert played.moves == [(*puzzle.moves, blocks.PASS) for puzzle in puzzles]
    plain = supervised.vectorize(puzzles, steps=played.data["inputs"].shape[1])
    for name, array in plain.items():
        np.testing.assert_array_equal(played.data[name], array)
    random = np.random.default_rng(1)
    guessed = supervised.play(
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


def test_a_game_shows_what_the_sequences_show():
    puzzles = blocks.draw_puzzles(20, **KIND, seed=3)
    data, game = supervised.vectorize(puzzles), blocks.Game(puzzles)
    asked = data["answer_mask"].argmax(axis=1)
    for step in range(max(len(puzzle.moves) for puzzle in puzzles) + 1):
        rows = [n for n, p in enumerate(puzzles) if step <= len(p.moves)]
        shown = data["inputs"][rows, asked[rows] + step]
        np.testing.assert_array_equal(game.observe()[rows], shown)
        moves = [p.moves[step] if step < len(p.moves) else 6 for p in puzzles]
        game.step(np.array(moves))
    assert game.is_met().all()
    assert game.ended.all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: supervised.vectorize([]), r"`puzzles` must hold at least one"),
        (
            lambda: supervised.vectorize(blocks.draw_puzzles(2), steps=2),
            r"`steps` must hold the longest sequence",
        ),
        (
            lambda: supervised.check_moves(blocks.draw_puzzles(1), []),
            r"`moves` must be as many as puzzles, 1\. Received: len\(moves\)=0",
        ),
        (
            lambda: supervised.check_moves(blocks.draw_puzzles(1), [[7]]),
            r"`moves` must be from 0 to 6\. Received: 7",
        ),
        (
            lambda: supervised.play(len, blocks.draw_puzzles(1), extra=-1),
            r"`extra` must be a whole number of at least 0\. Received: extra=-1",
        ),
    ],
)
def test_what_does_not_fit(call, message):
    with pytest.raises(ValueError, match=message):
        call()
