"""Bags from files by nested cross-validation; bit patterns and latch sequences.

    python examples/studies/bags --data tiger elephant --json bags.json
    python examples/studies/bags --data bits latch --out runs.jsonl
    python examples/studies/bags --data my_bags.mat

`--data` also takes paths of files: `.mat` files in the format of
`keras_attention.datasets.bags.read_mat`, and `.csv` files in the format of
`keras_attention.datasets.bags.read_table`. The runs on files, including Tiger and
Elephant, train many networks at once and need JAX. The runs on bit patterns and latch
sequences use `model.fit`. Each finished repeat adds a line to the file given by
`--out`. Repeat the command to resume.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import time
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import DataNotFoundError, bags
from studies.bags import made, nested, report
from studies.command_line import UsageError
from studies.store import Run, Store, opened

FILES = ("tiger", "elephant")
READERS = {".mat": bags.read_mat, ".csv": bags.read_table}
FIRST = 20  # first seed of the repeats; the settings were tuned with smaller seeds
NEEDED = ("data", "seed", "backend", "keras", "settings", "result")
MODEL: dict[str, Any] = {"num_heads": 8, "key_dim": 8}
TRAINING: dict[str, Any] = {
    "rate": 1e-3,
    "decay": 0.95,
    "weight_decay": 0.01,
    "batch_size": 20,
    "epochs": 60,
    "bags": 160,
    "bound": 3.0,
}
# The settings among which each fold selects: arguments of the model and the training.
SETTINGS: list[dict[str, Any]] = [
    {"dims": [64], "instance_dropout": 0.0, "rate": 1e-3},
    {"dims": [32], "instance_dropout": 0.5, "rate": 3e-3},
    {"dims": [32], "instance_dropout": 0.75, "rate": 3e-3},
]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `bags`."""
    add = parser.add_argument
    names = [*FILES, *made.MAKERS]
    add(
        "--data",
        nargs="+",
        default=names,
        metavar="NAME",
        help=f"{', '.join(names)}, or a path of a .mat or .csv file; default: these",
    )
    add("--repeats", type=int, default=5, help="of each data set from a file")
    add("--seeds", type=int, nargs="+", default=[0], help="of what is made")
    add("--epochs", type=int, help="by default those of each data set")
    add("--out", type=pathlib.Path, help="runs as they end, and to go on from")
    add("--json", type=pathlib.Path, help="where to write the results")


def main(args: argparse.Namespace) -> int:
    """Performs the missing runs, prints the table and writes the results."""
    for name in ("repeats", "epochs"):
        given = getattr(args, name)
        if given is not None and given < 1:
            raise UsageError(f"--{name} must be at least 1. Received: {given}")
    names = list(dict.fromkeys(args.data))
    for name in names:
        if name not in (*FILES, *made.MAKERS) and _suffix(name) not in READERS:
            raise UsageError(
                f"--data must be {', '.join([*FILES, *made.MAKERS])}, or a path of a "
                f".mat or .csv file. Received: {name}"
            )
    backend = keras.config.backend()
    if backend != "jax" and not set(names) <= set(made.MAKERS):
        raise UsageError(
            f"{' and '.join(FILES)} and other files need JAX, by which many networks "
            f"are trained at once: set KERAS_BACKEND=jax. Received: {backend}"
        )
    store = opened(args.out, NEEDED)
    runs = []
    # Read the files of the user first, so that errors appear immediately.
    chosen = {name: _settings(name, args.epochs) for name in names}
    for name, settings in chosen.items():
        seeds = list(dict.fromkeys(args.seeds))
        if name not in made.MAKERS:
            seeds = list(range(FIRST, FIRST + args.repeats))
        runs += _runs(store, name, settings, seeds)
        if args.json:  # save after each data set
            text = json.dumps(report.whole(runs), indent=1)
            args.json.write_text(text + "\n", encoding="utf-8")
    print(report.table(runs))
    return 0


def _settings(name: str, epochs: int | None) -> dict[str, Any]:
    if name not in made.MAKERS:
        training = {**TRAINING, **({"epochs": epochs} if epochs else {})}
        common = {"model": MODEL, "training": training, "chosen_from": SETTINGS}
        return common if name in FILES else {**common, **_fitted(training, name)}
    settings = made.BITS if name == "bits" else made.LATCH
    return {**settings, **({"epochs": epochs} if epochs else {})}


def _fitted(training: dict[str, Any], path: str) -> dict[str, Any]:
    """Returns the training settings for the bags of a file, and their numbers."""
    found = _load(path)
    # The smallest training part: all bags without two folds.
    least = len(found.labels) - 2 * math.ceil(len(found.labels) / nested.FOLDS)
    size = min(training["batch_size"], least)
    return {
        "training": {**training, "batch_size": size, "bags": least // size * size},
        "data": {
            "bags": len(found.labels),
            "instances": len(found.instances),
            "features": found.instances.shape[1],
        },
    }


def _suffix(path: str) -> str:
    return pathlib.Path(path).suffix.lower()


def _load(name: str) -> bags.Bags:
    """Loads the bags of a data set or a file, with the features that vary."""
    try:
        found = bags.load(name) if name in FILES else READERS[_suffix(name)](name)
    except (DataNotFoundError, ValueError) as error:
        raise UsageError(str(error)) from error
    found = _varying(found)
    counts = np.bincount(found.labels, minlength=2).tolist()
    if min(counts) < nested.FOLDS:
        raise UsageError(
            f"{name} must have at least {nested.FOLDS} positive and {nested.FOLDS} "
            f"negative bags, since each of {nested.FOLDS} folds needs both. Received: "
            f"{counts[1]} positive and {counts[0]} negative bags"
        )
    if not found.instances.shape[1]:
        raise UsageError(f"{name} must have a feature that varies between instances")
    return found


def _runs(
    store: Store, name: str, settings: dict[str, Any], seeds: list[int]
) -> list[Run]:
    """Returns the runs of one data set. Missing runs are performed."""
    backend = keras.config.backend()
    # Look up all runs first, so that errors appear immediately.
    found = {
        seed: store.done(name, settings, data=name, seed=seed, backend=backend)
        for seed in seeds
    }
    protocol = None
    for seed in [seed for seed, run in found.items() if run is None]:
        if name in made.MAKERS:
            result = made.run(name, settings, seed)
        else:
            protocol = protocol or Protocol(name, settings)
            result = protocol(seed)
        done = store.add(
            {
                "data": name,
                "seed": seed,
                "backend": backend,
                "keras": keras.version(),
                "settings": settings,
                "result": result,
            }
        )
        found[seed] = done
        print(report.line(done), flush=True)
    return [run for run in found.values() if run is not None]


class Protocol:
    """Repeats of the nested cross-validation on one data set.

    Args:
        name: a name in `FILES`, or the path of a file.
        settings: `model` and `training`, the common arguments; `chosen_from`, the
            candidate settings.
    """

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        from studies.bags.training import Learner  # needs JAX

        self._bags = _load(name)
        self._learners = [
            Learner(self._bags, *_apart(one, settings))
            for one in settings["chosen_from"]
        ]

    def __call__(self, seed: int) -> dict[str, Any]:
        """Performs one repeat.

        Args:
            seed: the seed of the folds and the networks.
        """
        start, cpu = time.perf_counter(), time.process_time()

        def train(number: int, parts: np.ndarray) -> np.ndarray:
            return self._learners[number](parts, seed).logits

        result = nested.run(self._bags.labels, len(self._learners), train, seed)
        return {
            **result,
            "seconds": round(time.perf_counter() - start, 1),
            "cpu_seconds": round(time.process_time() - cpu, 1),
        }


def _apart(
    one: dict[str, Any], settings: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the arguments of the model and the training, updated by setting `one`."""
    model, training = dict(settings["model"]), dict(settings["training"])
    for name, value in one.items():
        (training if name in training else model)[name] = value
    return model, training


def _varying(found: bags.Bags) -> bags.Bags:
    """Removes the features that are equal in all instances."""
    varies = np.ptp(found.instances, axis=0) > 0
    return bags.Bags(found.instances[:, varies], found.bag, found.labels)
