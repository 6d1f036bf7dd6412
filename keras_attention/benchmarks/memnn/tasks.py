"""One run: a task of bAbI, or a model in a simulated world."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.benchmarks.babi import published
from keras_attention.benchmarks.memnn.readers import READERS, read
from keras_attention.benchmarks.memnn.training import PLAIN, RECIPES, TRAINING, learn
from keras_attention.datasets import babi, simulated_world

# Weston et al. (2015), MemNN with adaptive memory, n-grams and nonlinearity, strongly
# supervised. Test error in per cent, tasks 1 … 20.
PAPER = published.columns("1k")["MemNN_strong"]

WORLDS = [(d, kind) for d in (1, 5) for kind in ("actor", "actor+object")]
# How many facts are found at most, and the arguments.
FINDERS: dict[str, tuple[int, dict[str, Any]]] = {
    "memnn": (2, PLAIN),
    "memnn-k1": (1, PLAIN),
    "memnn-no-time": (2, {**PLAIN, "time": False}),
}
MODELS = (*FINDERS, *READERS)


def babi_settings(recipe: str, epochs: int | None) -> dict[str, Any]:
    """What a run on bAbI depends on: the training, and the recipes that are tried."""
    names = list(RECIPES) if recipe == "chosen" else [recipe]
    return {
        "training": with_epochs(TRAINING, epochs),
        "recipes": {name: RECIPES[name] for name in names},
    }


def world_settings(model: str, epochs: int | None) -> dict[str, Any]:
    """What a run of one of the `MODELS` in a world depends on."""
    if model in READERS:
        return {"reader": with_epochs(READERS[model], epochs)}
    most, arguments = FINDERS[model]
    training = with_epochs(TRAINING, epochs)
    return {"training": training, "supports": most, "arguments": arguments}


def with_epochs(training: dict[str, Any], epochs: int | None) -> dict[str, Any]:
    """The training, with other epochs where they are not None."""
    return training if epochs is None else {**training, "epochs": epochs}


def on_babi(
    task: int, seed: int, recipe: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """One task: trains a network and returns its errors in per cent.

    With the recipe "chosen", a tenth of the training questions is held back, and each
    recipe is tried; the row is that of the one with the lower error on them, the plain
    one where both are equal.
    """
    train, test = babi.load(task, "train"), babi.load(task, "test")
    about = {"task": task, "name": babi.TASKS[task], "paper": PAPER[task - 1]}
    training, recipes = settings["training"], settings["recipes"]
    if recipe == "chosen":
        order = np.random.default_rng(seed).permutation(len(train))
        held, used = np.split(order, [len(order) // 10])
        parts = [train[i] for i in used], test, [train[i] for i in held]
        tried = [
            {"recipe": name, **learn(*parts, seed, training, arguments)}
            for name, arguments in recipes.items()
        ]
        return {**about, **min(tried, key=lambda row: row["validation_error"])}
    row = learn(train, test, [], seed, training, recipes[recipe])
    return {**about, "recipe": recipe, **row}


def in_world(
    model: str, difficulty: int, kind: str, seed: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """The simulated world of Weston et al. (2014), 3,000 questions to learn from.

    Each model has the same questions of a seed, to learn from and to be tested on.
    """
    train, test = (
        simulated_world.simulate(count, difficulty, kind, seed=[seed, part])
        for part, count in enumerate((3000, 1000))
    )
    about = {"difficulty": difficulty, "questions": kind, "model": model}
    if model in READERS:
        return {**about, **read(train, test, seed, settings["reader"])}
    training, arguments = settings["training"], settings["arguments"]
    row = learn(train, test, [], seed, training, arguments, settings["supports"])
    return {**about, **row}
