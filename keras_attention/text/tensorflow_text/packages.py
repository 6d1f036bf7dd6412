"""Lazy imports of the packages of the extra `text`."""

import importlib
from typing import Any


def require(name: str) -> Any:
    """Imports a package of the extra `text`; an error names the extra."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"`keras_attention.text` needs the module `{name}`, which comes with the "
            'extra `text`: python -m pip install "keras-attention-family[text]". '
            f"Received: {error}",
            name=name,
        ) from error
