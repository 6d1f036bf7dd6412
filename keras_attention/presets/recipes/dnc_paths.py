"""DNCNetwork on routes in random graphs, by the training of the DNC benchmark."""

from __future__ import annotations

from typing import Any

from keras_attention.benchmarks.dnc.graph_tasks import UNDERGROUND
from keras_attention.benchmarks.dnc.networks import network
from keras_attention.benchmarks.dnc.training import train as train_lessons
from keras_attention.benchmarks.dnc.walks import walks
from keras_attention.datasets import graphs

# Nodes, edges that leave a node, and edges of a route.
LESSONS = (
    graphs.TRAVERSAL[0],
    graphs.TRAVERSAL[3],
    graphs.Lesson((5, 15), (2, 4), (1, 6)),
)
SLOTS = [48, 48, 80]  # in each lesson
MINUTES = 8


def train(seed: int, progress: Any = None) -> Any:
    """Trains the network of the benchmark's task "underground" on smaller graphs.

    The training ends when 99 % of the routes of the last lesson's validation are right,
    or after 8 minutes of CPU time.
    """
    problem = walks("traversal", LESSONS, (3,), hinted=True)()
    settings = {**UNDERGROUND.network, "memory_slots": SLOTS[-1]}
    model = network(problem, "dnc", settings, seed)
    training = {**UNDERGROUND.training, "slots": SLOTS}
    train_lessons(problem, model, training, seed, MINUTES, progress)
    return model
