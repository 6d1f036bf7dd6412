"""DNCNetwork on routes in random graphs, by the training of the DNC benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.benchmarks.dnc.graph_tasks import UNDERGROUND
from keras_attention.benchmarks.dnc.networks import network
from keras_attention.benchmarks.dnc.training import train as train_lessons
from keras_attention.benchmarks.dnc.walks import walks
from keras_attention.datasets import graphs
from keras_attention.presets.preprocessors import RoutePreprocessor
from keras_attention.presets.recipe import Recipe

# Nodes, edges that leave a node, and edges of a route.
LESSONS = (
    graphs.TRAVERSAL[0],
    graphs.TRAVERSAL[3],
    graphs.Lesson((5, 15), (2, 4), (1, 6)),
)
SLOTS = [48, 48, 80]  # in each lesson
MINUTES = 8
TESTED, TEST_SEED = 500, (99, 1)


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
    (_, places), (_, degree), (_, length) = LESSONS[-1]
    model.preprocessor = RoutePreprocessor(places * degree, length)
    return model


def measure(model: Any) -> dict[str, float]:
    """Returns the shares of right routes and places in 500 new graphs, in percent."""
    tools = model.preprocessor
    random = np.random.default_rng(TEST_SEED)
    data = graphs.traversal(TESTED, **LESSONS[-1]._asdict(), seed=random)
    steps = tools.max_edges + 2 * tools.max_length
    steps += -steps % 16
    inputs = np.zeros((TESTED, steps, data["inputs"].shape[-1]), np.float32)
    answer_mask = np.zeros((TESTED, steps), bool)
    edges, routes = [], []
    for n in range(TESTED):
        triples = random.permutation(data["graphs"].triples(n)).astype(str)
        edges.append([tuple(names) for names in triples.tolist()])
        route = graphs.decode(data["targets"][n][data["answer_mask"][n]]).astype(str)
        routes.append(route.tolist())
        question = [routes[n][0][0], *(line for _, line, _ in routes[n])]
        made = tools.encode(edges[n], question)
        length = made["answer_mask"].shape[1]
        inputs[n, :length], answer_mask[n, :length] = (
            made["inputs"][0],
            made["answer_mask"][0],
        )
    logits = model.predict(
        {"inputs": inputs, "answer_mask": answer_mask}, batch_size=50, verbose=0
    )
    right = [
        np.array(tools.decode(logits[n][answer_mask[n]], edges[n]))
        == [end for *_, end in routes[n]]
        for n in range(TESTED)
    ]
    return {
        "routes right %": _percent([one.all() for one in right]),
        "places right %": _percent(np.concatenate(right)),
    }


def _percent(right: Any) -> float:
    return round(100 * float(np.mean(right)), 2)


RECIPE = Recipe(
    what="Follows a route: reads the edges of a graph into its memory, then a place "
    "and the lines to take, and writes the places that they lead to.",
    data="Random graphs of 3 to 15 places with 2 to 4 edges from each, and routes of 1 "
    "to 6 edges (datasets.graphs.traversal).",
    licence="Simulated by this package: Apache 2.0",
    limits="It reads up to 60 edges and follows up to 6 lines. An edge leads in one "
    "direction, and a line leaves a place once. It names a place for each line, also "
    "if the line does not leave the place. It searches no paths. Another training ends "
    "at another step, since its time is limited.",
    use='model.answer(["Bank | east | Tower", "Tower | north | Park"], '
    '"Bank | east | north")',
    train=train,
    measure=measure,
    seed=1,
)
