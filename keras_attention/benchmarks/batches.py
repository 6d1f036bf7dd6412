"""What the benchmarks' batches of unequal sizes have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import keras

Batch = TypeVar("Batch")


def differ_first(batches: list[Batch], size_of: Callable[[Batch], Any]) -> None:
    """On TensorFlow, makes the first two batches differ in size, if any do.

    There Keras takes a size that the first two batches share for that of all. The first
    batch of another size than the first one's is moved behind it; the others keep their
    order.

    Args:
        batches: in the order in which they are trained on; it is changed in place.
        size_of: tells a batch's size.
    """
    if keras.config.backend() != "tensorflow":
        return
    for place, batch in enumerate(batches):
        if size_of(batch) != size_of(batches[0]):
            batches.insert(1, batches.pop(place))
            return
