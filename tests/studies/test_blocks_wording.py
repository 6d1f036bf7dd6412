"""Puzzles in other words keep their solutions."""

import numpy as np
import pytest

from keras_attention.datasets import blocks
from studies.blocks import supervised, wording

KIND = {"goals": (2, 4), "blocks": (3, 5), "constraints": (1, 2), "depth": (1, 3)}


def key(puzzle):
    """A board and what is asked of it, however it is said."""
    turned = {"below": "above", "right": "left"}
    asked = puzzle.goals[puzzle.asked]
    facts = [(c, turned[r], a) if r in turned else (a, r, c) for a, r, c in asked]
    return puzzle.board, frozenset(facts)


def test_a_puzzle_in_other_words_has_the_same_solution():
    random, boards, letters, orders = np.random.default_rng(7), set(), set(), set()
    for puzzle in blocks.draw_puzzles(40, **KIND, seed=5):
        told = wording.renamed(puzzle, random)
        assert [*map(len, told.board)] == [*map(len, puzzle.board)]
        number = dict(zip(sum(puzzle.board, ()), sum(told.board, ()), strict=True))
        assert {*number} == {*number.values()} == {*range(1, len(number) + 1)}
        assert told.moves == puzzle.moves
        assert supervised.check_moves([told], [told.moves]).fewest.all()
        renumbered = {
            name: frozenset((number[a], r, number[b]) for a, r, b in goal)
            for name, goal in puzzle.goals.items()
        }
        facts = [key(told._replace(asked=name))[1] for name in told.goals]
        assert key(told)[1] == key(puzzle._replace(goals=renumbered))[1]
        before = [
            key(puzzle._replace(goals=renumbered, asked=g))[1] for g in puzzle.goals
        ]
        assert sorted(map(sorted, facts)) == sorted(map(sorted, before))
        orders.add(tuple(map(facts.index, before)))
        boards.add((puzzle.board, told.board))
        letters |= {*told.goals}
    assert len(letters) == 26
    assert len(orders) > 6
    assert any(old != new for old, new in boards)
    puzzle = blocks.draw_puzzles(1, seed=5)[0]
    assert wording.renamed(puzzle, 3) == wording.renamed(puzzle, 3)


def test_another_goal_of_the_same_puzzle():
    for puzzle in blocks.draw_puzzles(20, **KIND, seed=4):
        for letter in puzzle.goals:
            other = wording.asking(puzzle, letter)
            assert (other.board, other.goals) == (puzzle.board, puzzle.goals)
            assert other.asked == letter
            assert supervised.check_moves([other], [other.moves]).fewest.all()
        assert wording.asking(puzzle, puzzle.asked) == puzzle
    with pytest.raises(ValueError, match=r"`letter` must be one of .*Received"):
        wording.asking(puzzle, "?")


def test_blocks_numbered_by_place():
    for puzzle in blocks.draw_puzzles(20, **KIND, seed=6):
        found = wording.numbered_by_place(puzzle)
        order = [block for column in found.board for block in column]
        assert order == sorted(order)
        assert [*map(len, found.board)] == [*map(len, puzzle.board)]
        assert supervised.check_moves([found], [puzzle.moves]).fewest.all()
        assert (
            wording.numbered_by_place(wording.renamed(puzzle, 1)).board == found.board
        )
