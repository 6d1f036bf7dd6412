"""A puzzle that a DNC plays, with what its memory holds and reads, for a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.datasets import blocks
from keras_attention.datasets.blocks.boards import MOVES, PASS
from keras_attention.visualization.memory import origins
from studies.blocks.agent import Agent
from studies.blocks.rollouts import play
from studies.blocks.testing import EXTRA
from studies.blocks.wording import numbered_by_place

KIND = {"goals": 3, "blocks": 6, "constraints": 3, "depth": 3}


def picture(agent: Agent, by_place: bool, seed: int = 0) -> dict[str, Any]:
    """Plays a test puzzle and returns what `plot_puzzle` draws of it.

    Args:
        agent: a DNC.
        by_place: whether it was trained with blocks numbered by their places.
        seed: the seed of the puzzle.

    Returns:
        "arguments" and "more", the positional and the named arguments of
        `plot_puzzle`, as lists.
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
    arguments = [
        [[list(column) for column in board] for board in boards],
        [text for _, text in labels],
        writes[:count].astype("float64").round(2).tolist(),
        np.mean(read, axis=0)[first:, :count].round(2).tolist(),
    ]
    more = {
        "actions": [action_name(int(action)) for action in actions],
        "asked": [letter == puzzle.asked for letter, _ in labels],
        "title": f"Goal {puzzle.asked} is requested and "
        f"{'met' if rollout.met[0] else 'not met'}; "
        f"the minimum is {len(puzzle.moves)} moves",
    }
    return {"arguments": arguments, "more": more}


def action_name(action: int) -> str:
    """Returns an action in words, such as "left to right" or "pass"."""
    if action == PASS:
        return "pass"
    names = "left", "middle", "right"
    start, end = MOVES[action]
    return f"{names[start]} to {names[end]}"
