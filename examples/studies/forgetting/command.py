"""Compares the last state of a recurrent network with attention over all states.

    python examples/studies/forgetting --json runs.json --plot curve.png

A GRU reads stories of facts, and a question about one fact follows (`datasets.recall`).
One model answers from the last state. The other model attends to all states with the
question as the query. The two models are otherwise equal. A third model answers from a
last state with more units. For each kind of model and each seed, one network is trained
on new stories of all lengths and tested on each length.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import layers
from keras_attention.datasets import recall
from studies import reports
from studies.command_line import UsageError

LENGTHS = (1, 2, 4, 8, 16, 32)
BATCH = 64
TESTED = 2_000  # test stories per length
LABELS = {
    "x_label": "facts in the story",
    "y_label": "questions answered right",
    "title": "One fact is asked for at the end",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `forgetting`."""
    add = parser.add_argument
    add("--steps", type=int, default=9_000, help="batches that a network learns from")
    add("--seeds", type=int, default=3, help="how many networks of each kind")
    add("--units", type=int, default=64, help="of the state that is read by attention")
    add("--wide", type=int, default=256, help="units of a last state; 0 for none")
    add("--json", type=pathlib.Path, help="where to write the results")
    add("--plot", type=pathlib.Path, help="where to draw them (needs matplotlib)")


def main(args: argparse.Namespace) -> int:
    """Trains all networks, prints the table and writes the requested files."""
    for name in ("steps", "seeds", "units"):
        if getattr(args, name) < 1:
            value = getattr(args, name)
            raise UsageError(f"--{name} must be at least 1. Received: {value}")
    if args.wide < 0:
        raise UsageError(f"--wide must be at least 0. Received: {args.wide}")
    runs = []
    for seed in range(args.seeds):
        for attends, units in kinds(args.units, args.wide):
            runs.append(train(attends, units, seed, args.steps))
            print(line(runs[-1]), flush=True)
            if args.json:  # save after each run
                args.json.write_text(document(runs, args.steps), encoding="utf-8")
    print(table(runs))
    if args.plot:
        from studies.pictures import plot_curves

        plot_curves(series(runs), **LABELS).savefig(args.plot, dpi=160)
    return 0


def document(runs: list[dict[str, Any]], steps: int) -> str:
    """Returns the contents of the results file."""
    results = {
        **reports.head("forgetting"),
        "keras": keras.__version__,
        "backend": keras.config.backend(),
        "steps": steps,
        "batch": BATCH,
        "tested": TESTED,
        "runs": runs,
    }
    return json.dumps(results, indent=1) + "\n"


def kinds(units: int, wide: int) -> list[tuple[bool, int]]:
    """Returns the arguments (attends, units) of `network` for each kind of network."""
    found = [(True, units), (False, units)]
    return found + ([(False, wide)] if wide else [])


def network(attends: bool, units: int) -> keras.Model:
    """Builds a model with summed word embeddings, a GRU and a layer for the answer.

    Args:
        attends: whether to attend to all states instead of using the last state.
        units: U, the number of GRU units.

    Returns:
        A model from {"story": (B, M, 2), "question": (B, 1)} to logits (B, V).
    """
    size = recall.vocabulary_size()
    story = keras.Input((None, 2), dtype="int32", name="story")  # (B, M, L)
    question = keras.Input((1,), dtype="int32", name="question")  # (B, L)
    is_valid = ops.any(ops.not_equal(story, 0), axis=-1)  # (B, M)
    encode = layers.SentenceEncoder(size, units, encoding="bag")
    read = keras.layers.GRU(units, return_sequences=True, name="reader")
    asked = encode(question)  # (B, U)
    states = read(encode(story), mask=is_valid)  # (B, M, U)
    if attends:
        look = layers.Attention("general", name="attention")
        found = look(asked[:, None], states, value_mask=is_valid)[:, 0]  # (B, U)
    else:
        found = states[:, -1]  # (B, U): padding does not change the state
    both = keras.layers.Concatenate()([found, asked])
    hidden = keras.layers.Dense(units, "relu")(both)
    return keras.Model(
        {"story": story, "question": question}, keras.layers.Dense(size)(hidden)
    )


class Batches(keras.utils.PyDataset):
    """Batches of stories of equal length, without padding. The lengths alternate.

    Args:
        first: the number of the first batch, used as a seed.
        count: the number of batches.
    """

    def __init__(self, first: int, count: int) -> None:
        super().__init__()
        self.first, self.count = first, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        number = self.first + index
        facts = LENGTHS[number % len(LENGTHS)]
        stories = recall.generate(BATCH, facts, seed=[1, number])
        return stories.inputs, stories.answers


def train(attends: bool, units: int, seed: int, steps: int) -> dict[str, Any]:
    """Trains and tests one network.

    Args:
        attends: see `network`.
        units: see `network`.
        seed: the seed of the weights. All seeds share the same stories.
        steps: the number of training batches.

    Returns:
        The settings; "accuracy", the accuracy for each number of facts; the mean loss
        for each of the two learning rates; and the duration.
    """
    start, cpu = time.perf_counter(), time.process_time()
    keras.utils.set_random_seed(seed)
    model = network(attends, units)
    model.compile(
        keras.optimizers.Adam(clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    begin, losses = steps * 3 // 4, []
    for rate, first, count in ((0.003, 0, begin), (0.0005, begin, steps - begin)):
        model.optimizer.learning_rate = rate
        done = model.fit(Batches(first, count), verbose=0, shuffle=False)
        losses.append(round(done.history["loss"][0], 4))
    return {
        "attends": attends,
        "units": units,
        "seed": seed,
        "parameters": model.count_params(),
        "accuracy": {str(n): accuracy(model, n) for n in LENGTHS},
        "losses": losses,
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
    }


def accuracy(model: keras.Model, facts: int) -> float:
    """Returns the accuracy on stories with the given number of facts."""
    stories = recall.generate(TESTED, facts, seed=[2, facts])
    logits = model.predict(stories.inputs, batch_size=500, verbose=0)
    return float(np.mean(logits.argmax(-1) == stories.answers))


def name_of(run: dict[str, Any]) -> str:
    """Returns a description of what the network answers from."""
    what = "attention over the states" if run["attends"] else "the last state"
    return f"{what}, {run['units']} units"


def line(run: dict[str, Any]) -> str:
    """Formats a run as a line of text."""
    scores = "".join(f"{100 * share:7.1f}" for share in run["accuracy"].values())
    return f"{name_of(run):38}{run['seed']:5}{scores}{run['seconds']:8.0f} s"


def table(runs: Sequence[dict[str, Any]]) -> str:
    """Formats the accuracy of each run in per cent, by number of facts."""
    rows = [
        [name_of(run), str(run["seed"])]
        + [f"{100 * share:.1f}" for share in run["accuracy"].values()]
        + [f"{run['cpu_seconds']:.0f}"]
        for run in runs
    ]
    titles = ["answer from", "seed", *runs[0]["accuracy"], "CPU seconds"]
    return reports.table(titles, rows)


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the table of docs/results/forgetting.md."""
    return {"accuracy": table(raw["forgetting"]["runs"])}


def series(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the input of `plot_curves`: means with their ranges."""
    found = []
    for name in dict.fromkeys(name_of(run) for run in runs):
        own = np.array(
            [list(run["accuracy"].values()) for run in runs if name_of(run) == name]
        )
        one: dict[str, Any] = {"name": name, "x": list(LENGTHS)}
        one["y"] = own.mean(0).round(4).tolist()
        one["low"], one["high"] = own.min(0).tolist(), own.max(0).tolist()
        found.append(one)
    chance = [1 / recall.VALUES] * len(LENGTHS)
    return [*found, {"name": "guessing", "x": list(LENGTHS), "y": chance}]
