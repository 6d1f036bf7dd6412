"""The view of a visitor's own model: its attention maps for ids that they type in."""

from __future__ import annotations

import pathlib
import re
import zipfile
import zlib
from functools import cache
from typing import Any

import keras
import numpy as np

from keras_attention.explore.views import texts
from keras_attention.layers import record_attention
from keras_attention.visualization import View, heads_view

MOST_IDS = 100
_TITLE = "The attention maps of your model"
_CAPTION = (
    "Each map is one attention layer. Rows attend, columns are attended to. Names of "
    "rows and columns are the ids of the input of that length, or positions."
)


def load(path: pathlib.Path) -> Any:
    """Loads a `.keras` file.

    Raises:
        InputError: the file is damaged, is not a `.keras` file, or holds classes that
            are not registered.
    """
    try:
        model = keras.saving.load_model(path, compile=False)
    except (
        AttributeError,
        EOFError,
        ImportError,
        KeyError,
        OSError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        first = str(error).strip().split("\n")[0][:300]
        raise texts.InputError(
            f"The file {path.name} cannot be opened as a Keras model. It may be "
            f"damaged, or hold classes that are not registered. Keras says: {first}"
        ) from error
    if not getattr(model, "inputs", None):
        raise texts.InputError(
            f"The model in {path.name} does not say which inputs it takes. This view "
            "needs a functional or sequential model."
        )
    return model


def example(tensor: Any) -> str:
    """Returns a first text for an input: as many small numbers as it takes."""
    *_, last = tensor.shape
    count = min(last or 8, MOST_IDS)
    words = ["1"] * count if "bool" in tensor.dtype else [str(n) for n in range(1, 9)]
    line = " ".join((words * count)[:count])
    rows = (tensor.shape[1] or 3) if len(tensor.shape) == 3 else 1
    return "\n".join([line] * min(rows, 20))


def described(path: str) -> tuple[str, list[tuple[str, str, int]]]:
    """Returns the name of the model in a file, and for each input a field of the page.

    A field is its label, its first text and its number of lines.

    Raises:
        InputError: see `load`.
    """
    model = _model(path)
    return model.name, [
        (
            f"{tensor.name} {tuple(tensor.shape)} {tensor.dtype}",
            example(tensor),
            3 if len(tensor.shape) == 3 else 1,
        )
        for tensor in model.inputs
    ]


def look_at_file(path: str, *args: str) -> View:
    """Shows the weights of the model in a file; see `look`."""
    return look(_model(path), *args)


@cache
def _model(path: str) -> Any:
    return load(pathlib.Path(path))


def look(model: Any, *args: str) -> View:
    """Calls a model with ids, a text for each input, and shows all attention maps.

    Raises:
        InputError: a text does not fit its input, the model cannot be called with the
            numbers, or it has no attention layer that can be recorded.
    """
    arrays = [_array(t, text) for t, text in zip(model.inputs, args)]
    inputs = keras.tree.pack_sequence_as(model.input, arrays)
    try:
        with record_attention() as maps:
            _call(model, inputs)
    except RuntimeError as error:  # nothing was recorded
        raise texts.InputError(
            f"The model “{model.name}” has no attention layer of this package, so "
            "there is nothing to show. Keras' own layers do not tell their weights: "
            "build the model with the layers of keras_attention."
        ) from error
    labels: dict[int, list[str]] = {}
    for array in arrays:
        row = array[0]
        names = [" ".join(map(str, line)) for line in row] if row.ndim > 1 else None
        texts_of_row = names or [f"{value:g}" for value in row]
        labels.setdefault(len(texts_of_row), texts_of_row)
    shown, queries, keys = {}, {}, {}
    for name, weights in maps.items():
        array = np.asarray(weights[0], "float64")
        if array.ndim == 1:  # a query without an axis of its own
            array = array[None]
        if array.ndim not in (2, 3) or not np.all((array > -1e-3) & (array < 1 + 1e-3)):
            continue  # scores of a linear start are no weights, nor is NaN
        shown[name] = array
        queries[name], keys[name] = (_names(labels, size) for size in array.shape[-2:])
    if not shown:
        raise texts.InputError(
            "None of the recorded maps holds weights between 0 and 1, so there is "
            "nothing to show."
        )
    return heads_view(shown, queries, keys, title=_TITLE, caption=_CAPTION)


def _call(model: Any, inputs: Any) -> None:
    """Calls a visitor's model, which may raise any error about their numbers."""
    try:
        model(inputs, training=False)
    except Exception as error:
        told = str(error).split("Arguments received")[0]  # Keras adds all arguments
        told = " ".join(re.sub(r"\x1b\[\d*m", "", told).split())[:300]
        raise texts.InputError(
            "The model cannot be called with these numbers. Perhaps one of them is an "
            f"id that an embedding does not have. Keras says: {told}"
        ) from error


def _names(labels: dict[int, list[str]], size: int) -> list[str]:
    return labels.get(size) or [f"position {n + 1}" for n in range(size)]


def _array(tensor: Any, text: str) -> np.ndarray:
    """Returns a text as the array of an input, with a batch of one."""
    name, rank, dtype = tensor.name, len(tensor.shape), tensor.dtype
    if rank not in (2, 3):
        raise texts.InputError(
            f"The input “{name}” has {rank} axes, {tuple(tensor.shape)}. This view can "
            "only take rows of numbers, of two or three axes."
        )
    lines = [line for line in (text or "").splitlines() if line.strip()]
    if not lines:
        raise texts.InputError(f"Please type numbers for the input “{name}”.")
    rows = [lines] if rank == 3 else [[" ".join(lines)]]
    numbers = [[_number(name, dtype, w) for w in line.split()] for line in rows[0]]
    length = tensor.shape[-1] or max(map(len, numbers))
    if max(map(len, numbers)) > min(length, MOST_IDS):
        raise texts.InputError(
            f"The input “{name}” takes at most {min(length, MOST_IDS)} numbers a line "
            f"here. You typed {max(map(len, numbers)):,}."
        )
    array = np.zeros((len(numbers), length))
    for row, line in zip(array, numbers):
        row[: len(line)] = line
    if rank == 3:
        most = tensor.shape[1] or MOST_IDS
        if len(array) > most:
            raise texts.InputError(
                f"The input “{name}” takes at most {most} lines here. You typed "
                f"{len(array):,}."
            )
        if tensor.shape[1]:
            array = np.pad(array, ((0, most - len(array)), (0, 0)))
    else:
        array = array[0]
    return array.astype(dtype)[None]


def _number(name: str, dtype: str, word: str) -> float:
    try:
        value = float(word.strip(",;"))
    except ValueError:
        value = np.nan
    if not np.isfinite(value) or ("int" in dtype and value != int(value)):
        kind = "whole numbers" if "int" in dtype else "numbers"
        raise texts.InputError(
            f"The input “{name}” takes {kind}, with spaces between them. You typed "
            f"“{word[:40]}”."
        )
    if "int" in dtype:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        if not least <= value <= most:
            raise texts.InputError(
                f"The input “{name}” takes whole numbers from {least} to {most}. You "
                f"typed “{word[:40]}”."
            )
    return value
