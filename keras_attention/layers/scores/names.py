"""Scores by name."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.layers.scores.cosine_score import CosineScore
from keras_attention.layers.scores.dot_score import DotScore
from keras_attention.layers.scores.general_score import GeneralScore
from keras_attention.layers.scores.rbf_score import RBFScore
from keras_attention.layers.scores.score import Score

NAMED: dict[str, tuple[type[Score], dict[str, Any]]] = {
    "dot": (DotScore, {}),
    "scaled_dot": (DotScore, {"scaled": True}),
    "cosine": (CosineScore, {}),
    "rbf": (RBFScore, {}),
    "general": (GeneralScore, {}),
}
SIZED = {  # what to write for a score that has no name, because it needs a size
    "additive": "AdditiveScore(units=…)",
    "bahdanau": "AdditiveScore(units=…)",
    "concat": "ConcatScore(units=…)",
    "location": "LocationScore(max_length=…)",
}


def get(identifier: Any, dtype: Any = None) -> Score:
    """Returns the score for a name, a config or a `Score`, or raises a ValueError."""
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if isinstance(identifier, Score):
        return identifier
    if isinstance(identifier, str) and identifier in NAMED:
        cls, arguments = NAMED[identifier]
        return cls(**arguments, dtype=dtype, name="score")
    check_needs_no_size(identifier)
    raise ValueError(
        f"`score` must be one of {sorted(NAMED)} or a score such as "
        f"AdditiveScore(units=…), which is Bahdanau's. Received: score={identifier!r}"
    )


def check_needs_no_size(name: Any) -> None:
    """Raises a ValueError with a hint for a score that needs a size, by its name."""
    if isinstance(name, str) and name in SIZED:
        raise ValueError(
            f"The score {name!r} needs a size: pass score={SIZED[name]} instead. "
            f"Received: score={name!r}"
        )
