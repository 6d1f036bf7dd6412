"""The curriculum of the graph tasks: increasingly large graphs and long paths.

Graves et al., 2016, Extended Data Tables 3 to 5.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_attention.datasets.choices import check_choice
from keras_attention.datasets.graphs.maps import Graphs
from keras_attention.datasets.graphs.tasks import inference, shortest_path, traversal
from keras_attention.datasets.ragged import Seed, at_least_one


class Lesson(NamedTuple):
    """The ranges that set the difficulty of a task.

    Attributes:
        nodes: Number of nodes per graph.
        degree: Number of edges that leave a node.
        length: Number of edges of a path or a relation.
    """

    nodes: tuple[int, int]
    degree: tuple[int, int]
    length: tuple[int, int]


TRAVERSAL = (
    Lesson((3, 10), (2, 4), (1, 1)),
    Lesson((3, 10), (2, 4), (1, 2)),
    Lesson((5, 10), (2, 4), (1, 3)),
    Lesson((5, 10), (2, 4), (1, 4)),
    Lesson((10, 15), (2, 4), (1, 4)),
    Lesson((10, 15), (2, 4), (1, 5)),
    Lesson((10, 20), (2, 4), (1, 5)),
    Lesson((10, 20), (2, 4), (1, 6)),
    Lesson((10, 30), (2, 4), (1, 6)),
    Lesson((10, 30), (2, 4), (1, 7)),
    Lesson((10, 30), (2, 4), (1, 8)),
    Lesson((10, 30), (2, 4), (1, 9)),
    Lesson((10, 40), (2, 6), (1, 10)),
    Lesson((10, 40), (2, 6), (1, 20)),
)
"""The paper's 14 lessons of traversal; one is done when 90 % of the walks are right."""

SHORTEST_PATH = (
    Lesson((5, 10), (1, 2), (2, 2)),
    Lesson((5, 20), (1, 2), (2, 2)),
    Lesson((10, 20), (1, 2), (2, 2)),
    Lesson((10, 20), (1, 2), (2, 3)),
    Lesson((10, 20), (1, 3), (2, 3)),
    Lesson((10, 20), (2, 3), (2, 3)),
    Lesson((10, 20), (2, 3), (2, 4)),
    Lesson((10, 20), (2, 4), (2, 4)),
    Lesson((10, 25), (2, 4), (2, 4)),
    Lesson((10, 25), (2, 4), (2, 5)),
    Lesson((10, 25), (2, 4), (2, 5)),
    Lesson((15, 25), (2, 4), (2, 5)),
    Lesson((15, 25), (2, 5), (2, 5)),
    Lesson((20, 25), (2, 5), (2, 5)),
    Lesson((20, 25), (2, 6), (2, 5)),
)
"""The paper's 15 lessons of the shortest path; one is done at 80 % of the paths."""

SHORTEST_PATH_SMALL = (
    Lesson((3, 4), (1, 2), (1, 2)),
    Lesson((4, 6), (1, 2), (1, 2)),
    Lesson((4, 6), (1, 3), (2, 2)),
    Lesson((5, 8), (1, 3), (2, 3)),
    Lesson((6, 10), (2, 3), (2, 3)),
    Lesson((8, 12), (2, 3), (2, 3)),
    Lesson((8, 12), (2, 3), (2, 4)),
)
"""Seven lessons of the shortest path that end at 8 to 12 nodes, for a small budget."""

INFERENCE = (
    Lesson((3, 3), (2, 2), (2, 2)),
    Lesson((3, 5), (2, 2), (2, 2)),
    Lesson((4, 6), (2, 4), (2, 2)),
    Lesson((4, 6), (2, 4), (2, 2)),
    Lesson((6, 12), (2, 4), (2, 2)),
    Lesson((12, 18), (2, 4), (2, 2)),
    Lesson((4, 6), (2, 4), (2, 3)),
    Lesson((6, 12), (2, 4), (2, 3)),
    Lesson((12, 18), (2, 4), (2, 3)),
    Lesson((4, 6), (2, 4), (2, 4)),
    Lesson((4, 6), (2, 4), (2, 4)),
    Lesson((6, 12), (2, 4), (2, 4)),
    Lesson((12, 18), (2, 4), (2, 4)),
    Lesson((4, 6), (2, 4), (2, 5)),
    Lesson((6, 12), (2, 4), (2, 5)),
    Lesson((12, 18), (2, 4), (2, 5)),
    Lesson((20, 25), (2, 4), (2, 5)),
)
"""The paper's 17 lessons of inference; one is done at 90 % of the answers."""

_TASKS: dict[str, tuple[Callable[..., dict[str, Any]], tuple[Lesson, ...]]] = {
    "traversal": (traversal, TRAVERSAL),
    "shortest_path": (shortest_path, SHORTEST_PATH),
    "inference": (inference, INFERENCE),
}


def lesson_data(
    task: str,
    lesson: int,
    count: int,
    earlier: float = 0.1,
    lessons: Sequence[Lesson] | None = None,
    seed: Seed = 0,
    steps: int | None = None,
) -> dict[str, Any]:
    """Generates examples of a lesson, mixed with examples of earlier lessons.

    Args:
        task: `"traversal"`, `"shortest_path"` or `"inference"`.
        lesson: Index of the lesson, from 0.
        count: N, the number of examples.
        earlier: Probability that an example comes from an earlier lesson, chosen
            uniformly. The paper uses 0.1. Use 0 for shortest paths, since each of those
            lessons already covers the earlier ones.
        lessons: The lessons of the task. Defaults to those of the paper: `TRAVERSAL`,
            `SHORTEST_PATH` or `INFERENCE`.
        seed: Seed for `numpy.random.default_rng`.
        steps: T. Defaults to the length of the longest sequence.

    Returns:
        The dictionary that the task returns.

    Raises:
        ValueError: unknown `task` or `lesson`, or `earlier` outside 0 to 1.

    Example:
        ```python
        data = lesson_data("traversal", lesson=0, count=32, seed=1)
        ```
    """
    check_choice("task", task, _TASKS, f"one of {[*_TASKS]}")
    make, usual = _TASKS[task]
    lessons = usual if lessons is None else lessons
    at_least_one(count=count)
    if not 0 <= lesson < len(lessons):
        raise ValueError(
            f"`lesson` must be from 0 to {len(lessons) - 1}. Received: {lesson=}"
        )
    if not 0 <= earlier <= 1:
        raise ValueError(f"`earlier` must be from 0 to 1. Received: {earlier=}")
    random = np.random.default_rng(seed)
    which = np.full(count, lesson)
    if lesson:
        past = random.random(count) < earlier
        which[past] = random.integers(0, lesson, past.sum())
    parts = [
        make(int(size), **lessons[number]._asdict(), seed=random)
        for number, size in zip(*np.unique(which, return_counts=True), strict=True)
    ]
    order = random.permutation(count)
    return {key: _joined(key, parts, order, steps) for key in parts[0]}


def _joined(
    key: str, parts: list[dict[str, Any]], order: np.ndarray, steps: int | None
) -> Any:
    """Joins the examples of several lessons and pads them to the longest."""
    if key == "graphs":
        fields = [
            _stacked([part[key][i] for part in parts], -1)
            for i in range(len(Graphs._fields))
        ]
        return Graphs(*fields).take(order)
    values = [part[key] for part in parts]
    if key in ("inputs", "answer_mask", "targets"):
        longest = max(value.shape[1] for value in values)
        if steps is not None and steps < longest:
            raise ValueError(
                f"`steps` must hold the longest sequence, of {longest}. "
                f"Received: steps={steps}"
            )
        width = (steps or longest,)
        return _stacked(values, 0, width)[order]
    return np.concatenate(values)[order]


def _stacked(
    arrays: list[np.ndarray], filling: int, width: tuple[int, ...] | None = None
) -> np.ndarray:
    """Concatenates arrays along the first axis and pads the other axes."""
    shape = np.max([array.shape[1:] for array in arrays], axis=0)
    if width is not None:
        shape[: len(width)] = width
    count = sum(len(array) for array in arrays)
    whole = np.full((count, *shape), filling, arrays[0].dtype)
    first = 0
    for array in arrays:
        place = (slice(first, first + len(array)), *map(slice, array.shape[1:]))
        whole[place] = array
        first += len(array)
    return whole
