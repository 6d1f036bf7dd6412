"""Plays episodes with an agent.

Shapes: B puzzles, K episodes per puzzle, N = B K episodes, T' steps of the constraints,
T steps: the question and the actions, D = 97 inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_attention.datasets import blocks
from keras_attention.datasets.blocks.game import Game, Rewards
from keras_attention.datasets.blocks.puzzles import LETTERS
from keras_attention.datasets.blocks.vectors import ACTIONS, tell, told
from studies.blocks.agent import Agent

LEAST = 64  # a player sees at least so many episodes, unless there are fewer


class Rollout(NamedTuple):
    """Played episodes. Step 0 is the question; the steps after it have actions.

    Attributes:
        told: (B, T', D), the constraints.
        told_mask: (B, T') bool.
        played: (B, K, T, D), the question and the boards. The letter of the question is
            in every step.
        actions: (N, T) integers, 0 where there is no action.
        logs: (N, T), the log probabilities of the actions.
        values: (N, T), the critic's values.
        rewards: (N, T).
        valid: (N, T) bool, True where there is an action.
        met: (N,) bool, whether the goal is met at the end.
        fewest: (N,) bool, whether it is met in the minimum number of moves.
        moves: (N,), the number of moves, without the pass.
    """

    told: np.ndarray
    told_mask: np.ndarray
    played: np.ndarray
    actions: np.ndarray
    logs: np.ndarray
    values: np.ndarray
    rewards: np.ndarray
    valid: np.ndarray
    met: np.ndarray
    fewest: np.ndarray
    moves: np.ndarray


def description(
    puzzles: Sequence[blocks.Puzzle], rounding: int
) -> tuple[np.ndarray, np.ndarray]:
    """Encodes the constraints as `supervised.vectorize` does.

    Args:
        puzzles: B puzzles.
        rounding: T' is a multiple of this number.

    Returns:
        The constraints (B, T', D) and their mask (B, T').
    """
    lengths = np.array([told(puzzle) for puzzle in puzzles]) - 1
    # One row more than needed: `tell` also writes the question.
    steps = -(-int(lengths.max()) // rounding) * rounding
    data = np.zeros((len(puzzles), steps + 1, blocks.INPUTS), np.float32)
    for rows, puzzle in zip(data, puzzles, strict=True):
        tell(puzzle, rows)
    mask = np.arange(steps) < lengths[:, None]
    return np.where(mask[..., None], data[:, :-1], 0), mask


def play(
    agent: Agent,
    puzzles: Sequence[Sequence[blocks.Puzzle]],
    random: np.random.Generator | None,
    extra: int = 6,
    rounding: int = 12,
    rewards: Rewards | None = None,
) -> Rollout:
    """Plays B times K puzzles.

    The agent reads the constraints of K puzzles once, since they differ only in the
    requested goal.

    Args:
        agent: the agent.
        puzzles: B lists of K puzzles.
        random: samples the actions; None for the most probable ones.
        extra: the moves allowed beyond the minimum.
        rounding: T' is a multiple of this number, since a backend may compile for each
            number of steps.
        rewards: see `Game`.
    """
    episodes = len(puzzles[0])
    flat = [puzzle for row in puzzles for puzzle in row]
    constraints, mask = description([row[0] for row in puzzles], rounding)
    state = agent.reader.predict_on_batch({"told": constraints, "told_mask": mask})
    state = [np.repeat(x, episodes, axis=0) for x in _listed(state)]
    game = Game(flat, extra, rewards)
    letters = np.zeros((len(flat), len(LETTERS)), np.float32)
    asked = [LETTERS.index(puzzle.asked) for puzzle in flat]
    letters[np.arange(len(flat)), asked] = 1
    steps = int(game.most.max()) + 1
    data = _empty(len(flat), steps)
    played = np.zeros((len(flat), steps, blocks.INPUTS), np.float32)
    played[:, 0] = game.observe()
    played[:, 0, : len(LETTERS)] = letters
    _, *state = agent.player.predict_on_batch([played[:, :1], *state])
    rows = np.arange(len(flat))  # the episodes that the player still sees
    for step in range(1, steps):
        going = ~game.ended
        if not going.any():
            break
        if going.sum() <= len(rows) / 2 and len(rows) % (2 * LEAST) == 0:
            # Half as many rows are enough; some of them have ended, too.
            kept = np.argsort(~going[rows], kind="stable")[: len(rows) // 2]
            rows, state = rows[kept], [np.asarray(x)[kept] for x in state]
        played[:, step] = game.observe()
        played[:, step, : len(LETTERS)] = letters
        found, *state = agent.player.predict_on_batch(
            [played[rows, step : step + 1], *state]
        )
        scores = np.zeros((len(flat), ACTIONS + 1))
        scores[rows] = np.asarray(found)
        logs = log_softmax(scores[:, :ACTIONS])
        # The maximum of logits plus Gumbel noise is a sample.
        noise = 0 if random is None else random.gumbel(size=logs.shape)
        actions = (logs + noise).argmax(axis=1)
        data["actions"][:, step] = np.where(going, actions, 0)
        data["logs"][:, step] = np.take_along_axis(logs, actions[:, None], 1)[:, 0]
        data["values"][:, step] = scores[:, ACTIONS]
        data["valid"][:, step] = going
        data["rewards"][:, step] = game.step(actions).rewards
    moves = (data["valid"] & (data["actions"] != blocks.PASS)).sum(axis=1)
    met = game.is_met()
    return Rollout(
        told=constraints,
        told_mask=mask,
        played=played.reshape(len(puzzles), episodes, *played.shape[1:]),
        **data,
        met=met,
        fewest=met & (moves == game.fewest),
        moves=moves,
    )


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Returns the logarithms of the softmax over the last axis."""
    scores = scores - scores.max(axis=-1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True)))


def _empty(episodes: int, steps: int) -> dict[str, Any]:
    shape = (episodes, steps)
    return {
        "actions": np.zeros(shape, int),
        "logs": np.zeros(shape),
        "values": np.zeros(shape),
        "rewards": np.zeros(shape),
        "valid": np.zeros(shape, bool),
    }


def _listed(state: Any) -> list[Any]:
    return list(state) if isinstance(state, (list, tuple)) else [state]
