"""Batches of unequal sizes, for `fit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import keras

from keras_attention.datasets import translation

Batch = TypeVar("Batch")


class Batches(keras.utils.PyDataset):
    """The batches of `translation.buckets`, in a new order in each epoch."""

    def __init__(self, buckets: translation.Buckets) -> None:
        super().__init__()
        self.buckets = buckets

    def __len__(self) -> int:
        return len(self.buckets)

    def __getitem__(self, index: int) -> Any:
        return self.buckets[index]

    def on_epoch_end(self) -> None:
        self.buckets.shuffle(self.buckets.epoch + 1)


def differ_first(batches: list[Batch], size_of: Callable[[Batch], Any]) -> None:
    """On TensorFlow, moves a batch of another size to second place, if there is one.

    If the first two batches have the same size, Keras on TensorFlow assumes this size
    for all batches. The first batch with another size than `batches[0]` therefore moves
    to second place. The order of the others does not change.

    Args:
        batches: the batches in training order, changed in place.
        size_of: a function that returns the size of a batch.
    """
    if keras.config.backend() != "tensorflow":
        return
    for place, batch in enumerate(batches):
        if size_of(batch) != size_of(batches[0]):
            batches.insert(1, batches.pop(place))
            return
