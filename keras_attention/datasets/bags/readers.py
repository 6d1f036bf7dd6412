"""Readers for the Tiger, Elephant and Musk1 files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from keras_attention.datasets import files
from keras_attention.datasets.bags import mat
from keras_attention.datasets.bags.padding import Bags
from keras_attention.datasets.choices import check_choice

_FILES = {"tiger": "tiger.mat", "elephant": "elephant.mat", "musk1": "musk1.csv"}
_SOURCES = {
    "tiger": "the data sets of Andrews, Tsochantaridis & Hofmann (2003)",
    "elephant": "the data sets of Andrews, Tsochantaridis & Hofmann (2003)",
    "musk1": "Musk, version 1, of the UCI repository, as lines of label, bag, features",
}
_FIELDS = ("features", "bag_ids", "labels")


def load(name: str, path: str | os.PathLike[str] | None = None) -> Bags:
    """Loads Tiger, Elephant or Musk1.

    Without a `path`, the file must be `mil/tiger.mat`, `mil/elephant.mat` or
    `mil/musk1.csv` in the folder named by `KERAS_ATTENTION_DATA`. Nothing is
    downloaded, since these files have no stable URL.

    Args:
        name: `"tiger"` (200 bags, 1,220 instances of 230 features), `"elephant"` (200
            bags, 1,391 instances of 230 features) or `"musk1"` (92 bags, 476 instances
            of 166 features).
        path: Path of the file.

    Returns:
        `Bags` with labels 0 and 1.

    Raises:
        ValueError: Unknown `name`.
        DataNotFoundError: The file is missing; the message says what to download and
            where to put it.
        DamagedDataError: The file is truncated or has another format.
    """
    check_choice("name", name, _FILES, f"one of {list(_FILES)}")
    path = _find(name) if path is None else Path(path)
    return read_mat(path) if _FILES[name].endswith(".mat") else read_table(path)


def read_mat(path: str | os.PathLike[str]) -> Bags:
    """Reads `features`, `bag_ids` and `labels` from a MATLAB file.

    `features` has a row per instance; `bag_ids` and `labels` have a number per
    instance. A label above 0 is positive. Arrays may be sparse.

    Args:
        path: A MATLAB version 5 file.

    Returns:
        `Bags` with labels 0 and 1, sorted by bag number.

    Raises:
        DataNotFoundError: The file is missing.
        DamagedDataError: The file is truncated, has another format, lacks one of the
            three arrays, or has arrays whose shapes do not match.
    """
    path = Path(path)
    try:
        content = mat.arrays(files.read_decompressed(path))
    except mat.BrokenMatError as error:
        raise _damaged(path, str(error)) from error
    missing = [name for name in _FIELDS if name not in content]
    if missing:
        raise _damaged(path, f"it has no {' and no '.join(missing)}")
    features, numbers, labels = (content[name] for name in _FIELDS)
    return _bags(path, features, numbers.reshape(-1), labels.reshape(-1))


def read_table(path: str | os.PathLike[str]) -> Bags:
    """Reads comma-separated lines of label, bag number and features.

    Args:
        path: A file with one instance per line. A label above 0 is positive.

    Returns:
        `Bags` with labels 0 and 1, sorted by bag number.

    Raises:
        DataNotFoundError: The file is missing.
        DamagedDataError: A line's length differs from the first line's, a field is not
            a number, or a bag has two labels. The message gives the line number.
    """
    path = Path(path)
    rows: list[list[float]] = []
    for number, line in enumerate(files.read_text(path).splitlines(), 1):
        try:
            row = [float(cell) for cell in line.split(",")]
        except ValueError as error:
            raise _damaged(path, f"line {number}: {error}") from error
        if len(row) < 3 or len(row) != len(rows[0] if rows else row):
            raise _damaged(
                path,
                f"line {number} must have a label, a bag and features, as many cells "
                f"as the first line, and it has {len(row)}",
            )
        rows.append(row)
    if not rows:
        raise _damaged(path, "it has no line")
    table = np.array(rows)
    return _bags(path, table[:, 2:], table[:, 1], table[:, 0])


def _bags(
    path: Path, features: np.ndarray, numbers: np.ndarray, labels: np.ndarray
) -> Bags:
    """Builds `Bags` from each instance's features, bag and label."""
    if features.ndim != 2 or not len(features) == len(numbers) == len(labels):
        raise _damaged(
            path,
            f"its features are of shape {features.shape}, and it has {len(numbers)} "
            f"numbers of bags and {len(labels)} labels",
        )
    wrong = np.flatnonzero(~(np.isfinite(numbers) & np.isfinite(labels)))
    if len(wrong):
        bad = f"bag {numbers[wrong[0]]:g} and label {labels[wrong[0]]:g}"
        raise _damaged(path, f"a bag and a label must be finite. Received: {bad}")
    positive = labels > 0
    names, bag = np.unique(numbers, return_inverse=True)
    count = np.bincount(bag)
    positives = np.bincount(bag, positive)
    mixed = np.flatnonzero((positives > 0) & (positives < count))
    if len(mixed):
        raise _damaged(path, f"bag {names[mixed[0]]:g} has instances of both labels")
    try:
        return Bags(features, bag, positives > 0)
    except ValueError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, what: str) -> files.DamagedDataError:
    return files.DamagedDataError(f"{path} is damaged: {what}. Get it again.")


def _find(name: str) -> Path:
    relative = f"mil/{_FILES[name]}"
    data = os.environ.get(files.DATA_VARIABLE)
    if not data:
        tried = f"The environment variable {files.DATA_VARIABLE} is not set."
    else:
        path = Path(data, *relative.split("/"))
        if path.is_file():
            return path
        tried = f"The folder named by {files.DATA_VARIABLE} has no file {path}."
    raise files.DataNotFoundError(
        f"{relative} could not be had. {tried}\n"
        f"Next: get {_FILES[name]} by hand ({_SOURCES[name]}), and name it with `path` "
        f"or put it at {relative} in a folder named by the environment variable "
        f"{files.DATA_VARIABLE}.",
        tried=(tried,),
    )
