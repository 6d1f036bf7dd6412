"""Samplers that turn next-token scores into sequences, with KerasHub's protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from keras_attention.samplers.beam_sampler import BeamSampler
from keras_attention.samplers.sampler import (
    ExcludingSampler,
    GreedySampler,
    RandomSampler,
    Sampler,
    TopKSampler,
    TopPSampler,
)

KNOWN: dict[str, type[Sampler]] = {
    "greedy": GreedySampler,
    "beam": BeamSampler,
    "random": RandomSampler,
    "top_k": TopKSampler,
    "top_p": TopPSampler,
}


def get(identifier: Any) -> Callable:
    """Returns a sampler by its name or config. A callable is returned unchanged.

    Args:
        identifier: one of "greedy", "beam", "random", "top_k" and "top_p", which use
            their default arguments; a config from `keras.saving`; or a sampler of this
            package or of KerasHub.

    Raises:
        ValueError: if the name is unknown.
    """
    if isinstance(identifier, dict):
        sampler: Callable = keras.saving.deserialize_keras_object(identifier)
        return sampler
    if isinstance(identifier, str) and identifier in KNOWN:
        return KNOWN[identifier]()
    if callable(identifier) and not isinstance(identifier, type):
        return identifier
    raise ValueError(
        f"`sampler` must be one of {sorted(KNOWN)}, a sampler or its config. "
        f"Received: sampler={identifier!r}"
    )


def one_sequence(identifier: Any, of: str = "text") -> Any:
    """Returns a sampler as `get`; raises a ValueError if it returns all beams."""
    sampler = get(identifier)
    if getattr(sampler, "return_all_beams", False):
        raise ValueError(
            f"`sampler` must return one sequence for each {of}. "
            f"Received: a {type(sampler).__name__} with return_all_beams=True"
        )
    return sampler


__all__ = [
    "BeamSampler",
    "ExcludingSampler",
    "GreedySampler",
    "RandomSampler",
    "Sampler",
    "TopKSampler",
    "TopPSampler",
    "get",
]
__dir__ = __all__.copy
