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
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import keras

from keras_attention import kernels
from keras_attention.models.base import preset_weights
from keras_attention.models.base.preprocessor import Preprocessor
from keras_attention.version import __version__

CONFIG = "config.json"
WEIGHTS = "model.weights.h5"
METADATA = "metadata.json"
PREPROCESSOR = "preprocessor.json"
ASSETS = "assets"
CARD = "card.json"
PARTS = {CONFIG, WEIGHTS, METADATA, PREPROCESSOR, ASSETS, CARD}
ENTRIES = ("module", "class_name", "config", "registered_name")  # of config.json
# What reading a file that is damaged, or that a stranger wrote, may raise.
FAULTS = (
    AttributeError,
    KeyError,
    OSError,
    RecursionError,
    RuntimeError,
    TypeError,
    UserWarning,
    ValueError,
)


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
            other files or the current one, or a preprocessor that is no `Preprocessor`
            or does not fit the model.
    """
    if weights_dtype is not None and weights_dtype not in preset_weights.DTYPES:
        raise ValueError(
            "`weights_dtype` must be None, 'float32' or 'float16'. "
            f"Received: weights_dtype={weights_dtype!r}"
        )
    preprocessor = model.preprocessor
    if preprocessor is not None:
        if not isinstance(preprocessor, Preprocessor):
            raise ValueError(
                "`model.preprocessor` must be a `keras_attention.presets.Preprocessor`."
                f" Received: preprocessor={preprocessor!r}"
            )
        preprocessor.check(model)
    folder = _checked_target(path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".preset") as name:
        made = pathlib.Path(name) / "preset"
        made.mkdir()
        config = keras.saving.serialize_keras_object(model)
        _write_json(made / CONFIG, {k: config[k] for k in ENTRIES})
        preset_weights.save(model, made / WEIGHTS, weights_dtype)
        metadata = {
            "keras_version": keras.__version__,
            "keras_attention_version": __version__,
            "parameter_count": int(model.count_params()),
            "weights_sha256": preset_weights.checksum(made / WEIGHTS),
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
        _replace(folder, made, pathlib.Path(name) / "old")


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
        ValueError: the folder is no preset, one of another class, or damaged; the
            message names the file. Or the weights do not fit the arguments.
    """
    preset_cls, config = class_of(path)
    if not issubclass(preset_cls, cls):
        name = preset_cls.__name__
        raise ValueError(
            f"`preset` must hold a model of the class {cls.__name__}; call "
            f"`{name}.from_preset`. Received: a preset of {name}: {path.name}"
        )
    loading = kernels.without_initial_values() if load_weights else nullcontext()
    # The constructor tells what is wrong with arguments of the user.
    damaged = nullcontext() if kwargs else _naming(path / CONFIG)
    with damaged, loading:
        model = preset_cls.from_config({**config, **kwargs})
    if load_weights:
        _load_weights(model, path, kwargs)
    if (path / PREPROCESSOR).exists():
        model.preprocessor = _read_preprocessor(path)
        if not kwargs:
            model.preprocessor.check(model)
    return model


def class_of(path: pathlib.Path) -> tuple[Any, dict[str, Any]]:
    """Returns the class of a preset's model and its config, or raises a ValueError."""
    name, config = _entries(path / CONFIG, registered_name=str, config=dict)
    cls = keras.saving.get_registered_object(name)
    if not isinstance(cls, type) or not hasattr(cls, "from_preset"):
        raise ValueError(
            f"{path / CONFIG} must name a registered class of models with "
            "`from_preset`; import its module first. "
            f"Received: registered_name={name!r}"
        )
    return cls, config


def _load_weights(model: Any, path: pathlib.Path, kwargs: dict[str, Any]) -> None:
    file = path / WEIGHTS
    if not file.exists():
        raise ValueError(f"`preset` must hold {WEIGHTS}. Received: {path}")
    metadata = read_json(path / METADATA) if (path / METADATA).exists() else {}
    expected = metadata.get("weights_sha256")
    if expected is not None and expected != preset_weights.checksum(file):
        raise ValueError(
            f"{file} is damaged: it must be the file that `save_to_preset` wrote, see "
            f"{METADATA}. Received: another content"
        )
    try:
        preset_weights.load(model, file)
    except FAULTS as error:
        if not kwargs:
            raise _damaged(file, error) from error
        arguments = ", ".join(f"{name}={value!r}" for name, value in kwargs.items())
        raise ValueError(
            "The arguments must fit the weights of the preset, or `load_weights` must "
            f"be False. Received: {arguments} ({error})"
        ) from error


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Reads a JSON object; raises a ValueError if the file is missing or damaged."""
    if not path.exists():
        raise ValueError(
            f"`preset` must be a folder with {path.name}. Received: {path.parent}"
        )
    with _naming(path):
        entries = json.loads(path.read_text("utf-8"))
        if not isinstance(entries, dict):
            raise ValueError("it must hold an object")
    return entries


def _entries(path: pathlib.Path, **kinds: type) -> list[Any]:
    """Reads entries of a JSON file that must be of these types."""
    entries = read_json(path)
    with _naming(path):
        values = [entries[name] for name in kinds]
        if not all(map(isinstance, values, kinds.values())):
            raise ValueError("its entries must be a name and objects")
    return values


def _read_preprocessor(path: pathlib.Path) -> Preprocessor:
    name, config, expected = _entries(
        path / PREPROCESSOR, registered_name=str, config=dict, assets=dict
    )
    cls = keras.saving.get_registered_object(name)
    if not isinstance(cls, type) or not issubclass(cls, Preprocessor):
        raise ValueError(
            f"{path / PREPROCESSOR} must name a registered `Preprocessor`; import its "
            f"module first. Received: registered_name={name!r}"
        )
    checksums = _checksums(path / ASSETS)
    for file in sorted({*expected, *checksums}):
        if expected.get(file) != checksums.get(file):
            raise ValueError(
                f"{path / ASSETS / file} is damaged: it must be the file that "
                "`save_to_preset` wrote, see preprocessor.json. Received: "
                + ("another content" if file in checksums else "no such file")
            )
    with _naming(path / ASSETS):
        return cls.from_assets(path / ASSETS, config)


def _checksums(folder: pathlib.Path) -> dict[str, str]:
    """Returns the SHA-256 of each file of a folder, by its path in it."""
    return {
        path.relative_to(folder).as_posix(): preset_weights.checksum(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _replace(folder: pathlib.Path, made: pathlib.Path, old: pathlib.Path) -> None:
    """Puts `made` in the place of `folder`, or leaves everything as it was."""
    if not folder.exists():
        made.rename(folder)
        return
    folder.rename(old)
    try:
        made.rename(folder)
    finally:
        if not folder.exists():
            old.rename(folder)


def _checked_target(path: str | os.PathLike[str]) -> pathlib.Path:
    folder = pathlib.Path(path).absolute()
    if folder in (pathlib.Path.cwd(), *pathlib.Path.cwd().parents):
        raise ValueError(
            "`path` must not be the current folder, nor one above it, which cannot be "
            f"replaced. Received: path={os.fspath(path)!r}"
        )
    if folder.exists():
        names = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
        others = sorted(names - PARTS)
        if not folder.is_dir() or others:
            content = f", which holds {others[0]!r}" if others else ""
            raise ValueError(
                "`path` must be a new folder or the folder of a preset, without other "
                f"files. Received: path={os.fspath(path)!r}{content}"
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
    except FAULTS as error:
        raise _damaged(path, error) from error


def _damaged(path: pathlib.Path, error: Exception) -> ValueError:
    return ValueError(f"{path} is damaged or incomplete: {error}")
