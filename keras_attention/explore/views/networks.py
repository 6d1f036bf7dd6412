"""The trained networks of the page, each loaded when a view first needs it."""

from __future__ import annotations

from typing import Any

from keras_attention import presets
from keras_attention.explore.views.texts import InputError

_loaded: dict[str, Any] = {}


def network(name: str) -> Any:
    """Returns a shipped network with its preprocessor, which all visitors share.

    Raises:
        InputError: the installed package does not ship it.
    """
    if name not in _loaded:
        if name not in presets.names():
            raise InputError(
                f"This view needs the trained network {name}, which this "
                "installation does not have."
            )
        _loaded[name] = presets.load(name)
    return _loaded[name]
