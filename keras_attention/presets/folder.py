"""The folder of a preset, laid out as in KerasHub.

config.json           the class of the model and its arguments
model.weights.h5      the weights
metadata.json         versions, the number of parameters and the date
preprocessor.json     the class of the preprocessor and its arguments
assets/               the files of the preprocessor, such as vocabularies
card.json             how the network was trained and how well it does
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import h5py
import keras
import numpy as np

from keras_attention import kernels
from keras_attention.presets.preprocessor import Preprocessor
from keras_attention.version import __version__

CONFIG = "config.json"
WEIGHTS = "model.weights.h5"
METADATA = "metadata.json"
PREPROCESSOR = "preprocessor.json"
ASSETS = "assets"
CARD = "card.json"
PARTS = {CONFIG, WEIGHTS, METADATA, PREPROCESSOR, ASSETS, CARD}
ENTRIES = ("module", "class_name", "config", "registered_name")  # of config.json
OPTIMIZER = "optimizer"  # a group of Keras' file that a preset leaves out
DTYPES = ("float32", "float16")


def write(
    model: Any,
    path: str | os.PathLike[str],
    weights_dtype: str | None = None,
    card: dict[str, Any] | None = None,
) -> None:
    """Writes a model, its preprocessor and a card into a folder.

    Everything is written beside the folder first. If that fails, an older preset in the
    folder stays as it was.

    Args:
        model: a model of this package.
        path: a new or empty folder, or the folder of a preset, which is replaced.
        weights_dtype: "float32" or "float16", the dtype of the stored weights; by
            default that of the variables.
        card: the entries of card.json; None for no card.

    Raises:
        ValueError: for another dtype, weights that are not finite in it, a folder with
            other files, or a preprocessor that is no `Preprocessor`.
    """
    if weights_dtype is not None and weights_dtype not in DTYPES:
        raise ValueError(
            "`weights_dtype` must be None, 'float32' or 'float16'. "
            f"Received: weights_dtype={weights_dtype!r}"
        )
    preprocessor = model.preprocessor
    if preprocessor is not None and not isinstance(preprocessor, Preprocessor):
        raise ValueError(
            "`model.preprocessor` must be a `keras_attention.presets.Preprocessor`. "
            f"Received: preprocessor={preprocessor!r}"
        )
    folder = _checked_target(path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".preset") as name:
        made = pathlib.Path(name) / "preset"
        made.mkdir()
        config = keras.saving.serialize_keras_object(model)
        _write_json(made / CONFIG, {k: config[k] for k in ENTRIES})
        model.save_weights(made / WEIGHTS)
        convert(made / WEIGHTS, weights_dtype)
        metadata = {
            "keras_version": keras.__version__,
            "keras_attention_version": __version__,
            "parameter_count": int(model.count_params()),
            "date_saved": datetime.datetime.now(datetime.UTC).isoformat()[:19] + "Z",
        }
        _write_json(made / METADATA, metadata)
        if preprocessor is not None:
            (made / ASSETS).mkdir()
            preprocessor.save_assets(made / ASSETS)
            entry = {
                "module": type(preprocessor).__module__,
                "class_name": type(preprocessor).__name__,
                "registered_name": keras.saving.get_registered_name(type(preprocessor)),
                "config": preprocessor.get_config(),
                "assets": _checksums(made / ASSETS),
            }
            _write_json(made / PREPROCESSOR, entry)
        if card is not None:
            _write_json(made / CARD, card)
        if folder.exists():
            folder.rename(pathlib.Path(name) / "old")
        shutil.move(made, folder)


def read(
    path: pathlib.Path, cls: type, load_weights: bool = True, **kwargs: Any
) -> Any:
    """Makes the model that a folder holds.

    Args:
        path: the folder of a preset.
        cls: the class that the model must be of.
        load_weights: whether to load the weights; otherwise they are initialized.
        **kwargs: arguments of the model's constructor that replace those of the preset.

    Raises:
        ValueError: the folder is no preset, one of another class, or damaged. The
            message names the file.
    """
    config = read_json(path / CONFIG)
    with _naming(path / CONFIG):
        if kwargs:
            config = {**config, "config": {**config["config"], **kwargs}}
        kind = config["registered_name"]
    own = keras.saving.get_registered_object(kind)
    if own is None:
        raise ValueError(
            f"{path / CONFIG} must name a class of models that is registered; import "
            f"its module first. Received: registered_name={kind!r}"
        )
    if not issubclass(own, cls):
        name = own.__name__
        raise ValueError(
            f"`preset` must hold a model of the class {cls.__name__}; call "
            f"`{name}.from_preset`. Received: a preset of {name}: {path.name}"
        )
    loading = kernels.without_initial_values() if load_weights else nullcontext()
    with _naming(path / CONFIG), loading:
        model = own.from_config(config["config"])
    if load_weights:
        if not (path / WEIGHTS).exists():
            raise ValueError(f"`preset` must hold {WEIGHTS}. Received: {path}")
        with _naming(path / WEIGHTS), warnings.catch_warnings():
            # Keras warns of layers that keep their initial weights.
            warnings.filterwarnings("error", "Skipping|.*could not be loaded")
            model.load_weights(path / WEIGHTS)
        for variable in model.variables:
            # States of random numbers are not in the file and may lack a value.
            variable.assign(variable.value)
    if (path / PREPROCESSOR).exists():
        model.preprocessor = _read_preprocessor(path)
    return model


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Reads a JSON file that holds an object.

    Raises:
        ValueError: the file is missing or damaged.
    """
    if not path.exists():
        raise ValueError(
            f"`preset` must be a folder with {path.name}. Received: {path.parent}"
        )
    with _naming(path):
        found = json.loads(path.read_text("utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it must hold an object")
    return found


def convert(path: pathlib.Path, dtype: str | None) -> None:
    """Leaves out the optimizer, and converts floating-point weights to a dtype.

    Args:
        path: an HDF5 file that `save_weights` wrote; it is replaced.
        dtype: the dtype; None for no conversion.

    Raises:
        ValueError: a weight is not finite in the dtype.
    """
    names: list[str] = []
    with h5py.File(path, "r") as source, h5py.File(f"{path}.new", "w") as target:
        source.visit(names.append)
        for name in names:
            if name.split("/")[0] == OPTIMIZER:
                continue
            item = source[name]
            if isinstance(item, h5py.Group):
                new = target.require_group(name)
            else:
                new = target.create_dataset(name, data=_as(item[()], dtype, name))
            new.attrs.update(item.attrs)
        target.attrs.update(source.attrs)
    os.replace(f"{path}.new", path)


def _as(array: Any, dtype: str | None, name: str) -> Any:
    kind = getattr(array, "dtype", None)
    if dtype is None or kind is None or not np.issubdtype(kind, np.floating):
        return array
    with np.errstate(over="ignore"):
        found = np.asarray(array).astype(dtype)
    if np.isfinite(array).all() and not np.isfinite(found).all():
        raise ValueError(
            f"`weights_dtype` must hold all weights. Received: weights_dtype={dtype!r},"
            f" and {name} has weights up to {np.abs(array).max():.3g}"
        )
    return found


def _read_preprocessor(path: pathlib.Path) -> Preprocessor:
    entry = read_json(path / PREPROCESSOR)
    with _naming(path / PREPROCESSOR):
        kind, config = entry["registered_name"], entry["config"]
        expected = entry["assets"]
    own = keras.saving.get_registered_object(kind)
    if own is None or not issubclass(own, Preprocessor):
        raise ValueError(
            f"{path / PREPROCESSOR} must name a registered `Preprocessor`; import its "
            f"module first. Received: registered_name={kind!r}"
        )
    found = _checksums(path / ASSETS)
    for name in sorted({*expected, *found}):
        if expected.get(name) != found.get(name):
            raise ValueError(
                f"{path / ASSETS / name} is damaged: it must be the file that "
                "`save_to_preset` wrote, see preprocessor.json. Received: "
                + ("another content" if name in found else "no such file")
            )
    with _naming(path / ASSETS):
        return own.from_assets(path / ASSETS, config)


def _checksums(folder: pathlib.Path) -> dict[str, str]:
    """Returns the SHA-256 of each file of a folder, by its path in it."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(
            path.read_bytes()
        ).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _checked_target(path: str | os.PathLike[str]) -> pathlib.Path:
    folder = pathlib.Path(path)
    if folder.exists():
        others: list[str] = []
        if folder.is_dir():
            others = sorted({entry.name for entry in folder.iterdir()} - PARTS)
        if not folder.is_dir() or others:
            found = f", which holds {others[0]!r}" if others else ""
            raise ValueError(
                "`path` must be a new folder or the folder of a preset, without other "
                f"files. Received: path={os.fspath(path)!r}{found}"
            )
    return folder


def _write_json(path: pathlib.Path, entries: dict[str, Any]) -> None:
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


@contextmanager
def _naming(path: pathlib.Path) -> Iterator[None]:
    """Names the damaged file in an error."""
    try:
        yield
    except (KeyError, OSError, TypeError, UserWarning, ValueError) as error:
        raise ValueError(f"{path} is damaged or incomplete: {error}") from error
