"""The network, training and lessons of each task.

Comments name the papers' networks where they are known. The training with Adam, batches
of 4 to 32 and lessons is our own, since the papers' training took days. On one
processor core, the cost of a step grows with its batch size. On bAbI 4 and the shortest
path, networks learned twice as fast with batches of 4 and 8 as with batches of 16 and
32. On block puzzles, they learned faster with batches of 32 than with batches of 8.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from keras_attention.datasets.blocks.puzzles import LETTERS
from studies.dnc.graph_tasks import GRAPH_TASKS
from studies.dnc.joint import STEPS, JointStories
from studies.dnc.problems import Problem, algorithm
from studies.dnc.settings import GRAPH, LONG, TRAINING, Task
from studies.dnc.worlds import Stories, puzzles

SMALL: dict[str, Any] = {
    "units": 100,
    "memory_slots": 64,
    "word_width": 16,
    "read_heads": 1,
}


def _copies(*longest: int) -> Callable[..., Problem]:
    return algorithm(
        "copy",
        [{"length": (1, length)} for length in longest],
        tests={"up to 20": {"length": (1, 20)}, "40": {"length": 40}},
        beyond={"length": 30},
    )


COPY = _copies(5, 10, 20)
SORTS = [
    {"length": length, "answers": answers}
    for length, answers in ((3, 3), (5, 4), (8, 7), (12, 10), (16, 13), (20, 16))
]

# There are only 60 boards with three blocks, so a network memorizes all puzzles with
# them. With a single goal, a network need not read the goal's letter.
PUZZLES: list[dict[str, Any]] = [
    {"goals": (1, 2), "blocks": (3, 6), "constraints": 1, "depth": 1},
    {"goals": (2, 4), "blocks": (3, 6), "constraints": (1, 2), "depth": (1, 2)},
    {"goals": (2, 6), "blocks": (3, 6), "constraints": (1, 2), "depth": (1, 3)},
]

BABI = Task(
    "tasks of bAbI, 10,000 questions each, one network a task",
    Stories,
    "dnc",
    {
        "units": 128,
        "memory_slots": 64,
        "word_width": 32,
        "read_heads": 4,
        "refinements": ["masked_keys", "deallocation"],
        "embedding_dim": 64,
    },
    {
        **TRAINING,
        "rate": 1e-3,
        "batch_size": 4,
        "steps": 400,
        "rounding": 32,
        "bar": 0.8,  # with a higher bar, networks memorize the few first questions
        "last_bar": 0.995,
        "in_a_row": 1,
        "annealed": 0.6,
    },
    45,
)

JOINT = "babi-joint"

TASKS: dict[str, Task] = {
    "copy": Task(
        "copy: trained on 1 to 20 vectors of 8 bits",
        COPY,
        "dnc",
        SMALL,
        TRAINING,
        10,
        larger=(128,),
    ),
    "ntm-copy": Task(
        "copy, by a Neural Turing Machine",
        _copies(20),
        "ntm",
        {**SMALL, "memory_slots": 128, "word_width": 20, "clip": 20.0},
        {**TRAINING, "rate": 1e-3},
        15,
    ),
    "copy-sparse": Task(
        "copy, with the 8 strongest links of each slot",
        COPY,
        "dnc",
        {**SMALL, "links": 8},
        {**TRAINING, "grown": [512, 1024, 2048], "grown_rate": 1e-3, "grown_steps": 50},
        25,
        larger=(4096,),
    ),
    "copy-slots": Task(
        "copy-sparse, tested with other numbers of slots without more training",
        COPY,
        "dnc",
        {**SMALL, "links": 8},
        {**TRAINING, "traced": 40},
        10,
        larger=(256, 1024, 4096),
    ),
    "copy-fewer": Task(
        "copy, trained with 32 slots",
        algorithm(
            "copy",
            [{"length": (1, length)} for length in (5, 10, 20)],
            tests={"up to 20": {"length": (1, 20)}, "40": {"length": 40}},
        ),
        "dnc",
        {**SMALL, "memory_slots": 32},
        {**TRAINING, "traced": 40},
        10,
        larger=(64, 128),
    ),
    "repeat-copy": Task(
        "repeat copy, with the network of the published code",
        algorithm("repeat_copy", [{"length": (1, 2), "repeats": (1, 2)}]),
        "dnc",
        {"units": 64, "memory_slots": 16, "word_width": 16, "read_heads": 4},
        {**TRAINING, "rounding": 9},
        10,
    ),
    "recall": Task(
        "associative recall of 2 to 6 items",
        algorithm("associative_recall", [{"items": (2, n)} for n in (2, 3, 4, 6)]),
        "dnc",
        SMALL,
        {**TRAINING, "rounding": 16},
        15,
    ),
    "sort": Task(
        "priority sort: the 16 highest of 20 vectors",
        algorithm("priority_sort", SORTS),
        "dnc",
        {**SMALL, "units": 128},
        {**TRAINING, "rounding": 10, "bar": 0.93, "last_bar": 0.985},
        20,
    ),
    **GRAPH_TASKS,
    "blocks": Task(
        "block puzzles: the moves that reach the goal asked for",
        puzzles(PUZZLES),
        "dnc",
        {
            **GRAPH,
            "memory_slots": 16,
            "refinements": ["masked_keys", "layer_normalization"],
            "kernel_gain": {"rows": len(LETTERS), "gain": 10},
        },
        {**LONG, "rounding": 4, "batch_size": 32, "bar": 0.85, "last_bar": 0.95},
        60,
    ),
    "babi": BABI,
    "babi-renamed": BABI._replace(
        what="the same, with words exchanged that can stand for each other",
        problem=functools.partial(Stories, renamed=True),
    ),
    "babi-curriculum": BABI._replace(
        what="babi-renamed, after the lessons of task 1",
        problem=functools.partial(Stories, renamed=True, first=1),
        training={**BABI.training, "earlier": 0.2},
        minutes=60,
    ),
    JOINT: Task(
        "all tasks of bAbI, 10,000 questions each, one network; words exchanged",
        JointStories,
        "dnc",
        {
            **BABI.network,
            "refinements": ["masked_keys", "deallocation", "layer_normalization"],
            "bypass_dropout": 0.1,
        },
        {
            **BABI.training,
            "last_rate": 1e-3,
            "batch_size": 8,
            "steps": 1000,
            "rounding": list(STEPS),
            "validation": 32,
            "bar": 0.85,
            "last_bar": 0.9999,
            "annealed": 0.4,
            "starts": [0.0, 0.02, 0.06, 0.2, 0.4],
            "parts": 10,
        },
        1200,
    ),
    "babi-sparse": BABI._replace(
        what="babi, with the 8 strongest links of each slot",
        network={**BABI.network, "links": 8},
        minutes=10,
        larger=(128, 256, 1024),
    ),
}
# The commands that train one network per bAbI task.
STORIES = ("babi", "babi-renamed", "babi-curriculum", "babi-sparse")
# The commands that also test with other numbers of slots, without more training.
RESIZED = (
    "copy-slots",
    "copy-fewer",
    "shortest-path-sparse",
    "traversal-sparse",
    "babi-sparse",
)
