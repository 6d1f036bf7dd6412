"""Warnings at the line of the user."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from typing import Any

import keras

# On torch, the files of the bases of a Keras layer are not all in Keras' folder.
_FOLDERS = tuple(
    os.path.join(folder, "") for folder in (os.path.dirname(__file__), *keras.__path__)
) + tuple(inspect.getfile(base) for base in keras.layers.Layer.__mro__[:-1])


class UntrainedInputWarning(UserWarning):
    """A network gets what its training did not have, so its answer may be wrong."""


def warn_user(
    message: str, category: type[Warning] = UserWarning, frame: Any = None
) -> None:
    """Warns at the first line, from a frame outwards, of neither package nor Keras."""
    frame = frame or sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_FOLDERS):
        frame = frame.f_back
    names = frame.f_globals
    seen = names.setdefault("__warningregistry__", {})
    place = frame.f_code.co_filename, frame.f_lineno, names.get("__name__")
    warnings.warn_explicit(message, category, *place, seen)
