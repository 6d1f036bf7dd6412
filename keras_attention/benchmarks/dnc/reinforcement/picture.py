"""The picture of a puzzle that a DNC plays, with what its memory holds and reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.benchmarks.dnc.reinforcement.agent import Agent
from keras_attention.benchmarks.dnc.reinforcement.rollouts import play
from keras_attention.benchmarks.dnc.reinforcement.testing import EXTRA
from keras_attention.datasets import blocks
from keras_attention.datasets.blocks.boards import action_name
from keras_attention.datasets.blocks.puzzles import numbered_by_place
from keras_attention.visualization import plot_puzzle
from keras_attention.visualization.memory import origins

KIND = {"goals": 3, "blocks": 6, "constraints": 3, "depth": 3}


def picture(agent: Agent, by_place: bool, seed: int = 0) -> Any:
    """Draws a test puzzle that the agent plays.

    Args:
        agent: a DNC.
        by_place: whether it was trained with blocks numbered by their places.
        seed: the seed of the puzzle.

    Returns:
        The `matplotlib.figure.Figure` of `plot_puzzle`.
    """
    puzzle = blocks.draw_puzzles(1, **KIND, split="test", seed=seed)[0]
    shown = numbered_by_place(puzzle) if by_place else puzzle
    rollout = play(agent, [[shown]], None, EXTRA, 1)
    told = rollout.told[0][rollout.told_mask[0]]  # (C, D)
    actions = rollout.actions[0][rollout.valid[0]]
    x = np.concatenate([told, rollout.played[0, 0, : len(actions) + 1]])
    trace: Any = agent.trunk.trace(agent.encoder(x[None]))
    writes = trace.write_weights[0].sum(axis=1)  # (T, M)
    heads = trace.read_weights.shape[2]
    read = [origins(writes, trace.read_weights[0, :, head]) for head in range(heads)]
    first, count = len(told) + 1, len(told)
    boards = [puzzle.board]
    for action in actions[:-1]:
        boards.append(blocks.moved(boards[-1], int(action)))
    # The labels state the constraints with the numbers of the puzzle as it was drawn.
    labels = [
        (letter, f"{letter}: {a} {relation} {b}")
        for letter, goal in puzzle.goals.items()
        for a, relation, b in goal
    ]
    return plot_puzzle(
        boards,
        [text for _, text in labels],
        writes[:count],
        np.mean(read, axis=0)[first:, :count],
        [action_name(int(action)) for action in actions],
        [letter == puzzle.asked for letter, _ in labels],
        title=f"Goal {puzzle.asked} is requested and "
        f"{'met' if rollout.met[0] else 'not met'}; "
        f"the minimum is {len(puzzle.moves)} moves",
    )
