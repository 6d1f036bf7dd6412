"""Tests trained networks on new sequences."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.models import DNCNetwork
from studies.dnc.problems import Problem

SLOTS = 64  # larger memories of tests have a multiple of this number of slots


def tested(
    problem: Problem,
    model: keras.Model,
    seed: int,
    count: int,
    batch_size: int,
    enough_slots: bool,
) -> dict[str, dict[str, float]]:
    """Returns the scores of each test, by the test's name.

    With `enough_slots`, a memory with fewer slots than the steps of the longest
    sequence is replaced by one with more, in multiples of `SLOTS`.
    """
    found = {}
    for name, lesson in problem.tests.items():
        data = problem.draw(lesson, count, [seed], "test")
        used, more = model, {}
        if enough_slots and isinstance(model, DNCNetwork):
            steps = data["inputs"].shape[1]
            if steps > model.cell.memory_slots:
                slots = -(-steps // SLOTS) * SLOTS
                used, more = model.resized(slots), {"slots": slots}
        scores = problem.score(used, data, batch_size)
        found[name] = {
            "sequences tested": len(data["lengths"]),
            **more,
            **{which: round(score, 5) for which, score in scores.items()},
        }
    return found


def tested_larger(
    problem: Problem, model: Any, seed: int, training: dict[str, Any], after: str
) -> dict[str, dict[str, float]]:
    """Returns the test scores of a network with another number of memory slots."""
    slots = model.cell.memory_slots
    count = training["tested"] // (4 if slots < 1000 else 16)
    scores = tested(problem, model, seed, count, 8, False)
    return {f"{name}, {slots} slots{after}": score for name, score in scores.items()}
