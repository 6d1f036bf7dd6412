"""Trains networks to return the maximum of a set, the first task of "Set Transformer".

    python examples/studies/sets --out runs.jsonl --json sets.json

The sets have 1 to 10 numbers between 0 and 100. Three networks pool the elements by
their mean, sum or maximum. In the others, the elements attend to each other, and a
`HopfieldPooling` pools them. Batches, steps and widths are those of the paper.

Shapes: B batch, S elements of a set, D width.

Reference:
    Lee et al., "Set Transformer" (2019), section 5.1 and supplement, section 2.1.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import layers
from studies import command_line, reports
from studies.command_line import UsageError
from studies.store import Run, opened

POOLS = {"mean": ops.mean, "sum": ops.sum, "max": ops.max}
# Each architecture, and the mean absolute error that the paper's table 1 prints
PUBLISHED: dict[str, tuple[float, float] | None] = {
    "mean": (2.133, 0.190),
    "sum": (1.902, 0.137),
    "max": (0.1355, 0.0074),
    "SAB": (0.2085, 0.0127),
    "ISAB": None,
}
SETTINGS: dict[str, Any] = {
    "steps": 20_000,
    "batch_size": 128,
    "rate": 1e-3,  # of Adam, constant
    "dim": 64,
    "num_heads": 4,
    "num_points": 4,  # of ISAB; the paper has no ISAB in this task
    "norm_first": True,  # not in the paper: equations 6 and 7 are post-norm
    "longest": 10,  # largest set
    "tested": 1_000,  # batches
}
NEEDED = ("architecture", "seed", "backend", "settings", "result")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `sets`."""
    add = parser.add_argument
    names = tuple(PUBLISHED)
    add("--architecture", nargs="+", choices=names, default=list(names))
    for name in ("steps", "tested"):
        add(f"--{name}", type=int, default=SETTINGS[name], help="number of batches")
    command_line.add_runs(parser, (0, 1, 2), page=True)


def main(args: argparse.Namespace) -> int:
    """Trains all networks, prints the table and writes the requested files."""
    command_line.at_least_one(args, "steps", "tested")
    if min(args.seeds) < 0:
        raise UsageError(f"--seeds must be at least 0. Received: {args.seeds}")
    settings = {**SETTINGS, "steps": args.steps, "tested": args.tested}
    store = opened(args.out, NEEDED)
    runs = []
    for seed in dict.fromkeys(args.seeds):
        for name in dict.fromkeys(args.architecture):
            perform = partial(train, name, seed, settings)
            head, key = reports.environment(), {"architecture": name, "seed": seed}
            runs.append(store.performed(name, perform, settings, head, **key))
            results = {**reports.head("sets"), "runs": runs}
            command_line.write(args, results, tables({"sets": results}))
            print(table(runs[-1:]), flush=True)
    print(table(runs))
    return 0


def network(name: str, settings: dict[str, Any]) -> keras.Model:
    """Builds a network from sets (B, S, 1) to numbers (B, 1).

    Args:
        name: a name in `PUBLISHED`.
        settings: as `SETTINGS`.
    """
    dim = settings["dim"]
    x = inputs = keras.Input((None, 1), name="set")  # (B, S, 1)
    if name in POOLS:
        for activation in ("relu", "relu", "relu", None):
            x = keras.layers.Dense(dim, activation)(x)  # (B, S, D)
        x = POOLS[name](x, axis=1)  # (B, D)
        x = keras.layers.Dense(dim, "relu")(x)
        return keras.Model(inputs, keras.layers.Dense(1)(x), name=name)
    options = {"num_heads": settings["num_heads"], "intermediate_dim": dim}
    options["norm_first"] = settings["norm_first"]
    x = keras.layers.Dense(dim)(x)  # (B, S, D)
    for _ in range(2):
        if name == "SAB":
            x = layers.TransformerEncoderBlock(**options)(x)
        else:
            x = layers.InducedSetAttention(settings["num_points"], **options)(x)
    pool = layers.HopfieldPooling(num_heads=settings["num_heads"])
    x = ops.squeeze(pool(x), axis=1)  # (B, D)
    x = x + keras.layers.Dense(dim, "relu")(x)
    return keras.Model(inputs, keras.layers.Dense(1)(x), name=name)


class Sets(keras.utils.PyDataset):
    """Batches of sets and their maxima; all sets of a batch have the same size.

    Args:
        count: the number of batches.
        seed: a seed of all batches.
        settings: as `SETTINGS`.
    """

    def __init__(self, count: int, seed: Sequence[int], settings: Any) -> None:
        super().__init__()
        self.count, self.seed, self.settings = count, seed, settings

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng([*self.seed, index])
        elements = generator.integers(1, self.settings["longest"] + 1)
        shape = self.settings["batch_size"], elements, 1
        x = generator.uniform(0, 100, shape).astype("float32")  # (B, S, 1)
        return x, x.max(axis=1)


def train(name: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Trains and tests one network.

    Args:
        name: a name in `PUBLISHED`.
        seed: the seed of the weights and of the sets.
        settings: as `SETTINGS`.

    Returns:
        "error", the mean absolute error on sets that were not trained on; the mean
        training "losses" of each tenth of the steps; and the duration.
    """
    cpu = time.process_time()
    keras.utils.set_random_seed(seed)
    model = network(name, settings)
    model.compile(keras.optimizers.Adam(settings["rate"]), "mean_absolute_error")
    losses = []
    parts = np.array_split(np.arange(settings["steps"]), min(10, settings["steps"]))
    for part, steps in enumerate(parts):
        sets = Sets(len(steps), (seed, part), settings)
        done = model.fit(sets, verbose=0, shuffle=False)
        losses.append(round(done.history["loss"][0], 4))
    test = Sets(settings["tested"], (seed, len(parts)), settings)
    return {
        "parameters": model.count_params(),
        "error": round(float(model.evaluate(test, verbose=0)), 4),
        "losses": losses,
        "cpu_seconds": round(time.process_time() - cpu, 1),
    }


def table(runs: Sequence[Run]) -> str:
    """Formats the errors of each architecture beside the published error."""
    names = {"SAB": "SAB + PMA", "ISAB": "ISAB + PMA"}
    rows = []
    for name, published in PUBLISHED.items():
        results = [run["result"] for run in runs if run["architecture"] == name]
        if not results:
            continue
        errors = [result["error"] for result in results]
        spread = f" ± {statistics.stdev(errors):.3f}" if len(errors) > 1 else ""
        rows.append(
            [
                names.get(name, f"rFF + pooling ({name})"),
                f"{results[0]['parameters']:,}",
                "{} ± {}".format(*published) if published else "",
                f"{statistics.mean(errors):.3f}{spread}",
                ", ".join(f"{error:.3f}" for error in errors),
                f"{statistics.mean(r['cpu_seconds'] for r in results):.0f} s",
            ]
        )
    titles = ["architecture", "weights", "paper", "here", "each seed", "CPU time"]
    return reports.table(titles, rows)


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the table of docs/results/sets.md."""
    return {"maximum": table(raw["sets"]["runs"])}
