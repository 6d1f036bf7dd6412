"""Checks that the current distribution can split the batches of a call."""

from __future__ import annotations

import inspect
from typing import Any

import keras

from keras_attention import kernels


def check_batches_divide(
    model: keras.Model, method: str, args: tuple, kwargs: dict[str, Any]
) -> None:
    """Raises a ValueError before a batch that the current distribution cannot split.

    Keras would raise an error in the middle of `fit`, and leave the model without
    weights. Data other than arrays are not checked. `method` is the name of the called
    method.
    """
    current = keras.distribution.distribution() if kernels.SPLITS_TENSORS else None
    if current is None:
        return
    # A process of several gives its own part of a batch.
    groups = max(1, current.num_model_replicas // current.num_processes)
    call: Any = getattr(keras.Model, method)
    given = inspect.signature(call).bind(model, *args, **kwargs).arguments
    for count, size in _counts_and_sizes(given, method.endswith("on_batch")):
        last = 0 if given.get("steps_per_epoch") or given.get("steps") else count % size
        found = [*{n: True for n in (min(size, count), last) if n}]
        if any(n % groups for n in found):
            sizes = " and ".join(map(str, found))
            raise ValueError(
                f"The size of a batch must be a multiple of {groups}: the distribution "
                "splits it over so many groups of devices of this process. Choose "
                "another `batch_size`, and drop or pad the last samples. "
                f"Received: {count} samples, in batches of {sizes}"
            )


def _counts_and_sizes(given: dict[str, Any], is_batch: bool) -> list[tuple[int, int]]:
    """Returns the number of samples and the batch size of each part of the data."""
    count = _count(given.get("x"))
    if count is None:
        return []
    if is_batch:
        return [(count, count)]
    size = given.get("batch_size") or 32
    tested = given.get("validation_batch_size") or size
    validation: Any = given.get("validation_data")
    tests = None if validation is None else _count(validation[0])
    if given.get("validation_split") and validation is None:
        kept = int(count * (1 - given["validation_split"]))
        count, tests = kept, count - kept
    return [(count, size)] + ([] if tests is None else [(tests, tested)])


def _count(x: Any) -> int | None:
    """Returns the number of samples of arrays, or None for other data."""
    shapes: list[Any] = [getattr(part, "shape", None) for part in keras.tree.flatten(x)]
    is_array = shapes and all(isinstance(s, tuple) and s for s in shapes)
    return int(shapes[0][0]) if is_array else None
