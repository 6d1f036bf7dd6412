"""How a preset was trained and how it is measured."""

from __future__ import annotations

import importlib
import json
import pathlib
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attention.models.base import preset_folder as folder
from keras_attention.presets import UntrainedInputWarning, cards
from studies.clocks import own_backend
from studies.presets import recipes

# The entries of a card that a recipe states.
TEXTS = ("what", "data", "licence", "limits", "baseline", "use")
TOLERANCE = 0.05  # by which a figure, of percents or alike, may differ when measured


@dataclass(frozen=True)
class Recipe:
    """How to train and to measure one preset.

    Attributes:
        what: what the network does, in one sentence.
        data: what it was trained on, and where that comes from.
        licence: the licence of the data.
        limits: what it cannot do.
        baseline: the plain method that the figures "baseline …" are of.
        use: one line of code that uses it.
        train: `train(seed)` trains the network and returns the model with its
            `preprocessor`.
        measure: `measure(model)` returns figures by name, of test data that training
            did not see.
        seed: the seed of the shipped network.
        calibrate: `calibrate(model, seed)` sets what the preprocessor needs to flag
            inputs that differ from those of training: the forms of questions, and the
            score that 99 % of the answers to held-back inputs reach. None for a network
            that needs neither.
    """

    what: str
    data: str
    licence: str
    limits: str
    baseline: str
    use: str
    train: Callable[[int], Any]
    measure: Callable[[Any], dict[str, float]]
    seed: int = 0
    calibrate: Callable[[Any, int], None] | None = None


def names() -> list[str]:
    """Returns the names of all recipes."""
    here = pathlib.Path(recipes.__file__).parent
    return sorted(p.stem for p in here.glob("*.py") if not p.stem.startswith("_"))


def recipe(name: str) -> Recipe:
    """Returns the recipe of a preset.

    Raises:
        ValueError: there is none. The message lists the names.
    """
    if name not in names():
        listed = ", ".join(names())
        raise ValueError(f"`name` must be one of: {listed}. Received: name={name!r}")
    return importlib.import_module(f"{recipes.__name__}.{name}").RECIPE


def train(name: str, seed: int | None = None, out: pathlib.Path | None = None) -> Any:
    """Trains a network, and writes it with a card of what its float16 weights reach.

    Args:
        name: the name of a recipe.
        seed: the seed; by default that of the shipped network.
        out: where to write the preset; by default the folder presets/NAME.

    Returns:
        The card, and "train_seconds" and "train_cpu_seconds".
    """
    found = recipe(name)
    seed = found.seed if seed is None else seed
    out = pathlib.Path("presets") / name if out is None else out
    start = time.perf_counter(), time.process_time()
    model = found.train(seed)
    took = time.perf_counter() - start[0], time.process_time() - start[1]
    if found.calibrate:
        found.calibrate(model, seed)
    with tempfile.TemporaryDirectory() as beside:
        # The figures are those of the weights as they are stored.
        folder.write(model, beside, "float16")
        size = _kilobytes(pathlib.Path(beside)) + 1  # for the card
        figures = _measured(found, folder.read(pathlib.Path(beside), type(model)))
    made = {
        "name": name,
        "class": type(model).__name__,
        **{entry: getattr(found, entry) for entry in TEXTS},
        "command": f"python examples/studies/presets train {name} --seed {seed}",
        "seed": seed,
        "figures": figures,
        "parameters": int(model.count_params()),
        "backend": own_backend(),
        "kilobytes": size,
    }
    folder.write(model, out, "float16", made)
    seconds = dict(zip(("train_seconds", "train_cpu_seconds"), map(round, took)))
    return {**made, **seconds}


def calibrate(name: str) -> dict[str, Any]:
    """Calibrates a shipped network again, and writes its preprocessor.

    Returns:
        The new config of the preprocessor.

    Raises:
        ValueError: the recipe has nothing to calibrate.
    """
    found, path = recipe(name), cards.NETWORKS / name
    if found.calibrate is None:
        raise ValueError(
            f"`name` must be a recipe with `calibrate`. Received: {name!r}"
        )
    model = cards.load(name)
    found.calibrate(model, cards.card(name)["seed"])
    with tempfile.TemporaryDirectory() as beside:
        # The weights stay as they are.
        folder.write(model, beside, "float16")
        shutil.copy(pathlib.Path(beside, folder.PREPROCESSOR), path)
        assets = pathlib.Path(beside, folder.ASSETS)
        shutil.copytree(assets, path / folder.ASSETS, dirs_exist_ok=True)
    card = {**cards.card(name), "kilobytes": _kilobytes(path)}
    text = json.dumps(card, indent=1, ensure_ascii=False)
    (path / folder.CARD).write_text(text + "\n", "utf-8")
    return model.preprocessor.get_config()


def least_score(scores: Any) -> float:
    """Returns the score that 99 % of the answers to held-back inputs reach."""
    return round(float(np.quantile(scores, 0.01)), 3)


def measure(name: str) -> tuple[dict[str, float], dict[str, float]]:
    """Measures a shipped network again.

    Returns:
        The figures of its card, and those measured now.
    """
    return cards.card(name)["figures"], _measured(recipe(name), cards.load(name))


def _measured(found: Recipe, model: Any) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrainedInputWarning)
        return found.measure(model)


def write_card(name: str) -> dict[str, Any]:
    """Writes the card of a shipped network again, from its recipe and new figures.

    Returns:
        The card.
    """
    old, texts = cards.card(name), recipe(name)
    made: dict[str, Any] = {}
    for entry in ("name", "class", *TEXTS, *old):
        made[entry] = getattr(texts, entry) if entry in TEXTS else old[entry]
    made["figures"] = _measured(texts, cards.load(name))
    text = json.dumps(made, indent=1, ensure_ascii=False)
    (cards.NETWORKS / name / folder.CARD).write_text(f"{text}\n", "utf-8", newline="\n")
    return made


def differences(card: dict[str, float], now: dict[str, float]) -> dict[str, str]:
    """Returns what differs between figures by more than `TOLERANCE`, by name."""
    return {
        name: f"{card.get(name)} on the card, now {now.get(name)}"
        for name in sorted({*card, *now})
        if name not in card
        or name not in now
        or not abs(card[name] - now[name]) <= TOLERANCE
    }


def _kilobytes(path: pathlib.Path) -> int:
    """Returns the size of a folder in kB."""
    sizes = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
    return round(sum(sizes) / 1000)
