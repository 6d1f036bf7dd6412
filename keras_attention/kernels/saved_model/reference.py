"""SavedModels on the backends that cannot write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras


class Rules(NamedTuple):
    """The rules of an input, which the written file checks at each call."""

    vocabulary: int | None = None  # the number of tokens; None if the input has none
    positions: int | None = None  # the longest sequence; None for any length
    prompts: bool = False  # at least one token a row, with padding behind them alone
    padding: int | None = 0  # the token that is padding; None if no token is


def save_function(
    path: str,
    model: keras.Model,
    function: Callable[[Any], Any],
    spec: keras.InputSpec,
    rules: Rules,
    plain: bool,
) -> None:
    """Raises a ValueError."""
    raise ValueError(
        "A SavedModel with generation must be written on TensorFlow or JAX. Save the "
        "model with `model.save('model.keras')`; in a process with "
        "KERAS_BACKEND=tensorflow, load it with `keras.saving.load_model` and export "
        f"it there. Received: the backend {keras.config.backend()!r}"
    )
