"""Folders of weights of Hugging Face or KerasHub, and how they become a model's.

Hugging Face:   config.json, model.safetensors
                or model.safetensors.index.json, which names the files of the tensors
KerasHub:       config.json, model.weights.h5; task.weights.h5 with the head of a task
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import h5py
import ml_dtypes
import numpy as np

Array = np.ndarray
Path = str | os.PathLike[str]
CONFIG, WEIGHTS = "config.json", "model.safetensors"
INDEX = "model.safetensors.index.json"
HUB_WEIGHTS, HUB_TASK = "model.weights.h5", "task.weights.h5"
FLOATS = ("F64", "F32", "F16", "BF16")  # dtypes of safetensors that can be weights
NAMED = 3  # how many tensors an error names


class StoredTensor(NamedTuple):
    """A tensor in a file, which is read when it is needed."""

    file: pathlib.Path
    name: str  # in the file
    dtype: str  # as the file names it
    shape: tuple[int, ...]
    is_float: bool
    is_hdf5: bool

    def read(self) -> Array:
        """Reads the values; those of bfloat16 as float32.

        Raises:
            ValueError: if the values are not floating-point numbers, or the file cannot
                be read.
        """
        if not self.is_float:
            raise ValueError(
                f"{self.file.name} must store {self.name!r} as floating-point numbers. "
                f"Received: the dtype {self.dtype}"
            )
        with _opened(self.file, self.is_hdf5, f"{self.name!r}: ") as file:
            name = self.name
            values = np.asarray(file[name]) if self.is_hdf5 else file.get_tensor(name)
        if values.dtype.kind == "f":
            return values
        return values.view(ml_dtypes.bfloat16).astype("float32")


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

    def one_of(self, name: str, default: str, choices: dict[str, Any]) -> Any:
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

    def renamed(self, rename: Callable[[str], str]) -> WeightFolder:
        """Renames tensors; raises a ValueError if two of them get the same name."""
        tensors: dict[str, StoredTensor] = {}
        for name, tensor in self.tensors.items():
            new = rename(name)
            if new in tensors:
                raise ValueError(
                    "The weights must hold each tensor once. Received: "
                    f"{tensors[new].name!r} and {name!r} in {tensor.file.name}"
                )
            tensors[new] = tensor
        return self._replace(tensors=tensors)

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


def open_folder(path: Path, hugging_face: str, hub: str) -> WeightFolder:
    """Reads the config of a folder, and which tensors its files hold.

    Args:
        path: the folder.
        hugging_face: the kind of model that a folder of Hugging Face must hold.
        hub: the kind that a folder of KerasHub must hold.

    Raises:
        ValueError: if it is no folder of Hugging Face or KerasHub, holds another kind
            of model, its weights have another format, or a file is incomplete or
            damaged.
    """
    folder = pathlib.Path(path)
    if not (folder / CONFIG).is_file():
        raise ValueError(
            f"`path` must be a folder with {CONFIG} and {WEIGHTS} of Hugging Face or "
            f"{HUB_WEIGHTS} of KerasHub. Nothing is downloaded. "
            f"Received: path={os.fspath(path)!r}"
        )
    config = _read_json(folder / CONFIG)
    inner: Any = config
    if "model_type" in config:
        kind, entry, wanted = config["model_type"], "model_type", hugging_face
        tensors = _hugging_face_tensors(folder)
    else:
        inner = config.get("config")
        if not isinstance(inner, dict) or "class_name" not in config:
            raise ValueError(
                f"{CONFIG} must have the entry 'model_type' of Hugging Face, or "
                "'class_name' and 'config' of KerasHub. "
                f"Received: {str(folder)!r}, with {sorted(config)}"
            )
        kind, entry, wanted = config["class_name"], "class_name", hub
        tensors = _hub_tensors(folder)
    opened = WeightFolder(folder, entry == "class_name", str(kind), inner, tensors)
    if opened.kind != wanted:
        raise opened.refusal(entry, repr(wanted), opened.kind)
    return opened


def _read_json(file: pathlib.Path) -> dict[str, Any]:
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
        return _safetensors(folder / WEIGHTS)
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
    names = _read_json(folder / INDEX).get("weight_map")
    if not isinstance(names, dict):
        raise _damaged(folder / INDEX, "it has no 'weight_map'")
    tensors: dict[str, StoredTensor] = {}
    for part in sorted({str(name) for name in names.values()}):
        if part != pathlib.PurePath(part).name or not (folder / part).is_file():
            raise _damaged(folder / INDEX, f"it names {part!r}, which is not there")
        tensors.update(_safetensors(folder / part))
    placed = {name: tensor.file.name for name, tensor in tensors.items()}
    wrong = sorted(n for n in {*names, *placed} if placed.get(n) != names.get(n))
    if wrong:
        raise _damaged(folder / INDEX, f"{named(wrong)} not in the file that it names")
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


@contextmanager
def _opened(file: pathlib.Path, is_hdf5: bool, what: str = "") -> Iterator[Any]:
    """Opens a file; an error that says it is damaged begins with `what`."""
    errors: tuple[type[Exception], ...] = (OSError,)
    if not is_hdf5:
        try:
            library = importlib.import_module("safetensors")
        except ImportError as error:
            raise ImportError(
                "Weights of Hugging Face need safetensors, which comes with the extra "
                "`safetensors`: python -m pip install "
                f'"keras-attention-family[safetensors]". Received: {error}',
                name="safetensors",
            ) from error
        errors = (OSError, library.SafetensorError)
    try:
        with h5py.File(file) if is_hdf5 else library.safe_open(file, "numpy") as opened:
            yield opened
    except errors as error:
        raise _damaged(file, f"{what}{error}") from error


def _damaged(file: pathlib.Path, reason: str) -> ValueError:
    """Returns the error for a file that is incomplete or of another format."""
    return ValueError(
        f"{file.name} must be a complete file of weights. It is damaged, incomplete or "
        f"of another format: {reason}. Received: {str(file)!r}"
    )


def _safetensors(file: pathlib.Path) -> dict[str, StoredTensor]:
    """Lists the tensors of a safetensors file, by name."""
    tensors = {}
    with _opened(file, is_hdf5=False) as opened:
        for name in opened.keys():  # noqa: SIM118
            part = opened.get_slice(name)
            dtype, shape = part.get_dtype(), tuple(part.get_shape())
            is_float = dtype in FLOATS
            tensors[name] = StoredTensor(file, name, dtype, shape, is_float, False)
    return tensors


def hdf5(file: pathlib.Path) -> dict[str, StoredTensor]:
    """Lists the tensors of a file that Keras' `save_weights` wrote, by their paths.

    Raises:
        ValueError: if the file is not a complete HDF5 file, or refers to other files.
    """
    tensors = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            if item.external or item.is_virtual:
                raise _damaged(file, f"{name!r} is stored in another file")
            # Keras stores bfloat16 as two bytes of no dtype, with an attribute.
            dtype = item.dtype.str
            is_bfloat16 = (item.attrs.get("dtype"), dtype) == ("bfloat16", "|V2")
            is_float = item.dtype.kind == "f" or is_bfloat16
            tensors[name] = StoredTensor(file, name, dtype, item.shape, is_float, True)

    with _opened(file, is_hdf5=True) as opened:
        opened.visititems(visit)
    return tensors


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
