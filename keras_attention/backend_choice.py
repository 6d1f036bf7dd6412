"""Chooses the backend before Keras is imported; docs/backends.md has the rule."""

from __future__ import annotations

import importlib.util
import json
import os
import sys

BACKENDS = ("jax", "torch", "tensorflow", "numpy", "openvino")


def choose_backend() -> None:
    """Sets KERAS_BACKEND if no backend is named and TensorFlow is not installed.

    Keras takes the backend that KERAS_BACKEND or keras.json names, and otherwise
    TensorFlow, even if it is not installed. In this case, this function names the first
    of JAX and torch that is installed. If Keras is imported, the function does nothing.

    At its first import, Keras writes TensorFlow into keras.json, whichever backend it
    uses. This name is therefore no choice of the user: without TensorFlow, it counts as
    no name. Any other name comes from the user. If that backend is not installed, an
    error tells the user, and no other backend replaces it.

    Raises:
        ImportError: if the named backend is not installed, or none is named and none is
            installed, or an earlier import of Keras did not finish.
        ValueError: if the named backend does not exist.
    """
    if "keras" in sys.modules:
        return
    source, name = _named_backend()
    installed = [name for name in BACKENDS[:3] if _is_installed(name)]
    by_default = not name or (name == "tensorflow" and source != "KERAS_BACKEND")
    if by_default:
        if not installed:
            raise ImportError(
                "Keras needs a backend. Received: none is installed. Install one: "
                "python -m pip install jax (or torch, or tensorflow)"
            )
    elif name not in BACKENDS:
        raise ValueError(
            f"{source} must be one of {', '.join(BACKENDS)}. Received: {name!r}"
        )
    elif not _is_installed(name):
        raise ImportError(
            f"{source} must name a backend that is installed "
            f"({', '.join(installed) or 'none is'}). Received: {name!r}. Name another "
            f"one, or install it: python -m pip install {name}"
        )
    if any(module.startswith("keras.") for module in sys.modules):
        raise ImportError(
            "An earlier import of Keras in this process did not finish, and Keras "
            "keeps the backend that it took then. Restart Python, or the kernel of a "
            "notebook, and import keras_attention before keras."
        )
    if by_default and "tensorflow" not in installed:
        os.environ["KERAS_BACKEND"] = installed[0]


def _named_backend() -> tuple[str, str | None]:
    """Returns where Keras reads the name of its backend, and the name, if any."""
    if os.environ.get("KERAS_BACKEND"):
        return "KERAS_BACKEND", os.environ["KERAS_BACKEND"]
    # The same steps as in keras/src/backend/config.py.
    home = os.path.expanduser("~")
    home = home if os.access(home, os.W_OK) else "/tmp"
    folder = os.environ.get("KERAS_HOME", os.path.join(home, ".keras"))
    path = os.path.expanduser(os.path.join(folder, "keras.json"))
    config = {}
    if os.path.exists(path):
        with open(path) as file:
            try:
                config = json.load(file)
            except ValueError:  # Keras ignores a damaged file
                config = {}
    return f"`backend` in {path}", config.get("backend")


def _is_installed(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    # A folder without code, such as one that an uninstallation left, has no origin.
    return spec is not None and spec.origin is not None
