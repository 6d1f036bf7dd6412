"""A simulator of the 20 bAbI tasks that writes the sentences of the real files.

The rules were inferred from the released files. The simulated stories match the files
in sentences, vocabulary, answers, supporting facts and length, but are generated from
other random numbers. Each module holds the tasks that share a world: `supporting_facts`
(1, 2, 3, 6), `paths` (4, 19), `counting` (5, 7, 8), `coreference` (9 to 13),
`time_reasoning` (14), `deduction` (15, 16), `positional_reasoning` (17),
`size_reasoning` (18), `motivations` (20).

Weston et al., 2015, https://arxiv.org/abs/1502.05698, sections 3 and 4.
"""

from collections.abc import Callable, Sequence

import numpy as np

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.simulator import (
    coreference,
    counting,
    deduction,
    motivations,
    paths,
    positional_reasoning,
    size_reasoning,
    supporting_facts,
    time_reasoning,
)
from keras_attention.datasets.babi.simulator.random_source import RandomSource
from keras_attention.datasets.sizes import check_size

__all__ = ["simulate"]

_STORIES: dict[int, Callable[[int, RandomSource], list[Example]]] = {
    **dict.fromkeys((1, 2, 3, 6), supporting_facts.story),
    **dict.fromkeys((4, 19), paths.story),
    **dict.fromkeys((5, 7, 8), counting.story),
    **dict.fromkeys(range(9, 14), coreference.story),
    14: time_reasoning.story,
    **dict.fromkeys((15, 16), deduction.story),
    17: positional_reasoning.story,
    18: size_reasoning.story,
    20: motivations.story,
}


def simulate(
    task: int = 1,
    count: int = 1000,
    seed: int | Sequence[int] | np.random.SeedSequence | np.random.Generator = 0,
) -> list[Example]:
    """Simulates questions of one of the 20 tasks.

    For example, task 1 asks "Where is Mary?" (one supporting fact), task 2 asks "Where
    is the milk?" (two), task 3 asks "Where was the milk before the office?" (three),
    and task 19 asks "How do you go from the kitchen to the garden?".

    Args:
        task: The task number, 1 to 20.
        count: Number of questions. Each story has as many questions as in the real
            files, usually five; the last story may have fewer.
        seed: Seed for `numpy.random.default_rng`. The same seed gives the same
            questions, and a larger `count` only appends more questions.

    Returns:
        A list of `count` `Example`s.

    Raises:
        ValueError: Unknown `task`, or a `count` below 0.

    Example:
        ```python
        examples = simulate(task=2, count=1000, seed=7)
        ```
    """
    if not isinstance(task, int) or isinstance(task, bool) or task not in _STORIES:
        raise ValueError(f"`task` must be from 1 to 20. Received: task={task!r}")
    check_size("count", count, least=0)
    random_source = RandomSource(np.random.default_rng(seed))
    tell = _STORIES[task]
    examples: list[Example] = []
    while len(examples) < count:
        examples.extend(tell(task, random_source))
    return examples[:count]
