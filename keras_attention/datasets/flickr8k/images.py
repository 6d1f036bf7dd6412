"""Pairs captions with images or with their features."""

import os
import reprlib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_attention.datasets import files

_ENDINGS = (".jpg", ".jpeg", ".png")
_SHOWN = 5  # names in an error message


class Captioned(NamedTuple):
    """Images and their captions.

    Attributes:
        names: The names of N images.
        captions: N tuples of captions.
        images: N paths of images, or an array (N, ...) of features; `None` if no images
            were asked for.
        missing: The names of the images that were left out because there is no image.
    """

    names: tuple[str, ...]
    captions: tuple[tuple[str, ...], ...]
    images: Any = None
    missing: tuple[str, ...] = ()


def pair(
    captions: Mapping[str, Sequence[str]], images: Any, allow_missing: bool = False
) -> Captioned:
    """Pairs captions with images or with features.

    Args:
        captions: The captions by the name of the image, as from `read_captions`.
        images: A folder of images with these names; or a mapping from names to arrays,
            or the path of an NPZ file, which has one array for each name, or the arrays
            `names` (K,) and `features` (K, ...). The names of arrays may lack the
            ending ".jpg", ".jpeg" or ".png". Features (S, D) of unequal number S are
            padded with zeros at the end, which an `ImageCaptioner` does not attend to.
            Features of different dtypes get their common dtype; see
            `numpy.result_type`.
        allow_missing: Whether to leave out captions without an image. If False, a
            missing image is an error. (Flickr8k's captions name one image that does not
            exist, `2258277193_586949ec62.jpg.1`. It is in no split.)

    Returns:
        `Captioned`, with the left out names in `missing`.

    Raises:
        ValueError: There are no captions, or `images` is neither a path nor a mapping.
        DataNotFoundError: There is no such folder or file, or images are missing.
        DamagedDataError: The arrays of an NPZ file do not fit each other.

    Example:
        ```python
        array = numpy.load("features.npy", mmap_mode="r")  # (N, 196, 512)
        data = pair(captions, dict(zip(names, array)))
        ```
    """
    if not captions:
        raise ValueError(
            f"`captions` must hold at least one image. Received: {captions=}"
        )
    if isinstance(images, (str, os.PathLike)):
        if Path(images).is_dir():
            paths = {p.name: p for p in Path(images).iterdir() if p.suffix}
            return _pair(captions, paths, str(images), allow_missing)
        if not Path(images).is_file():
            raise files.DataNotFoundError(
                f"`images` must be a folder, an NPZ file or a mapping. There is no "
                f"{images}"
            )
        if not zipfile.is_zipfile(images):
            raise files.DamagedDataError(
                f"{images} must be an NPZ file, which holds the names of its arrays. "
                "For a single array, pass dict(zip(names, array))."
            )
        with np.load(images, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in _wanted(captions, archive)}
            return _pair(captions, _table(arrays, images), str(images), allow_missing)
    if not hasattr(images, "keys"):
        raise ValueError(
            "`images` must be a folder, an NPZ file or a mapping from names; for an "
            "array, pass dict(zip(names, array)). "
            f"Received: images={reprlib.repr(images)}"
        )
    return _pair(captions, images, "`images`", allow_missing)


def some(names: Sequence[str]) -> str:
    """Lists the first names for an error message."""
    hidden = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {hidden} more" if hidden > 0 else "")


def _wanted(captions: Mapping[str, Any], archive: Iterable[str]) -> list[str]:
    """Returns the names of the arrays of an NPZ file that are needed."""
    wanted = {"names", "features", *captions, *map(_stem, captions)}
    return [name for name in archive if name in wanted]


def _stem(name: str) -> str:
    """Returns the name of an image without its ending."""
    stem, ending = os.path.splitext(name)
    return stem if ending.lower() in _ENDINGS else name


def _table(
    arrays: dict[str, np.ndarray], path: str | os.PathLike[str]
) -> dict[str, np.ndarray]:
    """Returns the features by name, also of an NPZ file with `names`."""
    if "names" not in arrays:
        return arrays
    names, features = arrays["names"], arrays.get("features", np.zeros(0))
    fits = names.ndim == 1 and len(names) == len(features) > 0
    if not fits or len({*names.tolist()}) != len(names):
        shapes = {name: array.shape for name, array in arrays.items()}
        raise files.DamagedDataError(
            f"{path} must have `names` (K,), each once, and `features` (K, ...). "
            f"Received: arrays of the shapes {shapes}"
        )
    return dict(zip(map(str, names.tolist()), features))


def _pair(
    captions: Mapping[str, Sequence[str]],
    images: Mapping[str, Any],
    where: str,
    allow_missing: bool,
) -> Captioned:
    keys = {name: name if name in images else _stem(name) for name in captions}
    missing = tuple(name for name, key in keys.items() if key not in images)
    if len(missing) > (len(captions) - 1 if allow_missing else 0):
        raise files.DataNotFoundError(
            f"{where} has no images for {len(missing)} of {len(captions)} names: "
            f"{some(missing)}. With allow_missing=True, the others are returned."
        )
    names = [name for name in captions if name not in {*missing}]
    in_order = [images[keys[name]] for name in names]
    whole = in_order if isinstance(in_order[0], Path) else _stacked(in_order, names)
    texts = tuple(tuple(captions[name]) for name in names)
    return Captioned(tuple(names), texts, whole, missing)


def _stacked(features: list[Any], names: list[str]) -> np.ndarray:
    """Stacks features; those of unequal number are padded with zeros."""
    arrays = [np.asarray(array) for array in features]
    first, longest = arrays[0], 0
    for name, array in zip(names, arrays, strict=True):
        shape, wanted = array.shape, first.shape
        free = len(wanted) == 2  # the number of features
        if len(shape) != len(wanted) or shape[free:] != wanted[free:]:
            raise files.DamagedDataError(
                f"The features of {name} must have the shape of those of {names[0]}, "
                "except for the number S of features (S, D). "
                f"Received: {shape} and {wanted}"
            )
        longest = max(longest, *shape[:1], 0)
    size = (longest, *first.shape[1:]) if first.ndim == 2 else first.shape
    dtype = np.result_type(*{array.dtype for array in arrays})
    whole = np.zeros((len(arrays), *size), dtype)
    for row, array in zip(whole, arrays, strict=True):
        row[: len(array)] = array
    return whole
