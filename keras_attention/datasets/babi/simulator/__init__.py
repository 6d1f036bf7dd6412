"""A simulator of the 20 bAbI tasks, with the sentences of the real files.

The rules were inferred from the released files, which they match in sentences,
vocabulary, answers, supporting facts and length; the random draws are other ones.
A module holds the tasks that share a world: `places` (1, 2, 3, 6), `hands` (5, 7, 8),
`walks` (9 to 13), `times` (14), `kinds` (15, 16), `maps` (4, 19), `shapes` (17),
`sizes` (18), `motives` (20).

Weston et al., 2015, https://arxiv.org/abs/1502.05698, sections 3 and 4.
"""

from collections.abc import Callable, Sequence

import numpy as np

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.simulator import (
    hands,
    kinds,
    maps,
    motives,
    places,
    shapes,
    sizes,
    times,
    walks,
)
from keras_attention.datasets.babi.simulator.dice import Dice

__all__ = ["simulate"]

_STORIES: dict[int, Callable[[int, Dice], list[Example]]] = {
    1: places.story,
    2: places.story,
    3: places.story,
    4: maps.story,
    5: hands.story,
    6: places.story,
    7: hands.story,
    8: hands.story,
    9: walks.story,
    10: walks.story,
    11: walks.story,
    12: walks.story,
    13: walks.story,
    14: times.story,
    15: kinds.story,
    16: kinds.story,
    17: shapes.story,
    18: sizes.story,
    19: maps.story,
    20: motives.story,
}


def simulate(
    task: int = 1,
    count: int = 1000,
    seed: int | Sequence[int] | np.random.SeedSequence | np.random.Generator = 0,
) -> list[Example]:
    """Makes questions of one of the 20 tasks.

    `TASKS` names them: 1 asks "Where is Mary?" (one supporting fact), 2 "Where is
    the milk?" (two), 3 "Where was the milk before the office?" (three), 19 "How do
    you go from the kitchen to the garden?", and so on.

    Args:
        task: From 1 to 20.
        count: How many questions. Stories have as many as in the real files, five
            most often; the last may have fewer.
        seed: A seed of `numpy.random.default_rng`. A seed gives the same questions
            each time, and the first ones of a greater `count`.

    Returns:
        A list of `count` `Example`s.

    Raises:
        ValueError: Another `task`, or a `count` below 0.

    Example:
        ```python
        examples = simulate(task=2, count=1000, seed=7)
        ```
    """
    if not isinstance(task, int) or isinstance(task, bool) or task not in _STORIES:
        raise ValueError(f"`task` must be from 1 to 20. Received: task={task!r}")
    if not isinstance(count, int) or count < 0:
        raise ValueError(
            f"`count` must be a whole number of at least 0. Received: count={count!r}"
        )
    dice = Dice(np.random.default_rng(seed))
    tell = _STORIES[task]
    examples: list[Example] = []
    while len(examples) < count:
        examples.extend(tell(task, dice))
    return examples[:count]
