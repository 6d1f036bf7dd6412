"""The curricula of the graph tasks: increasingly large graphs and long paths.

Graves et al., 2016, Extended Data Tables 3 and 4.
"""

from keras_attention.datasets.graphs import Lesson

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
