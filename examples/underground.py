"""A network with external memory reads the London Underground and follows a route.

    python -m pip install ".[jax,viz]"
    export KERAS_BACKEND=jax
    python examples/studies/dnc underground --networks networks
    python examples/underground.py networks/underground-*.keras

The third command trains a differentiable neural computer on random graphs (up to 30
minutes on one core), and saves it in the folder `networks`. This script then describes
the real map to it: one edge at a step, in random order, as a triple (station, line,
station) of random numbers. It names a station and the lines to take, and the network
writes the stations.

The script prints routes by name, and how many of 100 routes are right. It draws the
first route on the map, and what the network looked up in its memory at each step. It
reads any railway in the same format: three files for stations, lines and connections.

Graves et al., "Hybrid computing using a neural network with dynamic external memory"
(2016), https://www.nature.com/articles/nature20101, "Graph task descriptions".
"""

import argparse
import os
import sys
from pathlib import Path


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("network", type=Path, help="a saved network of the benchmark")
    add(
        "--railway",
        type=Path,
        nargs=3,
        metavar=("STATIONS", "LINES", "CONNECTIONS"),
        help="files of a railway; default: the London Underground",
    )
    add(
        "--max-zone",
        type=float,
        help="keep stations up to this zone; default: 1 in London, elsewhere all",
    )
    add(
        "--min-lines",
        type=int,
        help="keep stations with at least this number of lines; default: 3 in London, "
        "elsewhere 1",
    )
    add("--stops", type=int, default=7, help="of a route; default: 7")
    add("--seed", type=int, default=0, help="of routes and labels; default: 0")
    add("--out", type=Path, default=Path("underground"), help="default: underground")
    return parser.parse_args()


arguments = parse_arguments()
os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

from keras_attention.datasets import DataNotFoundError, graphs
from keras_attention.visualization import plot_lookups, plot_route

ROUTES = 100
PRINTED = 3


def read_map():
    """Reads the user's railway, or the London Underground; None keeps the default."""
    part = {"max_zone": arguments.max_zone, "min_lines": arguments.min_lines}
    part = {name: value for name, value in part.items() if value is not None}
    if arguments.railway:
        return graphs.read_railway(*arguments.railway, **part)
    return graphs.load_underground(**part)


def main():
    if not arguments.network.is_file():
        sys.exit(f"There is no network {arguments.network}. See --help to train one.")
    try:
        model = keras.saving.load_model(arguments.network, compile=False)
        network = read_map()
    except (DataNotFoundError, OSError, ValueError) as error:
        sys.exit(str(error))
    print(f"{len(network.stations)} stations, {len(network.links)} edges")
    data = graphs.traversal(
        ROUTES, length=arguments.stops, network=network, seed=arguments.seed
    )
    slots = data["inputs"].shape[1]
    if model.cell.memory_slots < slots:  # no weight depends on the number of slots
        model = model.resized(slots)
    inputs = {name: data[name] for name in ("inputs", "answer_mask")}
    found = graphs.decode(model.predict(inputs, batch_size=20, verbose=0))
    asked, true = data["answer_mask"], graphs.decode(data["targets"])
    right = ((found == true).all(-1) | ~asked).all(-1)
    print(f"{right.sum()} of {ROUTES} routes of {arguments.stops} stops are right")

    arguments.out.mkdir(parents=True, exist_ok=True)
    for one in range(PRINTED):
        route, answer = (
            network.names(data["graphs"], one, labels[one][asked[one]])
            for labels in (true, found)
        )
        print(f"\n{route[0][0]}, {', '.join(line for _, line, _ in route)}:")
        print(" -> ".join([answer[0][0] or "?", *(end or "?" for *_, end in answer)]))
        if one == 0:
            draw(network, model, data, route, answer)


def draw(network, model, data, route, answer):
    """Draws the first route and what the network looked up."""
    figure = plot_route(
        network.stations,
        network.positions,
        network.edges,
        route,
        answer,
        dict(zip(network.lines, network.colors)),
        f"From {route[0][0]} to {route[-1][2]}, as a DNC reads the map",
    )
    figure.savefig(arguments.out / "route.png")
    length = data["lengths"][0]
    read = graphs.decode_inputs(data["inputs"][0, :length])
    named = network.names(data["graphs"], 0, read)
    labels = [", ".join(name or "_" for name in step) for step in named]
    begin = int(np.flatnonzero(data["answer_mask"][0])[0])
    first = begin - len(route)  # the first step of the question
    labels[begin:] = [f"answer: {end or '?'}" for *_, end in answer]
    trace = model.trace(data["inputs"][:1, :length])
    figure = plot_lookups(trace, labels, first=first, title="What each head reads")
    figure.savefig(arguments.out / "lookups.png")
    print(f"\npictures: {arguments.out / 'route.png'}, {arguments.out / 'lookups.png'}")


if __name__ == "__main__":
    main()
