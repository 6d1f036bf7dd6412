"""Shared parts of rating models: tables of vectors and validation of indices.

Shapes: N examples.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops


class Tables:
    """Builds embeddings with a common regularization.

    Args:
        regularization: the factor of the sum of squares of each table, at least 0.
        dtype: the dtype of the layers.

    Raises:
        ValueError: for a negative regularization.
    """

    def __init__(self, regularization: float, dtype: Any) -> None:
        if not regularization >= 0:
            raise ValueError(
                "`regularization` must be at least 0. "
                f"Received: regularization={regularization}"
            )
        self.regularization = regularization
        self.dtype = dtype

    def __call__(self, size: int, dim: int, name: str) -> keras.layers.Embedding:
        """Builds a table of vectors with small initial dot products."""
        start = keras.initializers.RandomNormal(stddev=0.1 * dim**-0.5)
        return self._embedding(size, dim, start, name)

    def bias(self, size: int, name: str) -> keras.layers.Embedding:
        """Builds a table of biases, initialized to 0."""
        return self._embedding(size, 1, "zeros", name)

    def _embedding(
        self, size: int, dim: int, initializer: Any, name: str
    ) -> keras.layers.Embedding:
        regularizer = None
        if self.regularization:
            regularizer = keras.regularizers.L2(self.regularization)
        return keras.layers.Embedding(
            size,
            dim,
            embeddings_initializer=initializer,
            embeddings_regularizer=regularizer,
            dtype=self.dtype,
            name=name,
        )


def vectors(model: keras.Model, name: str) -> np.ndarray:
    """Returns the table of an embedding, float32."""
    table = model.get_layer(name).embeddings
    return np.asarray(ops.convert_to_numpy(ops.cast(table, "float32")))


def known(name: str, given: Any, size: int) -> np.ndarray:
    """Validates indices of users or items and returns them as int32 (N,).

    Args:
        name: the name of the argument.
        given: an integer, or integers (N,).
        size: the number of users or items.

    Raises:
        ValueError: for an index that is not an integer or is out of range.
    """
    found = np.asarray(ops.convert_to_numpy(given) if ops.is_tensor(given) else given)
    if found.ndim > 1 or (found.size and not np.issubdtype(found.dtype, np.integer)):
        raise ValueError(
            f"`{name}` must be an integer, or integers of shape (count,). "
            f"Received: dtype={found.dtype}, shape={found.shape}"
        )
    strangers = sorted({int(n) for n in found.flat if not 0 <= n < size})
    if strangers:
        raise ValueError(
            f"`{name}` must be known to the model, from 0 to {size - 1}: it has "
            "vectors only for those in its training data. "
            f"Received: {name} with {strangers[:5]}"
        )
    return found.astype("int32")


def pairs(**given: np.ndarray) -> tuple[np.ndarray, ...]:
    """Broadcasts arrays of indices to one length.

    Raises:
        ValueError: if the lengths do not match.
    """
    counts = {name: x.size for name, x in given.items() if x.ndim}
    if len(set(counts.values())) > 1:
        names = " and ".join(f"`{name}`" for name in given)
        raise ValueError(f"{names} must be as many. Received: {counts}")
    count = next(iter(counts.values()), 1)
    return tuple(np.broadcast_to(x, (count,)) for x in given.values())


def best(
    ratings: np.ndarray, count: int, left_out: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the items with the highest ratings and their ratings, best first.

    Args:
        ratings: the ratings of all items, (items,).
        count: the number of items to return.
        left_out: items to exclude.
    """
    is_valid = np.ones(len(ratings), bool)
    is_valid[left_out] = False
    order = np.argsort(-ratings, kind="stable")
    order = order[is_valid[order]][:count].astype("int32")
    return order, ratings[order]


def finite(name: str, given: np.ndarray) -> None:
    """Rejects values that are not finite.

    Raises:
        ValueError: for an infinite or NaN value.
    """
    if not np.isfinite(given).all():
        raise ValueError(
            f"`{name}` must be finite. Received: {name} with "
            f"{given[~np.isfinite(given)][:5].tolist()}"
        )
