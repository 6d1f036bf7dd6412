"""A folder of weights of Hugging Face or KerasHub, and how they become a model's.

Hugging Face:   config.json, model.safetensors
                or model.safetensors.index.json, which names the files of the tensors
KerasHub:       config.json, model.weights.h5; task.weights.h5 with the head of a task
"""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_attention.models.base.stored_tensors import (
    Array,
    StoredTensor,
    damaged,
    hdf5,
    safetensors,
)

Path = str | os.PathLike[str]
CONFIG, WEIGHTS = "config.json", "model.safetensors"
INDEX = "model.safetensors.index.json"
HUB_WEIGHTS, HUB_TASK = "model.weights.h5", "task.weights.h5"
NAMED = 3  # how many tensors an error names


class WeightFolder(NamedTuple):
    """The config and the tensors of a folder; no values are read yet."""

    path: pathlib.Path
    is_hub: bool  # of KerasHub
    kind: str  # the model: "gpt2" of Hugging Face, "GPT2Backbone" of KerasHub
    config: dict[str, Any]
    tensors: dict[str, StoredTensor]

    def entry(self, name: str, default: Any = None) -> Any:
        """Returns an entry; raises a ValueError if it is missing and has no default."""
        value = self.config.get(name)
        value = default if value is None else value
        if value is None:
            raise ValueError(
                f"{CONFIG} must have the entry {name!r}. Received: {str(self.path)!r}, "
                f"with {sorted(self.config)}"
            )
        return value

    def size(self, name: str, default: int | None = None) -> int:
        """Returns an entry that must be an integer of at least 1."""
        value = self.entry(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.refusal(name, "an integer of at least 1", value)
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Returns an entry that must be a number of at least 0."""
        value = self.entry(name, default)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not value >= 0:
            raise self.refusal(name, "a number of at least 0", value)
        return float(value)

    def one_of(self, name: str, choices: dict[str, Any], default: str) -> Any:
        """Returns what an entry stands for, one of `choices`."""
        value = self.entry(name, default)
        if not isinstance(value, str) or value not in choices:
            raise self.refusal(name, f"one of {sorted(choices)}", value)
        return choices[value]

    def check_entries(self, wanted: dict[str, Any]) -> None:
        """Raises a ValueError unless entries are missing or have these values."""
        for name, value in wanted.items():
            entry = self.config.get(name, value)
            if entry != value:
                raise self.refusal(name, repr(value), entry)

    def refusal(self, name: str, rule: str, value: Any) -> ValueError:
        """Returns the error for an entry of the config that is not supported."""
        return ValueError(
            f"The entry {name!r} of {CONFIG} must be {rule}; no other value is "
            f"supported. Received: {name}={value!r} in {str(self.path)!r}"
        )


class Recipe(NamedTuple):
    """How a weight of the model is made from stored tensors.

    `shapes` maps the names of the stored tensors to the shapes that they must have;
    `convert` takes their values in this order, and returns the weight.
    """

    shapes: Mapping[str, tuple[int, ...]]
    convert: Callable[..., Array] = lambda values: values


def open_folder(path: Path) -> WeightFolder:
    """Reads the config of a folder, and which tensors its files hold.

    Raises:
        ValueError: if it is no folder of Hugging Face or KerasHub, its weights have
            another format, or a file is incomplete or damaged.
    """
    folder = pathlib.Path(path)
    if not (folder / CONFIG).is_file():
        raise ValueError(
            f"`path` must be a folder with {CONFIG} and {WEIGHTS} of Hugging Face or "
            f"{HUB_WEIGHTS} of KerasHub. Nothing is downloaded. "
            f"Received: path={os.fspath(path)!r}"
        )
    config = read_json(folder / CONFIG)
    if "model_type" in config:
        kind = str(config["model_type"])
        return WeightFolder(folder, False, kind, config, _hugging_face_tensors(folder))
    inner = config.get("config")
    if not isinstance(inner, dict) or "class_name" not in config:
        raise ValueError(
            f"{CONFIG} must have the entry 'model_type' of Hugging Face, or "
            "'class_name' and 'config' of KerasHub. "
            f"Received: {str(folder)!r}, with {sorted(config)}"
        )
    kind = str(config["class_name"])
    return WeightFolder(folder, True, kind, inner, _hub_tensors(folder))


def check_kind(folder: WeightFolder, hugging_face: str, hub: str) -> None:
    """Raises a ValueError unless a folder holds a model of these kinds."""
    wanted = hub if folder.is_hub else hugging_face
    if folder.kind != wanted:
        name = "class_name" if folder.is_hub else "model_type"
        raise folder.refusal(name, repr(wanted), folder.kind)


def read_json(file: pathlib.Path) -> dict[str, Any]:
    """Reads a JSON object; raises a ValueError if the file holds something else."""
    try:
        content = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{file.name} must hold JSON, but is damaged: {error}. "
            f"Received: {str(file)!r}"
        ) from error
    if not isinstance(content, dict):
        raise ValueError(
            f"{file.name} must hold a JSON object. Received: {str(file)!r}, which "
            f"holds a {type(content).__name__}"
        )
    return content


def _hugging_face_tensors(folder: pathlib.Path) -> dict[str, StoredTensor]:
    if (folder / WEIGHTS).is_file():
        return safetensors(folder / WEIGHTS)
    if not (folder / INDEX).is_file():
        files = sorted(file.name for file in folder.iterdir())
        pickled = ""
        if any(name.startswith("pytorch_model") for name in files):
            pickled = (
                " Files of pickled weights can run code when they are read. Load them "
                "with `transformers` and write them with `save_pretrained(path, "
                "safe_serialization=True)`."
            )
        raise ValueError(
            f"`path` must hold weights as {WEIGHTS} or {INDEX}.{pickled} "
            f"Received: {str(folder)!r}, with {files}"
        )
    names = read_json(folder / INDEX).get("weight_map")
    if not isinstance(names, dict):
        raise damaged(folder / INDEX, "it has no 'weight_map'")
    tensors: dict[str, StoredTensor] = {}
    for part in sorted({str(name) for name in names.values()}):
        if part != pathlib.PurePath(part).name or not (folder / part).is_file():
            raise damaged(folder / INDEX, f"it names {part!r}, which is not there")
        tensors.update(safetensors(folder / part))
    placed = {name: tensor.file.name for name, tensor in tensors.items()}
    wrong = sorted(n for n in {*names, *placed} if placed.get(n) != names.get(n))
    if wrong:
        raise damaged(folder / INDEX, f"{named(wrong)} not in the file that it names")
    return tensors


def _hub_tensors(folder: pathlib.Path) -> dict[str, StoredTensor]:
    """Lists the tensors of a backbone, and those of a task with "task/" in front."""
    if not (folder / HUB_WEIGHTS).is_file():
        files = sorted(file.name for file in folder.iterdir())
        raise ValueError(
            f"`path` must hold the weights as one file, {HUB_WEIGHTS}. "
            f"Received: {str(folder)!r}, with {files}"
        )
    tensors = hdf5(folder / HUB_WEIGHTS)
    task = folder / HUB_TASK
    if task.is_file():
        tensors.update({f"task/{name}": tensor for name, tensor in hdf5(task).items()})
    return tensors


def renamed(
    tensors: Mapping[str, StoredTensor], rename: Callable[[str], str]
) -> dict[str, StoredTensor]:
    """Renames tensors; raises a ValueError if two of them get the same name."""
    by_name: dict[str, StoredTensor] = {}
    for name, tensor in tensors.items():
        new = rename(name)
        if new in by_name:
            raise ValueError(
                "The weights must hold each tensor once. Received: "
                f"{by_name[new].name!r} and {name!r} in {tensor.file.name}"
            )
        by_name[new] = tensor
    return by_name


def build(
    cls: Any,
    folder: WeightFolder,
    config: dict[str, Any],
    recipes: dict[str, Recipe],
    unused: str,
    copies: Iterable[tuple[str, str]] = (),
) -> Any:
    """Makes a model with the weights of a folder.

    Args:
        cls: the class of the model.
        folder: the folder.
        config: the arguments of the model.
        recipes: how each weight is made, by the path of its variable.
        unused: a regular expression for the names of tensors that have no place in the
            model and no effect on its outputs.
        copies: pairs of tensors that the model has only once.

    Raises:
        ValueError: for missing tensors, other shapes, further tensors, or other copies.
    """
    wanted = {k: v for recipe in recipes.values() for k, v in recipe.shapes.items()}
    missing = sorted({*wanted} - {*folder.tensors})
    where = f"Received: {str(folder.path)!r}"
    if missing:
        raise ValueError(
            f"The weights of a {folder.kind} must hold all its tensors. "
            f"{where}, without {named(missing)}"
        )
    for name, shape in wanted.items():
        stored = folder.tensors[name].shape
        if stored != shape:
            raise ValueError(
                f"The tensor {name!r} must have the shape {shape}, as {CONFIG} says. "
                f"{where}, where it has the shape {stored}"
            )
    others = {*folder.tensors} - {*wanted}
    surplus = sorted(n for n in others if not re.fullmatch(unused, n))
    if surplus:
        raise ValueError(
            f"The weights of a {folder.kind} must hold no tensors that this model has "
            f"no place for. {where}, with {named(surplus)}"
        )
    for first, second in copies:
        if first in folder.tensors and second in folder.tensors:
            values, copy = (folder.tensors[name].read() for name in (first, second))
            if not np.array_equal(values, copy):
                raise ValueError(
                    f"The tensors {first!r} and {second!r} must be equal, since "
                    f"{CONFIG} ties them. {where}, where they differ"
                )
    model = cls(**config)
    weights = {weight.path: weight for weight in model.weights}
    for name, recipe in recipes.items():
        tensors = (folder.tensors[n].read() for n in recipe.shapes)
        weights[name].assign(recipe.convert(*tensors))
    return model


def named(names: list[str]) -> str:
    """Returns the first names, and how many more there are."""
    first = ", ".join(repr(name) for name in names[:NAMED])
    others = len(names) - NAMED
    return f"{first} and {others} more" if others > 0 else first
