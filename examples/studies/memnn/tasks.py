"""One run: a bAbI task, or a model in a simulated world."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.datasets import babi, simulated_world
from studies.babi import published
from studies.memnn.readers import READERS, read
from studies.memnn.training import PLAIN, RECIPES, TRAINING, learn

# Weston et al. (2015): test errors in per cent on tasks 1 … 20 of a MemNN with adaptive
# memory, n-grams and nonlinearity, trained with supporting facts.
PAPER = published.columns("1k")["MemNN_strong"]

KINDS = ("actor", "actor+before", "actor+object", "actor+object+before")
WORLDS = [(d, kind) for d in (1, 5) for kind in KINDS]
# Maximum number of retrieved facts, and the arguments of the MemNN.
FINDERS: dict[str, tuple[int, dict[str, Any]]] = {
    "memnn": (2, PLAIN),
    "memnn-k1": (1, PLAIN),
    "memnn-no-time": (2, {**PLAIN, "time": False}),
    "memnn-k1-no-time": (1, {**PLAIN, "time": False}),
}
MODELS = (*FINDERS, *READERS)


def babi_settings(recipe: str, epochs: int | None) -> dict[str, Any]:
    """Returns the settings of a bAbI run: the training settings and the recipes."""
    names = list(RECIPES) if recipe == "chosen" else [recipe]
    return {
        "training": with_epochs(TRAINING, epochs),
        "recipes": {name: RECIPES[name] for name in names},
    }


def world_settings(model: str, epochs: int | None) -> dict[str, Any]:
    """Returns the settings of a run of `model` (one of `MODELS`) in a world."""
    if model in READERS:
        return {"reader": with_epochs(READERS[model], epochs)}
    most, arguments = FINDERS[model]
    training = with_epochs(TRAINING, epochs)
    return {"training": training, "supports": most, "arguments": arguments}


def with_epochs(training: dict[str, Any], epochs: int | None) -> dict[str, Any]:
    """Returns the settings with `epochs`, or unchanged if `epochs` is None."""
    return training if epochs is None else {**training, "epochs": epochs}


def on_babi(
    task: int, seed: int, recipe: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """Trains a network on one task and returns its errors in per cent.

    With the recipe "chosen", a tenth of the training questions is held out for
    validation, and each recipe is tried. The result is that of the recipe with the
    lowest validation error. If errors are equal, it is that of the first recipe.
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
    """Trains a model in the simulated world of Weston et al. (2014).

    There are 3,000 training questions and 1,000 test questions. All models with the
    same seed have the same questions.
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
