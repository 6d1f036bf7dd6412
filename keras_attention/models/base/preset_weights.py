"""The file of a preset's weights: what is left out, converted, and checked."""

from __future__ import annotations

import hashlib
import os
import pathlib
import tempfile
import warnings
from typing import Any

import h5py
import numpy as np

DTYPES = ("float32", "float16")
OPTIMIZER = "optimizer"  # a group of Keras' file that a preset leaves out
BFLOAT16 = "bfloat16"  # Keras stores it as two bytes, with an attribute


def save(model: Any, path: pathlib.Path, dtype: str | None) -> None:
    """Writes the weights of a model, without the optimizer, to a new HDF5 file.

    All floating-point weights are stored in `dtype`; None for their own.

    Raises:
        ValueError: a weight is not finite in the dtype.
    """
    model.save_weights(path)
    names: list[str] = []
    with h5py.File(path, "r") as source, h5py.File(f"{path}.new", "w") as target:
        source.visit(names.append)
        for name in names:
            if name.split("/")[0] == OPTIMIZER:
                continue
            item = source[name]
            attributes = dict(item.attrs)
            if isinstance(item, h5py.Group):
                new = target.require_group(name)
            else:
                array = item[()]
                if dtype is not None:
                    array = _as(array, attributes.pop("dtype", None), dtype, name)
                new = target.create_dataset(name, data=array)
            new.attrs.update(attributes)
        target.attrs.update(source.attrs)
    os.replace(f"{path}.new", path)


def load(model: Any, path: pathlib.Path) -> None:
    """Loads weights into a model.

    Raises:
        ValueError: the file lacks weights of the model, or has others.
    """
    with warnings.catch_warnings():
        # Keras warns of layers that keep their initial weights.
        warnings.filterwarnings("error", "Skipping|.*could not be loaded")
        model.load_weights(path)
    for variable in model.variables:
        # States of random numbers are not in the file and may lack a value.
        variable.assign(variable.value)
    # Keras says nothing of weights in the file that the model lacks.
    with tempfile.TemporaryDirectory() as folder:
        saved = pathlib.Path(folder) / path.name
        model.save_weights(saved)
        surplus = sorted(_names(path) - _names(saved))
    if surplus:
        raise ValueError(f"the file has weights that the model lacks: {surplus[0]}")


def checksum(path: pathlib.Path) -> str:
    """Returns the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _names(path: pathlib.Path) -> set[str]:
    names: set[str] = set()

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and name.split("/")[0] != OPTIMIZER:
            names.add(name)

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return names


def _as(array: Any, stored: Any, dtype: str, name: str) -> Any:
    """Converts an array that Keras stored, of the dtype `stored` if it is given."""
    array = np.asarray(array)
    if stored == BFLOAT16:
        array = (array.view("uint16").astype("uint32") << 16).view("float32")
    if not np.issubdtype(array.dtype, np.floating):
        return array
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    if not np.isfinite(converted).all():
        raise ValueError(
            f"`weights_dtype` must hold all weights. Received: weights_dtype={dtype!r},"
            f" and {name} has weights up to {np.abs(array).max():.3g}"
        )
    return converted
