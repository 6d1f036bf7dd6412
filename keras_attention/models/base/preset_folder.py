"""The folder of a preset, laid out as in KerasHub, and the preprocessors in it.

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
import inspect
import json
import os
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar, Self

import h5py
import keras
import numpy as np

from keras_attention import kernels
from keras_attention.models.base.weight_folder import hdf5
from keras_attention.version import __version__

CONFIG = "config.json"
WEIGHTS = "model.weights.h5"
METADATA = "metadata.json"
PREPROCESSOR = "preprocessor.json"
ASSETS = "assets"
CARD = "card.json"
PARTS = {CONFIG, WEIGHTS, METADATA, PREPROCESSOR, ASSETS, CARD}
ENTRIES = ("module", "class_name", "config", "registered_name")  # of config.json
OPTIMIZER = "optimizer"  # a group of the file of weights that a preset leaves out
# What reading a file that is damaged, or that a stranger wrote, may raise.
FAULTS = (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError)


class Preprocessor:
    """Stands between a model and the strings of its users.

    A model holds its preprocessor in `model.preprocessor`, and `save_to_preset` saves
    both. A subclass has a method for each string method of its models, with the model
    as the first argument: `answer(model, sentences, question)`, `translate(model,
    texts)`, and so on.

    A subclass is registered by `keras.saving.register_keras_serializable`, as layers
    are, so that `from_preset` finds it.
    """

    # The file, the reader and the writer of each argument that is an asset.
    _assets: ClassVar[dict[str, tuple[str, Callable, Callable]]] = {}

    @property
    def model_sizes(self) -> dict[str, int]:
        """Sizes that the model must have, by the name of its argument."""
        names = [name for name in self._assets if name.endswith("vocabulary")]
        return {f"{name}_size": len(getattr(self, name)) for name in names}

    def check(self, model: Any) -> None:
        """Raises a ValueError if the model does not fit, according to `model_sizes`."""
        for name, size in self.model_sizes.items():
            value = getattr(model, name, None)
            if value != size:
                raise ValueError(
                    f"`model.preprocessor` must fit the model: a "
                    f"{type(self).__name__} with these vocabularies and classes needs "
                    f"{name}={size}. Received: a {type(model).__name__} with "
                    f"{name}={value}"
                )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that JSON can hold, for `from_assets`."""
        names = inspect.signature(type(self)).parameters
        return {n: getattr(self, n) for n in names if n not in self._assets}

    def save_assets(self, folder: pathlib.Path) -> None:
        """Writes files, such as a vocabulary, into a folder that exists."""
        for name, (file, _, save) in self._assets.items():
            save(getattr(self, name), folder / file)

    @classmethod
    def from_assets(cls, folder: pathlib.Path, config: dict[str, Any]) -> Self:
        """Makes the preprocessor from what `save_assets` and `get_config` gave.

        Raises:
            ValueError: a file is damaged. The message names it.
        """
        files = {k: (folder / file, load) for k, (file, load, _) in cls._assets.items()}
        # An older folder may lack the file of an argument with a default.
        assets = {k: load(path) for k, (path, load) in files.items() if path.exists()}
        return cls(**assets, **config)


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
    if weights_dtype not in (None, "float32", "float16"):
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
        _save_weights(model, made / WEIGHTS, weights_dtype)
        metadata = {
            "keras_version": keras.__version__,
            "keras_attention_version": __version__,
            "parameter_count": int(model.count_params()),
            "weights_sha256": _checksum(made / WEIGHTS),
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
        old = pathlib.Path(name) / "old"
        if folder.exists():
            folder.rename(old)
        try:
            made.rename(folder)
        finally:
            if old.exists() and not folder.exists():
                old.rename(folder)


def _save_weights(model: Any, path: pathlib.Path, dtype: str | None) -> None:
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
                    stored = attributes.pop("dtype", None)
                    array = _converted(array, stored, dtype, name)
                new = target.create_dataset(name, data=array)
            new.attrs.update(attributes)
        target.attrs.update(source.attrs)
    os.replace(f"{path}.new", path)


def _converted(array: Any, stored: Any, dtype: str, name: str) -> Any:
    """Converts an array that Keras stored, of the dtype `stored` if it is given."""
    array = np.asarray(array)
    if stored == "bfloat16":  # two bytes of no dtype
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
    what = "class of models with `from_preset`"
    cls, config = _entries(
        path / CONFIG, lambda cls: hasattr(cls, "from_preset"), what, config=dict
    )
    return cls, config


def _load_weights(model: Any, path: pathlib.Path, kwargs: dict[str, Any]) -> None:
    file = path / WEIGHTS
    if not file.exists():
        raise ValueError(f"`preset` must hold {WEIGHTS}. Received: {path}")
    metadata = read_json(path / METADATA) if (path / METADATA).exists() else {}
    expected = metadata.get("weights_sha256")
    if expected is not None and expected != _checksum(file):
        raise ValueError(
            f"{file} is damaged: it must be the file that `save_to_preset` wrote, see "
            f"{METADATA}. Received: another content"
        )
    try:
        with warnings.catch_warnings():
            # Keras warns of layers that keep their initial weights.
            warnings.filterwarnings("error", "Skipping|.*could not be loaded")
            model.load_weights(file)
        for variable in model.variables:
            # States of random numbers are not in the file and may lack a value.
            variable.assign(variable.value)
        # Keras says nothing of weights in the file that the model lacks.
        with tempfile.TemporaryDirectory() as folder:
            saved = pathlib.Path(folder) / WEIGHTS
            model.save_weights(saved)
            for name in sorted({*hdf5(file)} - {*hdf5(saved)}):
                if not name.startswith(f"{OPTIMIZER}/"):
                    raise ValueError(
                        f"the file has weights that the model lacks: {name}"
                    )
    except (*FAULTS, UserWarning) as error:
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


def _entries(
    path: pathlib.Path, fits: Callable[[type], bool], what: str, **kinds: type
) -> list[Any]:
    """Reads the class that a JSON file names, and entries of these types.

    `fits` says whether the class is of the right kind, which `what` describes.
    """
    entries = read_json(path)
    with _naming(path):
        name, *values = [entries[key] for key in ("registered_name", *kinds)]
        if not all(map(isinstance, (name, *values), (str, *kinds.values()))):
            raise ValueError("its entries must be a name and objects")
    cls = keras.saving.get_registered_object(name)
    if not isinstance(cls, type) or not fits(cls):
        raise ValueError(
            f"{path} must name a registered {what}; import its module first. "
            f"Received: registered_name={name!r}"
        )
    return [cls, *values]


def _read_preprocessor(path: pathlib.Path) -> Preprocessor:
    cls, config, expected = _entries(
        path / PREPROCESSOR,
        lambda cls: issubclass(cls, Preprocessor),
        "`Preprocessor`",
        config=dict,
        assets=dict,
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
        preprocessor: Preprocessor = cls.from_assets(path / ASSETS, config)
    return preprocessor


def _checksum(path: pathlib.Path) -> str:
    """Returns the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _checksums(folder: pathlib.Path) -> dict[str, str]:
    """Returns the SHA-256 of each file of a folder, by its path in it."""
    return {
        path.relative_to(folder).as_posix(): _checksum(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


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
