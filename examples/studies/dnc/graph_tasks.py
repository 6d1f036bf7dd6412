"""The tasks on graphs: paths in random graphs and on a map, and families."""

from __future__ import annotations

from typing import Any

from keras_attention.datasets import graphs
from studies.dnc.curricula import SHORTEST_PATH, SHORTEST_PATH_SMALL, TRAVERSAL
from studies.dnc.settings import GRAPH, LONG, Task
from studies.dnc.walks import families, on_the_map, walks

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
# Parts of the Underground: the largest zone and the smallest number of lines.
MAPS: dict[str, tuple[float, int]] = {
    "zone 1, 3 lines": (1.0, 3),
    "zone 1, 2 lines": (1.0, 2),
    "zone 1": (1.0, 1),
}
# Some stations of the map have up to ten edges, the nodes of the lessons two to four.
DENSE = graphs.Lesson((8, 25), (2, 8), (1, 8))
FAMILIES: list[dict[str, Any]] = [
    {"people": people, "length": (1, length), "queries": 3, "planning": 5}
    for people, length in (((3, 5), 1), ((5, 9), 2), ((7, 10), 3), ((8, 12), 5))
]

UNDERGROUND = Task(
    "traversal, also of the London Underground, a map that is not in training",
    walks(
        "traversal",
        [*(TRAVERSAL[number - 1] for number in (1, 4, 8, 12)), DENSE],
        (1, 4, 8, 10, 12),
        hinted=True,
        of=TRAVERSAL,
    ),
    "dnc",
    LINEAR,
    {
        **LONG,
        "steps": 200,
        "rounding": 16,
        "bar": 0.95,
        "last_bar": 0.99,
        "slots": [48, 48, 96, 128, 160],
    },
    30,
)

GRAPH_TASKS: dict[str, Task] = {
    "shortest-path": Task(
        "the shortest path between two nodes of a random graph of 8 to 12",
        walks("shortest_path", SHORTEST_PATH_SMALL, (3, 5, 7)),
        "dnc",
        GRAPH,
        {**LONG, "rounding": 12, "bar": 0.7, "last_bar": 0.9},
        60,
    ),
    "traversal": Task(
        "the nodes and edges of a walk, of which the edges are told",
        walks("traversal", TRAVERSAL, (*range(1, 11), 14)),
        "dnc",
        GRAPH,
        {**LONG, "rounding": 16, "bar": 0.95, "last_bar": 0.95},
        60,
    ),
    # A larger initial kernel makes the first lessons shorter; see
    # examples/studies/dnc/trials.md.
    "shortest-path-sparse": Task(
        "shortest-path, its first lessons, with the 8 strongest links of each slot",
        walks("shortest_path", SHORTEST_PATH_SMALL[:3], (2, 3)),
        "dnc",
        {**GRAPH, "links": 8, "kernel_gain": {"rows": 92, "gain": 8}},
        {**LONG, "rounding": 12, "bar": 0.7, "last_bar": 0.95},
        5,
        larger=(128, 256, 1024),
    ),
    "traversal-sparse": Task(
        "traversal, its first lessons, with the 8 strongest links of each slot",
        walks("traversal", TRAVERSAL[:3], (1, 2, 3)),
        "dnc",
        {**GRAPH, "links": 8, "kernel_gain": {"rows": 92, "gain": 8}},
        {**LONG, "rounding": 16, "bar": 0.95, "last_bar": 0.95},
        8,
        larger=(128, 256, 1024),
    ),
    "underground": UNDERGROUND._replace(
        problem=on_the_map(UNDERGROUND.problem, MAPS, 7)
    ),
    "underground-path": Task(
        "the shortest path, also on the London Underground",
        on_the_map(
            walks(
                "shortest_path",
                [SHORTEST_PATH_SMALL[number] for number in (1, 3, 5, 6)]
                + [SHORTEST_PATH[number] for number in (10, 14)],
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
}
