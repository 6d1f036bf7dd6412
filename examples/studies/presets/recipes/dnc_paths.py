"""DNCNetwork on routes in random graphs, by the training of the DNC benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.datasets import graphs
from keras_attention.presets.preprocessors import RoutePreprocessor
from studies.dnc import graph_tasks
from studies.dnc.networks import network
from studies.dnc.training import train as train_lessons
from studies.presets.recipe import Recipe

MAX_LENGTH = graph_tasks.DENSE.length[1]  # edges of a route in training
# Places, edges that leave a place, and edges of a route, in the test.
TEST = graphs.Lesson((8, 20), (2, 5), (1, MAX_LENGTH))
TESTED, TEST_SEED = 200, (99, 1)


def train(seed: int) -> Any:
    """Trains as `python examples/studies/dnc underground` does.

    The training ends when 99 % of the routes of the last lesson's validation are right,
    or after 30 minutes of CPU time.
    """
    task = graph_tasks.UNDERGROUND
    problem = task.problem()
    model = network(problem, task.model, task.network, seed)
    train_lessons(problem, model, task.training, seed, task.minutes)
    model.preprocessor = preprocessor(model)
    return model


def preprocessor(model: Any) -> RoutePreprocessor:
    """Returns the preprocessor of a network; the memory holds each step."""
    return RoutePreprocessor(model.cell.memory_slots - 2 * MAX_LENGTH, MAX_LENGTH)


def measure(model: Any) -> dict[str, float]:
    """Returns the shares of right routes and places in 200 new graphs, in percent."""
    tools = model.preprocessor
    random = np.random.default_rng(TEST_SEED)
    data = graphs.traversal(TESTED, **TEST._asdict(), seed=random)
    steps = tools.max_edges + 2 * tools.max_length
    steps += -steps % 16
    inputs = np.zeros((TESTED, steps, data["inputs"].shape[-1]), np.float32)
    answer_mask = np.zeros((TESTED, steps), bool)
    edges, routes, plain = [], [], []
    for n in range(TESTED):
        triples = random.permutation(data["graphs"].triples(n)).astype(str)
        edges.append([tuple(names) for names in triples.tolist()])
        route = graphs.decode(data["targets"][n][data["answer_mask"][n]]).astype(str)
        routes.append(route.tolist())
        question = [routes[n][0][0], *(line for _, line, _ in routes[n])]
        table, place = {(a, line): b for a, line, b in edges[n]}, question[0]
        for line, (*_, end) in zip(question[1:], routes[n]):
            place = table[place, line]
            plain.append(place == end)
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
        "baseline places right %": _percent(plain),
    }


def _percent(right: Any) -> float:
    return round(100 * float(np.mean(right)), 2)


RECIPE = Recipe(
    what="Follows a route: reads the edges of a graph, then a place and the lines to "
    "take from there, and writes the places that these lines lead to.",
    data="Random graphs of 3 to 30 places with 2 to 8 edges from each place, and "
    "routes of 1 to 9 edges (datasets.graphs.traversal), as in the benchmark task "
    "`underground`. The network is the one that `python examples/studies/dnc "
    "underground --seeds 0` trains.",
    licence="Simulated by this package: Apache 2.0",
    limits="It reads up to 112 edges and follows up to 8 lines. An edge leads in one "
    "direction, and a line leaves a place at most once. For each line, the network "
    "names a place, even if the line does not leave the previous place. It does not "
    "search for paths: you name the lines. The training stops after 30 minutes of CPU "
    "time, so another machine stops at another step, with other weights.",
    baseline="a loop over a dict that maps a place and a line to the next place",
    use='model.answer(["Bank | east | Tower", "Tower | north | Park"], '
    '"Bank | east | north")',
    train=train,
    measure=measure,
)
