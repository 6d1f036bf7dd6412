"""The networks that the package ships: their names and cards, and how one is loaded."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import keras

from keras_attention.models.base import preset_folder

NETWORKS = pathlib.Path(__file__).parent / "networks"


def names(cls: type | None = None) -> list[str]:
    """Returns the names of the presets that the package ships.

    Args:
        cls: a class of models; only its presets are listed. None for all.
    """
    shipped = sorted(p.parent.name for p in NETWORKS.glob(f"*/{preset_folder.CONFIG}"))
    if cls is None:
        return shipped
    class_of = preset_folder.class_of
    return [name for name in shipped if issubclass(class_of(NETWORKS / name)[0], cls)]


def card(preset: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the card of a preset: how it was trained, how well it does, its limits.

    Args:
        preset: the name of a shipped preset, or a folder.

    Raises:
        ValueError: for an unknown preset, or one without a card.
    """
    folder = find(preset, keras.Model)
    return preset_folder.read_json(folder / preset_folder.CARD)


def load(
    preset: str | os.PathLike[str],
    cls: type = keras.Model,
    load_weights: bool = True,
    **kwargs: Any,
) -> Any:
    """Loads a preset; `from_preset` of a model calls this.

    Args:
        preset: the name of a shipped preset, or a folder that `save_to_preset` wrote.
        cls: the class that the model must be of.
        load_weights: whether to load the weights; otherwise they are initialized.
        **kwargs: arguments of the model's constructor that replace those of the preset.

    Raises:
        ValueError: for an unknown preset, one of another class, or a damaged file.
    """
    # The import registers the preprocessors of this package.
    from keras_attention.presets import preprocessors  # noqa: F401

    return preset_folder.read(find(preset, cls), cls, load_weights, **kwargs)


def find(preset: str | os.PathLike[str], cls: type) -> pathlib.Path:
    """Returns the folder of a preset.

    Raises:
        ValueError: there is none. The message lists the names for the class.
    """
    if not isinstance(preset, (str, os.PathLike)) or not os.fspath(preset):
        raise ValueError(f"`preset` must be a name or a path. Received: {preset!r}")
    path = pathlib.Path(preset)
    if preset in names():
        if (path / preset_folder.CONFIG).exists():
            raise ValueError(
                "`preset` must not be both a shipped preset and a folder: write "
                f"'./{preset}' for the folder. Received: preset={preset!r}"
            )
        return NETWORKS / os.fspath(preset)
    if path.is_dir():
        return path
    of_class = names(cls)
    listed = ", ".join(of_class) if of_class else f"none for {cls.__name__}"
    raise ValueError(
        "`preset` must be a folder that `save_to_preset` wrote, or the name of a "
        f"shipped preset ({listed}). Received: preset={os.fspath(preset)!r}"
    )
