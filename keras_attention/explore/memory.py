"""The view of a DNC that finds paths: its memory step by step.

Shapes: T steps, M memory slots.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.datasets import graphs
from keras_attention.datasets.graphs.maps import NONE
from keras_attention.explore import texts
from keras_attention.explore.networks import network
from keras_attention.visualization import View, memory_view

PRESET = "dnc_paths"
NODES, DEGREE, PLANNING = (4, 6), (1, 2), 4
LENGTHS = (1, 2, 3)
GRAPHS = 200  # numbers of graphs to choose from
SLOTS = 16
_TITLE = "A computer that learned to use its memory"


def look(number: float, length: float, model: Any = None) -> View:
    """Lets a DNC find a path in a random graph, and shows its memory at each step.

    Args:
        number: the number of the graph, a seed.
        length: the number of edges of the shortest path.
        model: a `DNCNetwork` for `datasets.graphs.shortest_path`; by default the
            shipped one.

    Raises:
        InputError: the number or the length is out of range.
    """
    if number is None or not 0 <= number < GRAPHS or number != int(number):
        raise texts.InputError(
            f"Please choose a graph from 0 to {GRAPHS - 1}. There is no graph {number}."
        )
    if length not in LENGTHS:
        raise texts.InputError(
            f"Please choose a path of {LENGTHS[0]} to {LENGTHS[-1]}."
        )
    model = network(PRESET) if model is None else model
    data = graphs.shortest_path(
        1, NODES, DEGREE, int(length), PLANNING, seed=int(number)
    )
    played = graphs.play(lambda inputs: model.predict(inputs, verbose=0), data)
    count = int(played.data["lengths"][0])
    trace = model.trace(played.data["inputs"][:, :count])
    mask = played.data["answer_mask"][0, :count]
    path = [triple for triple in played.paths[0] if triple[0] != NONE]
    outputs = iter([_edge(triple) for triple in path])
    said = [next(outputs, "") if asked else "" for asked in mask]
    return memory_view(
        trace,
        steps=_steps(played.data["inputs"][0, :count], mask, data),
        outputs=said,
        slots=SLOTS,
        title=_TITLE,
        caption=_caption(data, path, bool(played.verdict.shortest[0])),
    )


def _edge(triple: np.ndarray) -> str:
    """Returns an edge as text: from a node over an edge to a node."""
    source, edge, end = (str(n) if n != NONE else "?" for n in triple)
    return f"{source} –{edge}→ {end}"


def _steps(inputs: np.ndarray, mask: np.ndarray, data: dict[str, Any]) -> list[str]:
    triples = graphs.decode_inputs(inputs)  # (T, 3)
    question = int(data["answer_mask"][0].argmax()) - PLANNING - 1
    names = []
    for step, triple in enumerate(triples):
        if mask[step]:
            names.append("answer")
        elif step == question:
            names.append(f"{triple[0]} → {triple[2]} ?")
        else:
            names.append(_edge(triple) if triple[0] != NONE else "think")
    return names


def _caption(data: dict[str, Any], path: list[np.ndarray], right: bool) -> str:
    start, end = int(data["source"][0]), int(data["destination"][0])
    walked = ", ".join(map(_edge, path)) or "nothing"
    verdict = "a shortest path" if right else "not a shortest path"
    return (
        "The network reads the edges of a graph one by one and writes them to its "
        f"memory. Then it is asked for the way from {start} to {end}, and reads its "
        f"memory to answer: {walked}. This is {verdict}."
    )


def tab(gr: Any) -> tuple[Any, list[Any], Any]:
    """Adds the controls; returns the function, its inputs and its output."""
    gr.Markdown(
        "A Differentiable Neural Computer reads a graph, edge by edge, and is then "
        "asked for a path. Choose a graph, and go through the steps: orange and blue "
        "show what is in the memory, and where the network writes and reads."
    )
    with gr.Row():
        number = gr.Slider(0, GRAPHS - 1, value=0, step=1, label="Graph", min_width=200)
        length = gr.Radio(
            list(LENGTHS), value=2, label="Edges of the path", min_width=200
        )
    view = gr.HTML()

    def follow(number: float, length: float) -> str:
        return texts.shown(look, number, length)

    given = [number, length]
    gr.on([number.release, length.input], follow, given, view, api_visibility="private")
    return follow, given, view
