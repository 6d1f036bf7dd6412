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
from typing import Any, NamedTuple

from keras_attention.benchmarks.dnc.joint import STEPS, JointStories
from keras_attention.benchmarks.dnc.problems import Problem, algorithm
from keras_attention.benchmarks.dnc.walks import families, on_the_map, walks
from keras_attention.benchmarks.dnc.worlds import Stories, puzzles
from keras_attention.datasets import graphs
from keras_attention.datasets.blocks.puzzles import LETTERS


class Task(NamedTuple):
    """A task of the benchmark.

    Attributes:
        what: a one-line description.
        problem: a function that creates the `Problem`.
        model: the default network, "dnc" or "ntm".
        network: the arguments of the network; see `networks.network`.
        training: the settings of the training; see `training.train`.
        minutes: the maximum training time.
        larger: a larger number of memory slots for a second test, or None.
    """

    what: str
    problem: Callable[..., Problem]
    model: str
    network: dict[str, Any]
    training: dict[str, Any]
    minutes: float
    larger: int | None = None


TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "rate": 2e-3,
    "last_rate": 5e-4,
    "clipnorm": 10.0,
    "batch_size": 16,
    "steps": 200,
    "rounding": 14,
    "validation": 128,
    "tested": 1024,
    "bar": 0.97,
    "last_bar": 0.9995,
    "in_a_row": 2,
    "earlier": 0.0,
    "annealed": 1.0,
    "late": 0.75,
}
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

GRAPH: dict[str, Any] = {
    "units": 128,
    "memory_slots": 64,
    "word_width": 48,
    "read_heads": 4,
    "refinements": ["layer_normalization"],
}
WORLD: dict[str, Any] = {
    **TRAINING,
    "rate": 1e-3,
    "batch_size": 8,
    "steps": 400,
    "tested": 512,
    "in_a_row": 1,
}
LONG: dict[str, Any] = {**WORLD, "earlier": 0.1, "annealed": 0.6}
# A controller with a linear path from its inputs to the interface. At first, each step
# writes to a free slot and frees nothing, and the heads search by content, save the
# last one, which follows the links.
LINEAR: dict[str, Any] = {
    "units": 64,
    "memory_slots": 128,
    "word_width": 80,
    "read_heads": 3,
    "refinements": ["layer_normalization"],
    "with_inputs": True,
    "initial_bias": {
        "read_strengths": 5.0,
        "free_gates": -4.0,
        "allocation_gate": 4.0,
        "write_gate": 4.0,
        # backward, content, forward
        "modes": [[0.0, 1.5, 0.0], [0.0, 1.5, 0.0], [0.0, 0.0, 1.5]],
    },
}
# There are only 60 boards with three blocks, so a network memorizes all puzzles with
# them. With a single goal, a network need not read the goal's letter.
PUZZLES: list[dict[str, Any]] = [
    {"goals": (1, 2), "blocks": (3, 6), "constraints": 1, "depth": 1},
    {"goals": (2, 4), "blocks": (3, 6), "constraints": (1, 2), "depth": (1, 2)},
    {"goals": (2, 6), "blocks": (3, 6), "constraints": (1, 2), "depth": (1, 3)},
]

# Parts of the Underground: the largest zone and the smallest number of lines.
MAPS: dict[str, tuple[float, int]] = {
    "zone 1, 3 lines": (1.0, 3),
    "zone 1, 2 lines": (1.0, 2),
    "zone 1": (1.0, 1),
}
FAMILIES: list[dict[str, Any]] = [
    {"people": people, "length": (1, length), "queries": 3, "planning": 5}
    for people, length in (((3, 5), 1), ((5, 9), 2), ((7, 10), 3), ((8, 12), 5))
]

UNDERGROUND = Task(
    "traversal, also of the London Underground, a map that is not in training",
    walks(
        "traversal",
        [graphs.TRAVERSAL[number - 1] for number in (1, 4, 8, 12)],
        (1, 4, 8, 10, 12),
        hinted=True,
        of=graphs.TRAVERSAL,
    ),
    "dnc",
    LINEAR,
    {
        **LONG,
        "steps": 200,
        "rounding": 16,
        "bar": 0.95,
        "last_bar": 0.97,
        "slots": [48, 48, 96, 128],
    },
    20,
)

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
        larger=128,
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
        larger=4096,
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
    "shortest-path": Task(
        "the shortest path between two nodes of a random graph of 8 to 12",
        walks("shortest_path", graphs.SHORTEST_PATH_SMALL, (3, 5, 7)),
        "dnc",
        GRAPH,
        {**LONG, "rounding": 12, "bar": 0.7, "last_bar": 0.9},
        60,
    ),
    "traversal": Task(
        "the nodes and edges of a walk, of which the edges are told",
        walks("traversal", graphs.TRAVERSAL, (*range(1, 11), 14)),
        "dnc",
        GRAPH,
        {**LONG, "rounding": 16, "bar": 0.95, "last_bar": 0.95},
        60,
    ),
    "underground": UNDERGROUND._replace(
        problem=on_the_map(UNDERGROUND.problem, MAPS, 7)
    ),
    "underground-path": Task(
        "the shortest path, also on the London Underground",
        on_the_map(
            walks(
                "shortest_path",
                [graphs.SHORTEST_PATH_SMALL[number] for number in (1, 3, 5, 6)]
                + [graphs.SHORTEST_PATH[number] for number in (10, 14)],
                (1, 2, 3, 4, 5, 6),
            ),
            MAPS,
            4,
        ),
        "dnc",
        {**LINEAR, "units": 128},
        {
            **LONG,
            "rounding": 16,
            "bar": 0.8,
            "last_bar": 0.9,
            "slots": [32, 32, 64, 64, 96, 128],
        },
        60,
    ),
    "family-tree": Task(
        "the relatives of a person in a random family",
        families(FAMILIES, (10, 16)),
        "dnc",
        {**LINEAR, "units": 128, "memory_slots": 96},
        {
            **LONG,
            "steps": 200,
            "rounding": 16,
            "bar": 0.9,
            "last_bar": 0.97,
            "slots": [64, 64, 64, 96],
        },
        20,
    ),
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
}
# The commands that train one network per bAbI task.
STORIES = ("babi", "babi-renamed", "babi-curriculum")
