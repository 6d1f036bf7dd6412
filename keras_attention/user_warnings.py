"""Warnings at the line of the user."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import keras

# On torch, the files of the bases of a Keras layer are not all in Keras' folder.
_FOLDERS = tuple(
    os.path.join(folder, "") for folder in (os.path.dirname(__file__), *keras.__path__)
) + tuple(inspect.getfile(base) for base in keras.layers.Layer.__mro__[:-1])

_Call = TypeVar("_Call", bound=Callable[..., Any])


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


def renamed_arguments(since: str, /, **names: str) -> Callable[[_Call], _Call]:
    """Decorates a constructor or a function so that old names of arguments work.

    An old name warns. A file that has it still loads, and has the new name after it is
    saved again, if the class defines `get_config`: Keras' automatic config would have
    both names. A method `call` cannot be decorated, since Keras binds its arguments to
    the new signature first.

    Args:
        since: the version that has the new names.
        **names: the new name of each old one.
    """

    def decorate(call: _Call) -> _Call:
        @functools.wraps(call)
        def renamed(*args: Any, **kwargs: Any) -> Any:
            for old in names.keys() & kwargs.keys():
                new, value = names[old], kwargs.pop(old)
                if new in kwargs:
                    raise TypeError(
                        f"`{old}` is the old name of `{new}`. Received: both"
                    )
                _warn_of_old_name(old, new, since)
                kwargs[new] = value
            return call(*args, **kwargs)

        # Keras does not follow `__wrapped__`.
        renamed.__signature__ = inspect.signature(call)  # type: ignore[attr-defined]
        return renamed  # type: ignore[return-value]

    return decorate


def renamed_attribute(module: str, since: str, name: str, **names: str) -> Any:
    """What the `__getattr__` of a module returns for an old name, with a warning.

    Args:
        module: the `__name__` of the module.
        since: the version that has the new names.
        name: the name that is asked for.
        **names: the new name of each old one.

    Raises:
        AttributeError: if the name is no old one.
    """
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    _warn_of_old_name(f"{module}.{name}", f"{module}.{names[name]}", since)
    return getattr(sys.modules[module], names[name])


def _warn_of_old_name(old: str, new: str, since: str) -> None:
    message = f"`{old}` is called `{new}` since version {since}. Use the new name."
    warn_user(message, DeprecationWarning, sys._getframe(1))
