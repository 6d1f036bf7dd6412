"""Helpers for batches of unequal sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import keras

Batch = TypeVar("Batch")


def differ_first(batches: list[Batch], size_of: Callable[[Batch], Any]) -> None:
    """On TensorFlow, makes the first two batches differ in size, if any do.

    On TensorFlow, Keras assumes that all batches have the common size of the first two.
    The first batch of a different size therefore moves to second place; the others keep
    their order.

    Args:
        batches: the batches in training order, changed in place.
        size_of: returns a batch's size.
    """
    if keras.config.backend() != "tensorflow":
        return
    for place, batch in enumerate(batches):
        if size_of(batch) != size_of(batches[0]):
            batches.insert(1, batches.pop(place))
            return
